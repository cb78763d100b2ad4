//! Directories that change as people and programs change them, and Envoys that end as they should and should not.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    missing_docs,
    reason = "tests"
)]

mod directory;
mod envoy;
mod refusals;
mod replicas;
