//! Fleets: the proxies of one Gateway, who they are, and what they are made of in a cluster. Pure: clock and randomness come in as arguments.
//!
//! ```text
//! Gateway NS/NAME ──▶ Fleet ──▶ bootstrap of its proxies (translate)
//! xds ──Transition──▶ Heard ──Event──▶ engine
//! FleetIntent ──▶ manifests ──▶ applier            Service as it is ──▶ binding ──Event──▶ engine
//! Secret as it is, time ──▶ look_after_authority ──▶ Authorities ──▶ identity_secret, server certificate
//! ```

mod addresses;
mod authority;
mod crds;
mod heard;
mod identity;
mod manifest;
mod names;
mod rbac;
mod secrets;
mod troubles;

use std::fmt;

use portolan_model::NamespacedName;
use portolan_translate::{BootstrapOptions, DEFAULT_CONNECTION_LIMIT, XdsServer};

pub use addresses::{binding, is_external};
pub use authority::{Authorities, CredentialError, LEAVES, Lifetimes, NewKey, SHORTEST_LEAF};
pub use crds::crds;
pub use heard::{Heard, gateway_of};
pub use identity::{Identity, Leaf, TRUST_DOMAIN};
pub use manifest::{DRAIN_TOKEN_HEADER, ManagedFleet, Manifests, ObjectId, Platform, Template, manifests, workloads};
pub use names::{GATEWAY_LABEL, PROXY, label_value, resource_name};
pub use rbac::{Rules, rules};
pub use secrets::{AUTHORITY_SECRET, AuthorityAction, authorities, identity_secret, look_after_authority};
pub use troubles::troubles;

/// The set of proxies that share one Snapshot: those of one Gateway. The xDS server knows it by this name
/// (`portolan_xds::FleetName`).
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Fleet {
    gateway: NamespacedName,
}

impl Fleet {
    /// The fleet of a Gateway.
    #[must_use]
    pub const fn of(gateway: NamespacedName) -> Self {
        Self { gateway }
    }

    /// Bootstrap settings of a proxy, with no limit on memory and no zone. The node's names are for people: a stream belongs to a
    /// fleet by its credentials, whatever the node says (design invariant 7).
    #[must_use]
    pub fn bootstrap_options(&self, xds: XdsServer, admin_socket: String) -> BootstrapOptions {
        BootstrapOptions {
            node_id: self.to_string(),
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
impl fmt::Display for Fleet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.gateway.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bootstrap_names_its_fleet() {
        let fleet = Fleet::of(NamespacedName::new("infra", "edge"));
        let options = fleet.bootstrap_options(XdsServer::Unix { path: "/x".into() }, "/a".into());
        assert_eq!((options.node_cluster.as_str(), options.admin_socket.as_str()), ("infra/edge", "/a"));
        assert_eq!(options.connection_limit, DEFAULT_CONNECTION_LIMIT);
    }
}
