//! The program as people and programs use it: its commands, the examples, and `portolan run` with a real Envoy and real traffic.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    missing_docs,
    reason = "tests"
)]

mod broken;
mod certificates;
mod charts;
mod commands;
mod examples;
mod fixture;
mod proxy;
mod run;
