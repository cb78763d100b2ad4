//! What the real Envoy says of the produced configuration, and what it does with it.

mod accepted;
#[path = "../cases/mod.rs"]
mod cases;
mod expressions;
mod generated;
mod proxy;
mod routing;
mod transforming;
mod transport;
