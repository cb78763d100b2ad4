//! Envoy's messages, and what a control plane hands to proxies.
//!
//! In: nothing but types. Out: [`Resource`]s that are encoded once and shared, [`Snapshot`]s of them with a change log, the raw delta
//! messages that carry pre-encoded resources, and a JSON view of any Envoy message.
//!
//! ```text
//! translate ──Resource──▶ engine ──Change──▶ Snapshot ◀──reads── xds (streams)
//!                                              └──────▶ json (translate -o json, goldens)
//! ```
//!
//! Invariants: a [`Version`] is a hash of canonical content, never of encoded bytes; origins never influence a version.

pub mod delta;
pub mod envoy;
pub mod json;
pub mod resource;
pub mod snapshot;

pub use delta::{DeltaResource, DeltaResponse};
pub use prost;
pub use resource::{
    Body, Content, HostTable, Origin, Origins, PROBE_TABLE, Part, Resource, ResourceKey, ResourceType, Unit, Version,
    VirtualHostBody,
};
pub use snapshot::{Change, LogEntry, Snapshot};
