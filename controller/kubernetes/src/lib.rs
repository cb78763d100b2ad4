//! Everything that speaks to the API server.
//!
//! In: the API server's lists, watches and answers. Out: [`Notice`]s, batches of objects that are one moment each.
//!
//! ```text
//! discovery ─▶ watch ─┬─ follow (one task per collection) ─▶ ingest (pure) ─▶ Notice ─▶ whoever owns the state
//!                     └─ reads that confirm ────────────────▶
//! ```
//!
//! Invariants: a watch that is broken blocks no other and takes nothing away; an object that cannot be read is reported beside the others;
//! a name that was deleted and made again is another object; no clock decides what is true, only how long a doubt may last.

mod meta;
pub mod watch;

pub use meta::{Bundle, KindState, Meta, Notice, Observed};
