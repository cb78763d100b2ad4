//! Portolan without Kubernetes: manifests on disk, Envoys as processes of this machine.
//!
//! In: a directory of manifests; what the proxies say. Out: the changes of each fleet's Snapshot, findings, statuses as Kubernetes
//! would show them, running Envoys.
//!
//! ```text
//! directory ─Update─▶ control_plane (engine, binding, bookkeeping) ─Change─▶ xds ◀─▶ Envoys ◀─ envoy (supervisor)
//!     └─Finding─▶ terminal          └─statuses─▶ terminal, admin
//! ```
//!
//! Invariants: what is in force never depends on a file that cannot be read; an object that is refused keeps its last accepted version
//! for this process; an Envoy outlives this process unless it ends in order.

pub mod binding;
pub mod bookkeeping;
pub mod control_plane;
pub mod descriptors;
pub mod directory;
pub mod envoy;
mod finding;
mod problems;

pub use finding::{Finding, FindingChanges};
pub use problems::problems;
