//! Against a real API server, which `make kube` builds.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stderr,
    reason = "tests"
)]

#[path = "apiserver/watcher.rs"]
mod watcher;
#[path = "apiserver/watching.rs"]
mod watching;
