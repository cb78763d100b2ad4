//! Everything that speaks to the API server.

mod meta;

pub use meta::{KindState, Meta, Notice, Observed};
