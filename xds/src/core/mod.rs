//! The protocol as a pure state machine.
//!
//! ```text
//! Fleet ── Snapshot (shared)
//!   └─ Stream, one per proxy ── per type: Subscribed (a bit per name), Exceptions (where it differs), one Outstanding response
//!        ├─ stream: requests in          ├─ plan: responses out
//!        ├─ cut_off: what may go out while this replica does not know what is going on
//!        └─ probing: Probe, Search: which part of a refused table is to blame
//! ```

mod cut_off;
pub(crate) mod event;
mod exception;
pub(crate) mod fleet;
pub(crate) mod limits;
mod names;
mod per_type;
mod plan;
mod probe;
mod probing;
mod retry;
mod search;
pub(crate) mod stream;
mod wire_version;

#[cfg(test)]
mod tests;
