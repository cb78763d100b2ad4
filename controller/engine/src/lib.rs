//! The incremental engine: a world of objects in; per fleet what changed, statuses and fleet intents out.
//!
//! ```text
//!  events ─▶ store (equal value: no event)
//!              │ reads changed
//!              ▼
//!  0 gateway view ─▶ 1 parent view, backend view, listener plans ─▶ 2 route view ─▶ 3 host entries ─▶ 4 virtual host ─┐
//!                                                                                   4 cluster, endpoints, secret ────┤
//!                                                                                   5 status                         ▼
//!                                                                                             fleets: Snapshot, changes
//! ```
//!
//! Every node of the graph is a pure function of what it reads through [`portolan_resolve::World`]. Reads are recorded, so a change
//! finds its dependents through the reverse index and never by a scan; a result equal to the one before ends the propagation.
//!
//! Invariants, each with a property test: after any sequence of batches the engine equals a fresh one that got the final world in one
//! batch; the order of events does not matter; a batch that changes no value changes nothing.
//!
//! Single-threaded, no I/O. The time is an event like any other; [`Engine::due`] says when it makes a difference next.

mod clock;
mod compute;
mod engine;
mod few;
mod fleet;
mod graph;
mod input;
mod install;
mod node;
mod recorder;
mod refusals;
mod refused;
mod store;

pub use engine::Engine;
pub use input::{Event, FleetIntent, Options, Output};
pub use node::ReadKind;
pub use recorder::Recorder;
pub use refused::{Refused, Subject};
