//! Fleets: the proxies of one Gateway, and who they are.
//!
//! ```text
//! Gateway NS/NAME ──▶ FleetName ──▶ node of a proxy ──▶ bootstrap (translate)
//! ```
//!
//! What manages fleets in a cluster (manifests, credentials, revisions) is not here yet.

use std::fmt;

use portolan_model::NamespacedName;
use portolan_translate::{BootstrapOptions, DEFAULT_CONNECTION_LIMIT, XdsServer};

/// The set of proxies that share one Snapshot: those of one Gateway.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FleetName {
    gateway: NamespacedName,
}

impl FleetName {
    /// The fleet of a Gateway.
    #[must_use]
    pub const fn of(gateway: NamespacedName) -> Self {
        Self { gateway }
    }

    /// The Gateway that the fleet serves.
    #[must_use]
    pub const fn gateway(&self) -> &NamespacedName {
        &self.gateway
    }

    /// `node.id` of one of its proxies. For people: a stream belongs to a fleet by its credentials, whatever the node says (design
    /// invariant 7).
    #[must_use]
    pub fn node_id(&self, proxy: &str) -> String {
        format!("{self}/{proxy}")
    }

    /// Bootstrap settings of the proxy of this name, with no limit on memory and no zone.
    #[must_use]
    pub fn bootstrap_options(&self, proxy: &str, xds: XdsServer, admin_socket: String) -> BootstrapOptions {
        BootstrapOptions {
            node_id: self.node_id(proxy),
            node_cluster: self.to_string(),
            zone: String::new(),
            xds,
            admin_socket,
            heap_limit: None,
            connection_limit: DEFAULT_CONNECTION_LIMIT,
        }
    }
}

/// `NAMESPACE/NAME` of the Gateway.
impl fmt::Display for FleetName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.gateway.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proxies_are_told_apart_and_fleets_too() {
        let fleet = FleetName::of(NamespacedName::new("infra", "edge"));
        let options = fleet.bootstrap_options("1", XdsServer::Unix { path: "/x".into() }, "/a".into());
        assert_eq!((options.node_id.as_str(), options.node_cluster.as_str()), ("infra/edge/1", "infra/edge"));
        assert_ne!(fleet.node_id("1"), fleet.node_id("2"));
    }
}
