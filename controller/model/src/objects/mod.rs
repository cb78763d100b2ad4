//! The objects as Portolan keeps them: every field of the API, defaults applied, nothing else. Values compare by content, so
//! "equal" means "no event". What an API server adds (uid, resourceVersion, generation, observed status) is not part of the
//! value; it stands beside it in [`Bookkeeping`].

mod access_log;
mod backend;
mod core;
mod envoy_proxy;
mod gateway;
mod grpc;
mod http;
mod layer4;
mod policy;
mod route;

pub use access_log::{AccessLog, AccessLogFormat};
pub use backend::{Backend, BackendEndpoint};
pub use core::{
    AddressType, ConfigMap, Endpoint, EndpointPort, EndpointSlice, IpFamily, Namespace, Secret, Service, ServicePort,
    TransportProtocol,
};
pub use envoy_proxy::{
    EnvoyProxy, Patch, ProxyAutoscaler, ProxyBootstrap, ProxyContainer, ProxyDisruptionBudget, ProxyPod, ProxyService,
    ProxyWorkload, Raw,
};
pub use gateway::{
    AllowedListeners, AllowedRoutes, CertificateRef, ClientValidation, FromNamespaces, Gateway, GatewayAddress,
    GatewayClass, GatewayTls, Infrastructure, LabelSelector, LabelSelectorRequirement, ListenerSet, ListenerSpec,
    ListenerTls, ParametersRef, Protocol, RouteGroupKind, SelectorOperator, TlsMode, ValidationMode,
};
pub use grpc::{GrpcFilter, GrpcMatch, GrpcMethodMatch, GrpcRoute, GrpcRule};
pub use http::{
    BackendRef, Cors, ExternalAuth, Fraction, HeaderModifier, HttpFilter, HttpMatch, HttpRoute, HttpRule, Mirror,
    PathMatch, PathModifier, Redirect, Retry, SessionPersistence, Timeouts, UrlRewrite, ValueMatch, ValueMatcher,
};
pub use layer4::{L4Route, L4Rule};
pub use policy::{BackendTlsPolicy, GrantFrom, GrantTo, PolicyTarget, ReferenceGrant, SubjectAltName};
pub use route::{ObjectRef, ParentRef, Target};

use std::sync::Arc;

use crate::{Kind, Name, NamespacedName, ObjectKey};

/// What every object has and what takes part in precedence.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Meta {
    /// `metadata.creationTimestamp` in seconds since the epoch; objects from files without one have 0. First in the order
    /// because the Gateway API prefers the oldest, then `namespace/name`.
    pub created: i64,
    pub name: NamespacedName,
}

/// What an API server keeps about an object and what is not part of its value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bookkeeping {
    /// A name that was deleted and made again is a new object with another uid.
    pub uid: Option<Name>,
    pub resource_version: Option<Name>,
    /// `metadata.generation`; what conditions carry as `observedGeneration`
    pub generation: i64,
    /// `metadata.labels`, where a kind's labels matter only for display
    pub annotations: Arc<[(Name, Name)]>,
}

/// One object of any kind that Portolan reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Object {
    GatewayClass(Arc<GatewayClass>),
    Gateway(Arc<Gateway>),
    ListenerSet(Arc<ListenerSet>),
    HttpRoute(Arc<HttpRoute>),
    GrpcRoute(Arc<GrpcRoute>),
    /// TLSRoute, TCPRoute or UDPRoute, by the kind inside
    L4Route(Arc<L4Route>),
    ReferenceGrant(Arc<ReferenceGrant>),
    BackendTlsPolicy(Arc<BackendTlsPolicy>),
    Backend(Arc<Backend>),
    EnvoyProxy(Arc<EnvoyProxy>),
    Namespace(Arc<Namespace>),
    Service(Arc<Service>),
    EndpointSlice(Arc<EndpointSlice>),
    Secret(Arc<Secret>),
    ConfigMap(Arc<ConfigMap>),
}

impl Object {
    /// What every object has.
    #[must_use]
    pub fn meta(&self) -> &Meta {
        match self {
            Self::GatewayClass(object) => &object.meta,
            Self::Gateway(object) => &object.meta,
            Self::ListenerSet(object) => &object.meta,
            Self::HttpRoute(object) => &object.meta,
            Self::GrpcRoute(object) => &object.meta,
            Self::L4Route(object) => &object.meta,
            Self::ReferenceGrant(object) => &object.meta,
            Self::BackendTlsPolicy(object) => &object.meta,
            Self::Backend(object) => &object.meta,
            Self::EnvoyProxy(object) => &object.meta,
            Self::Namespace(object) => &object.meta,
            Self::Service(object) => &object.meta,
            Self::EndpointSlice(object) => &object.meta,
            Self::Secret(object) => &object.meta,
            Self::ConfigMap(object) => &object.meta,
        }
    }

    #[must_use]
    pub fn kind(&self) -> Kind {
        match self {
            Self::GatewayClass(_) => Kind::GatewayClass,
            Self::Gateway(_) => Kind::Gateway,
            Self::ListenerSet(_) => Kind::ListenerSet,
            Self::HttpRoute(_) => Kind::HTTPRoute,
            Self::GrpcRoute(_) => Kind::GRPCRoute,
            Self::L4Route(object) => object.kind,
            Self::ReferenceGrant(_) => Kind::ReferenceGrant,
            Self::BackendTlsPolicy(_) => Kind::BackendTLSPolicy,
            Self::Backend(_) => Kind::Backend,
            Self::EnvoyProxy(_) => Kind::EnvoyProxy,
            Self::Namespace(_) => Kind::Namespace,
            Self::Service(_) => Kind::Service,
            Self::EndpointSlice(_) => Kind::EndpointSlice,
            Self::Secret(_) => Kind::Secret,
            Self::ConfigMap(_) => Kind::ConfigMap,
        }
    }

    #[must_use]
    pub fn key(&self) -> ObjectKey {
        ObjectKey::new(self.kind(), self.meta().name.clone())
    }
}
