//! Intermediate representation to Envoy resources and bootstrap.
//!
//! In: the plans of `portolan_model::ir`, one at a time. Out: one [`portolan_proto::Resource`] (or one virtual host of a table) per
//! plan, and the bootstrap with which an Envoy comes to ask for them.
//!
//! ```text
//! ClusterPlan ───▶ cluster ──────┐
//! EndpointsPlan ─▶ endpoints ────┤
//! SecretPlan ────▶ secret ───────┼─▶ Resource { key, version, body, references, origins }
//! ListenerPlan ──▶ listener ─────┤
//! HostPlan ──────▶ virtual_host ─┴─▶ table (the sum of its hosts)
//!
//! BootstrapOptions ─▶ bootstrap                  Snapshot ─▶ static_bootstrap
//! ```
//!
//! Invariants
//! - Pure and total: a plan always gives a resource. What Envoy would refuse is excluded before (resolution) or comes back as a
//!   refusal of the smallest unit, which then answers 500 ([`virtual_host`], [`refused_host`]).
//! - A version is a hash of the plan and of the type's [epoch](epochs), never of encoded bytes (design invariant 1).
//! - A route or a policy on routes never changes a listener (design invariant 9): filters are installed once, in a form that does
//!   nothing until a route configures them.

mod access_log;
mod address;
mod bootstrap;
mod cluster;
mod endpoints;
pub mod epochs;
mod http_connection;
mod key;
mod listener;
mod origin;
mod probe;
mod route;
mod secret;
mod source;
mod static_bootstrap;
mod table;
mod tls;
mod version;
mod virtual_host;

pub use bootstrap::{
    AUTHORITIES_SECRET, BootstrapOptions, DEFAULT_CONNECTION_LIMIT, ENVOY_ARGUMENTS, IDENTITY_SECRET, LOCAL_CLUSTER,
    SecretFiles, ServerTls, XDS_CLUSTER, XdsServer, bootstrap,
};
pub use cluster::{INVALID_CLUSTER, cluster};
pub use endpoints::{endpoints, local_endpoints};
pub use key::{cluster_key, endpoints_key, port_of_listener, secret_key, table_key};
pub use listener::listener;
pub use probe::{PROBE_LISTENER, probe_listener, probe_table};
pub use secret::secret;
pub use source::ADS;
pub use static_bootstrap::{StaticError, static_bootstrap};
pub use table::{table, table_head, table_head_version};
pub use virtual_host::{TableContext, refused_host, virtual_host};
