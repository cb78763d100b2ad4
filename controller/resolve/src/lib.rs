//! Objects to intermediate representation and findings.
//!
//! In: a [`World`] (objects, indexes over them, results of lower strata). Out: the values of [`portolan_model::ir`]. Each function
//! here is one kind of node of the engine: pure, it reads the World and nothing else, and equal results mean that nothing above
//! has to be computed again.
//!
//! ```text
//! gateway::view ─┬─▶ parent::view ──▶ route::view ──▶ host::hosts_of ──▶ host::plan
//!                ├─▶ listener::plans                    ▲
//!                └─▶ host::listener_hosts ──────────────┘
//! backend::view ───▶ route::view
//!              └───▶ backend::cluster ──▶ endpoints::plan          secret::plan
//! status::*     from all of these and from what the proxies said    explain: walks them for one request
//! ```
//!
//! Invariants: an object cannot fail the whole, it gives a result or findings; what protects something and cannot be done as written
//! fails closed; what Envoy would refuse does not get into a result; lists are in an order that follows from the objects.

pub mod backend;
mod certificate;
pub mod endpoints;
pub mod explain;
pub mod features;
pub mod gateway;
mod headers;
pub mod host;
pub mod hostname;
mod installation;
pub mod listener;
mod namespaces;
pub mod parent;
mod rank;
pub mod re2;
mod refs;
mod remedy;
pub mod route;
pub mod secret;
pub mod status;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod validity;
pub mod world;

pub use world::{FleetState, PortRefusal, Refusal, RefusedPlace, World};
