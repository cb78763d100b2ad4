//! Envoys as processes on this machine: finding the binary, starting one per Gateway, watching over it, draining and ending it.
//!
//! An Envoy outlives a `portolan run` that is killed: it is in a process group of its own, logs to a file, and talks to sockets in a
//! directory that the next `portolan run` of the same manifests finds again. That one takes it over.

pub mod admin;
mod binary;
mod log;
pub mod ports;
mod process;
mod runtime;
mod supervisor;

pub use binary::{EnvoyBinary, EnvoyError, EnvoyVersion, Places};
pub use process::Identity;
pub use runtime::{EnvoyFiles, EnvoyState, Runtime, RuntimeError, user};
pub use supervisor::{Report, Start, Supervisor, SupervisorOptions};
