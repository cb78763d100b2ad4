//! What the real Envoy says of the produced configuration, and what it does with it.

mod accepted;
#[path = "../cases/mod.rs"]
mod cases;
mod proxy;
mod routing;
mod transforming;
mod transport;
