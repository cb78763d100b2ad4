//! Everything that speaks to the API server.
//!
//! In: the API server's lists, watches and answers. Out: [`Notice`]s, batches of objects that are one moment each.
//!
//! ```text
//! discovery ─▶ watch ─┬─ follow (one task per collection) ─▶ ingest (pure) ─▶ Notice ─▶ whoever owns the state
//!                     └─ reads that confirm ────────────────▶
//!
//! statuses ─▶ status ─▶ events ─┐
//! manifests ─▶ applier ─────────┴──▶ API server, while this replica leads
//! lease, report ◀──────────────────▶ API server, every replica
//! ```
//!
//! Invariants: a watch that is broken blocks no other and takes nothing away; an object that cannot be read is reported beside the others;
//! a name that was deleted and made again is another object; no clock decides what is true, only how long a doubt may last.

pub mod applier;
mod backoff;
mod bucket;
mod client;
pub mod events;
mod finalizer;
pub mod lease;
mod meta;
pub mod report;
mod resource;
pub mod status;
mod time;
pub mod watch;

use std::collections::BTreeMap;

pub use applier::{ApplierOptions, Manifests};
pub use client::{bounded, client};
pub use events::{EventSink, events};
pub use finalizer::hold_class;
pub use lease::{LEASE, Leadership, Lease, LeaseOptions};
pub use meta::{Bundle, KindState, Meta, Notice, Observed};
pub use resource::{has_status, resource};
pub use status::{StatusOptions, Statuses};

/// In whose name fields are written.
pub const FIELD_MANAGER: &str = "portolan";

/// Labels of the control plane's own objects.
fn own_labels() -> BTreeMap<String, String> {
    [("app.kubernetes.io/name", "portolan"), ("app.kubernetes.io/managed-by", "portolan")]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into()
}
