//! Delta ADS server over snapshots.
//!
//! In: changes of the resources of each fleet of proxies ([`Server::publish`]), and the proxies' connections ([`Server::serve`]). Out: to
//! each proxy what it lacks, in an order that never breaks traffic; to the engine what proxies accepted and refused ([`Transition`]).
//!
//! ```text
//! engine ──publish──▶ Server ─▶ Fleet (Snapshot, Streams) ◀──requests── pump ◀── service ◀── proxy
//!    ◀──Transition──────┘          └───────responses─────────────────▶ pump ──▶ framing ─▶ proxy
//! ```
//!
//! The protocol is the pure state machine in `core`; `pump`, `service`, `framing` and `frames` are the thin rest that does I/O.
//!
//! Invariants (design section 4): only delta; make before break, driven by answers; endpoints wait for nothing but their own answer; a
//! table is never removed; a refused resource holds nothing else back and is not sent again (save a listener whose port was taken); a proxy in step costs a position and a bit
//! per name; streams are held until the gate opens and bound to a fleet by their credentials; a
//! server that is cut off from what is going on takes nothing away and changes nothing.

mod core;
mod frames;
mod framing;
mod metrics;
mod pump;
mod server;
mod service;
mod transition;

pub use core::limits::Limits;
pub use server::{Options, Server};
pub use transition::{FleetName, StreamId, Transition};
