//! The objects that Portolan reads, normalised, and the types that resolution hands to translation.
//!
//! In: manifests as text or as JSON of an API server ([`read`]). Out: [`objects::Object`] values with findings, the types of the
//! intermediate representation ([`ir`]) and the table of conditions.
//!
//! ```text
//! text ─▶ read (structure, defaults, limits, cross-field rules) ─▶ Object ─▶ resolve ─▶ ir ─▶ translate
//! ```
//!
//! Invariants: pure (no clock, no I/O); a value holds every field of the API; two values are equal exactly when nothing differs that
//! Portolan acts upon.

pub mod command_operator;
mod condition;
pub mod ir;
mod key;
pub mod objects;
pub mod read;

pub use condition::{Condition, ConditionType, Reason};
pub use key::{CONTROLLER_NAME, GATEWAY_GROUP, Kind, Name, NamespacedName, ObjectKey, PORTOLAN_GROUP};
