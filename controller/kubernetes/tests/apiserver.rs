//! Against a real API server, which `make kube` builds.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stderr,
    clippy::print_stdout,
    reason = "tests"
)]

#[path = "apiserver/applier.rs"]
mod applier;
#[path = "apiserver/confirming.rs"]
mod confirming;
#[path = "apiserver/events.rs"]
mod events;
#[path = "apiserver/fixture.rs"]
mod fixture;
#[path = "apiserver/lease.rs"]
mod lease;
#[path = "apiserver/report.rs"]
mod report;
#[path = "apiserver/rights.rs"]
mod rights;
#[path = "apiserver/status.rs"]
mod status;
#[path = "apiserver/watcher.rs"]
mod watcher;
#[path = "apiserver/watching.rs"]
mod watching;
