//! Objects to intermediate representation and findings.

pub mod world;

pub use world::{FleetState, Refusal, World};
