//! The bootstrap of a proxy: how it comes to Portolan, and what cannot be added later without a restart (design section 6).

mod overload;
mod runtime;
mod stats;
mod xds;

use portolan_proto::envoy::bootstrap::bootstrap::{DeferredStatOptions, StaticResources};
use portolan_proto::envoy::bootstrap::{Admin, Bootstrap, ClusterManager};
use portolan_proto::envoy::cluster::Cluster;
use portolan_proto::envoy::cluster::cluster::{ClusterDiscoveryType, DiscoveryType, EdsClusterConfig};
use portolan_proto::envoy::core::{Locality, Node, TypedExtensionConfig};
use portolan_proto::envoy::{internal_listener, pack_any};

use crate::{ADS, address};

pub use overload::DEFAULT_CONNECTION_LIMIT;
pub(crate) use runtime::runtime;
pub use xds::{AUTHORITIES_SECRET, IDENTITY_SECRET, SecretFiles, ServerTls, XDS_CLUSTER, XdsServer};

/// Cluster of the proxies themselves, which zone-aware routing compares with a backend's endpoints. Its endpoints come over the
/// stream like any other's.
pub const LOCAL_CLUSTER: &str = "portolan/local";

/// Arguments for Envoy beside its configuration. Connections of a changed filter chain, and those of a proxy that shuts down, end
/// gradually within ten minutes, or at once where the client's next response says so (envoy-l4-secrets-drain.md 7.2). Hot restart is
/// off: it would tie Envoys of one machine together by a number.
pub const ENVOY_ARGUMENTS: [&str; 5] =
    ["--drain-time-s", "600", "--drain-strategy", "gradual", "--disable-hot-restart"];

/// What one proxy's bootstrap depends on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BootstrapOptions {
    /// `node.id`: names the proxy in logs. Portolan does not trust it.
    pub node_id: String,
    /// `node.cluster`: names the fleet in logs
    pub node_cluster: String,
    /// Zone of the proxy; empty: unknown
    pub zone: String,
    /// The control plane
    pub xds: XdsServer,
    /// Path of the Unix socket for Envoy's admin interface, which is for the proxy's owner alone (mode 0600)
    pub admin_socket: String,
    /// Memory in bytes above which Envoy sheds load; `None`: no limit
    pub heap_limit: Option<u64>,
    /// Connections of clients above which new ones are refused ([`DEFAULT_CONNECTION_LIMIT`])
    pub connection_limit: u64,
}

/// The bootstrap of a proxy that gets everything else from Portolan.
#[must_use]
pub fn bootstrap(options: &BootstrapOptions) -> Bootstrap {
    Bootstrap {
        node: Some(Node {
            id: options.node_id.clone(),
            cluster: options.node_cluster.clone(),
            locality: (!options.zone.is_empty()).then(|| Locality { zone: options.zone.clone(), ..Default::default() }),
            ..Default::default()
        }),
        admin: Some(Admin { address: Some(address::unix(&options.admin_socket, 0o600)), ..Default::default() }),
        dynamic_resources: Some(xds::dynamic_resources()),
        static_resources: Some(StaticResources {
            clusters: vec![xds::cluster(&options.xds), local_cluster()],
            ..Default::default()
        }),
        cluster_manager: Some(ClusterManager {
            local_cluster_name: LOCAL_CLUSTER.into(),
            // A worker builds its part of a cluster when the first request needs it: 26 % less memory at 3,000 clusters.
            enable_deferred_cluster_creation: true,
            ..Default::default()
        }),
        deferred_stat_options: Some(DeferredStatOptions { enable_deferred_creation_stats: true }),
        stats_config: Some(stats::config()),
        layered_runtime: Some(runtime()),
        overload_manager: Some(overload::manager(options.heap_limit, options.connection_limit)),
        bootstrap_extensions: vec![TypedExtensionConfig {
            // For the probe, a listener without a socket
            name: "envoy.bootstrap.internal_listener".into(),
            typed_config: Some(pack_any(internal_listener::InternalListener::default())),
        }],
        ..Default::default()
    }
}

fn local_cluster() -> Cluster {
    Cluster {
        name: LOCAL_CLUSTER.into(),
        cluster_discovery_type: Some(ClusterDiscoveryType::Type(DiscoveryType::Eds.into())),
        eds_cluster_config: Some(EdsClusterConfig { eds_config: Some(ADS), ..Default::default() }),
        ..Default::default()
    }
}
