//! Portolan as it is installed, in a real cluster, under load: `make test-live`, or `conformance/live.sh TEST`, which runs this in the cluster's network.
//!
//! ```text
//! load ──▶ address of the fleet's Service ──▶ pods of the fleet ──▶ echo servers in this process, on the node's address
//!                                                  ▲ xDS
//!                                   two pods of Portolan, one of which leads
//! ```
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::float_cmp,
    reason = "tests; metrics are whole numbers"
)]

mod bed;
mod certificates;
mod followers;
mod process;
mod restarts;
mod scene;
mod services;
