//! Backends: what a `backendRef` resolves to.

use std::net::IpAddr;
use std::sync::Arc;

use crate::{Kind, Name, NamespacedName};

/// A backend as routes refer to it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BackendId {
    /// `Service` or `Backend`
    pub kind: Kind,
    pub name: NamespacedName,
    /// The Service's port; 0 for a Backend, whose endpoints have their own
    pub port: u16,
}

/// What the backend is, as far as routes care: independent of its endpoints.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BackendView {
    Found {
        /// What the Service port's `appProtocol` (or Backend's `appProtocols`) says
        protocol: UpstreamProtocol,
        /// The protocols of clusters that Envoy refused, as they are now or with the endpoints that they have now, and its text:
        /// routes that need one of these cannot use the backend
        refused: Vec<(UpstreamProtocol, Arc<str>)>,
    },
    /// `ResolvedRefs=False/BackendNotFound`, with what is missing
    NotFound(Arc<str>),
    /// `ResolvedRefs=False/UnsupportedProtocol`: an `appProtocol` that Portolan does not speak, or a UDP port
    UnsupportedProtocol(Arc<str>),
}

/// How Envoy speaks to a backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum UpstreamProtocol {
    Http1,
    /// HTTP/2 in clear text with prior knowledge; gRPC always
    Http2,
    /// HTTP/1.1 with `Upgrade: websocket`; the cluster is the same as that of `Http1`
    WebSocket,
}

/// Identity of a cluster (design invariant 8): the backend and the protocol that the route's kind needs.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ClusterKey {
    pub backend: BackendId,
    /// `Http1` or `Http2`
    pub protocol: UpstreamProtocol,
}

impl ClusterKey {
    /// Name of the cluster and of its endpoints within the fleet: `service/shop/cart/8080/http1`.
    #[must_use]
    pub fn resource_name(&self) -> String {
        let BackendId { kind, name, port } = &self.backend;
        let kind = if *kind == Kind::Service { "service" } else { "backend" };
        let protocol = if self.protocol == UpstreamProtocol::Http2 { "http2" } else { "http1" };
        format!("{kind}/{}/{}/{port}/{protocol}", name.namespace, name.name)
    }

    /// The key that has this [`ClusterKey::resource_name`]; `None` where none has.
    #[must_use]
    pub fn of_resource(name: &str) -> Option<Self> {
        let parts: Vec<&str> = name.split('/').collect();
        let [kind, namespace, name, port, protocol] = parts[..] else { return None };
        let kind = match kind {
            "service" => Kind::Service,
            "backend" => Kind::Backend,
            _ => return None,
        };
        let protocol = match protocol {
            "http1" => UpstreamProtocol::Http1,
            "http2" => UpstreamProtocol::Http2,
            _ => return None,
        };
        let backend = BackendId { kind, name: NamespacedName::new(namespace, name), port: port.parse().ok()? };
        Some(Self { backend, protocol })
    }
}

/// A cluster without its endpoints.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ClusterPlan {
    pub key: ClusterKey,
    pub discovery: Discovery,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Discovery {
    /// Endpoints come by EDS under the cluster's own name
    Endpoints,
    /// Envoy resolves the names itself: hostname and port
    Dns(Vec<(Name, u16)>),
}

/// The endpoints of a cluster.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct EndpointsPlan {
    pub cluster: ClusterKey,
    /// By zone; sorted, without duplicates
    pub localities: Vec<LocalityPlan>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LocalityPlan {
    /// Empty: unknown
    pub zone: Name,
    pub endpoints: Vec<EndpointPlan>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EndpointPlan {
    pub address: EndpointAddress,
    /// Terminating but still serving: used only while no ready one is left
    pub draining: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum EndpointAddress {
    Socket(IpAddr, u16),
    Unix(Name),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cluster_is_found_by_its_resource() {
        for (kind, port, protocol) in
            [(Kind::Service, 8080, UpstreamProtocol::Http1), (Kind::Backend, 0, UpstreamProtocol::Http2)]
        {
            let backend = BackendId { kind, name: NamespacedName::new("shop", "cart.v1"), port };
            let key = ClusterKey { backend, protocol };
            assert_eq!(ClusterKey::of_resource(&key.resource_name()), Some(key));
        }
        for other in ["portolan/invalid", "service/a/b/c/http1", "pod/a/b/1/http1", "service/a/b/1/http3"] {
            assert_eq!(ClusterKey::of_resource(other), None, "{other}");
        }
    }
}
