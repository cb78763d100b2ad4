//! Names and kinds of objects.

use std::fmt;
use std::sync::Arc;

/// A name that is shared rather than copied.
pub type Name = Arc<str>;

/// The kinds that Portolan reads. The numbers are part of the hashes that are versions of xDS resources: a new kind gets the next one, and
/// none ever changes, or an upgrade would send every cluster again (design invariant 1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    GatewayClass = 0,
    Gateway = 1,
    ListenerSet = 2,
    HTTPRoute = 3,
    GRPCRoute = 4,
    TLSRoute = 5,
    TCPRoute = 6,
    UDPRoute = 7,
    ReferenceGrant = 8,
    BackendTLSPolicy = 9,
    /// `portolan.dev`
    Backend = 10,
    /// `portolan.dev`
    EnvoyProxy = 16,
    Namespace = 11,
    Service = 12,
    EndpointSlice = 13,
    Secret = 14,
    ConfigMap = 15,
}

/// The group of the Gateway API.
pub const GATEWAY_GROUP: &str = "gateway.networking.k8s.io";
/// The group of Portolan's own kinds.
pub const PORTOLAN_GROUP: &str = "portolan.dev";
/// The controller name by which a GatewayClass asks for Portolan.
pub const CONTROLLER_NAME: &str = "portolan.dev/gateway-controller";

impl Kind {
    /// Every kind.
    pub const ALL: [Self; 17] = [
        Self::GatewayClass,
        Self::Gateway,
        Self::ListenerSet,
        Self::HTTPRoute,
        Self::GRPCRoute,
        Self::TLSRoute,
        Self::TCPRoute,
        Self::UDPRoute,
        Self::ReferenceGrant,
        Self::BackendTLSPolicy,
        Self::Backend,
        Self::EnvoyProxy,
        Self::Namespace,
        Self::Service,
        Self::EndpointSlice,
        Self::Secret,
        Self::ConfigMap,
    ];

    /// The kind's name as manifests write it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::GatewayClass => "GatewayClass",
            Self::Gateway => "Gateway",
            Self::ListenerSet => "ListenerSet",
            Self::HTTPRoute => "HTTPRoute",
            Self::GRPCRoute => "GRPCRoute",
            Self::TLSRoute => "TLSRoute",
            Self::TCPRoute => "TCPRoute",
            Self::UDPRoute => "UDPRoute",
            Self::ReferenceGrant => "ReferenceGrant",
            Self::BackendTLSPolicy => "BackendTLSPolicy",
            Self::Backend => "Backend",
            Self::EnvoyProxy => "EnvoyProxy",
            Self::Namespace => "Namespace",
            Self::Service => "Service",
            Self::EndpointSlice => "EndpointSlice",
            Self::Secret => "Secret",
            Self::ConfigMap => "ConfigMap",
        }
    }

    /// The API group, empty for Kubernetes' core group.
    #[must_use]
    pub const fn group(self) -> &'static str {
        match self {
            Self::Namespace | Self::Service | Self::Secret | Self::ConfigMap => "",
            Self::EndpointSlice => "discovery.k8s.io",
            Self::Backend | Self::EnvoyProxy => PORTOLAN_GROUP,
            _ => GATEWAY_GROUP,
        }
    }

    /// The kind of this group and name, if Portolan reads it.
    #[must_use]
    pub fn find(group: &str, kind: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|known| known.as_str() == kind && known.group() == group)
    }

    #[must_use]
    pub const fn is_cluster_scoped(self) -> bool {
        matches!(self, Self::GatewayClass | Self::Namespace)
    }

    /// Whether the kind is one of the five kinds of routes.
    #[must_use]
    pub const fn is_route(self) -> bool {
        matches!(self, Self::HTTPRoute | Self::GRPCRoute | Self::TLSRoute | Self::TCPRoute | Self::UDPRoute)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Namespace and name. Ordered as the Gateway API breaks ties: by `namespace/name`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NamespacedName {
    /// Empty for cluster-scoped objects
    pub namespace: Name,
    pub name: Name,
}

impl NamespacedName {
    #[must_use]
    pub fn new(namespace: impl Into<Name>, name: impl Into<Name>) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }
}

impl fmt::Display for NamespacedName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.namespace.is_empty() { f.write_str(&self.name) } else { write!(f, "{}/{}", self.namespace, self.name) }
    }
}

/// Kind, namespace and name of an object.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectKey {
    pub kind: Kind,
    pub name: NamespacedName,
}

impl ObjectKey {
    #[must_use]
    pub const fn new(kind: Kind, name: NamespacedName) -> Self {
        Self { kind, name }
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind, self.name)
    }
}
