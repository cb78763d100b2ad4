//! What tests, demonstrations and benchmarks share: real backends, real load, and the real Envoy as a process.
//!
//! ```text
//! Dir (manifests) ──▶ portolan run ──xDS──▶ envoy::Envoy
//!                                               │
//! load::Load, client::send ──requests──────────▶│──▶ echo::Echo (says who it is and what arrived)
//! ```
//!
//! Development only: nothing that ships depends on this crate. Errors are `anyhow`, since a test can only report them.
//!
//! Invariants:
//! - An answer is judged by what the backend says arrived, never by its status alone.
//! - A request that broke is never silently tried again: [`load`] says exactly when a second try is the protocol's own rule.
//! - Whatever is started ends with the value that stands for it (servers, processes, files), by its own id.

pub mod certs;
pub mod client;
pub mod dir;
pub mod echo;
pub mod envoy;
pub mod examples;
pub mod forwarder;
pub mod kube;
pub mod load;
pub mod manifest;
pub mod portolan;
pub mod ports;
pub mod process;

pub use dir::Dir;
pub use echo::{Echo, EchoOptions};
pub use forwarder::Forwarder;
pub use kube::{Kube, KubeOptions};
pub use portolan::Portolan;
pub use process::Process;
