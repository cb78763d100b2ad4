//! GatewayClass, Gateway and ListenerSet.

use std::collections::BTreeMap;

use super::{Meta, ObjectRef, ParentRef};
use crate::Name;

/// `gateway.networking.k8s.io/v1` GatewayClass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GatewayClass {
    pub meta: Meta,
    pub controller_name: Name,
    pub parameters_ref: Option<ParametersRef>,
}

/// Reference to a parameters object. `namespace` is `None` for Gateways, whose parameters are in their own namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParametersRef {
    pub group: Name,
    pub kind: Name,
    pub namespace: Option<Name>,
    pub name: Name,
}

/// `gateway.networking.k8s.io/v1` Gateway.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gateway {
    pub meta: Meta,
    pub class: Name,
    pub listeners: Vec<ListenerSpec>,
    pub addresses: Vec<GatewayAddress>,
    pub infrastructure: Option<Infrastructure>,
    pub allowed_listeners: AllowedListeners,
    pub tls: Option<GatewayTls>,
    /// Experimental channel: `All` or `None`; anything else as written
    pub default_scope: Option<Name>,
}

/// `spec.addresses[]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GatewayAddress {
    /// `IPAddress` (the default), `Hostname`, or a domain-prefixed type
    pub kind: Name,
    /// Empty: to be allocated
    pub value: Option<Name>,
}

/// `spec.infrastructure`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Infrastructure {
    pub labels: BTreeMap<Name, Name>,
    pub annotations: BTreeMap<Name, Name>,
    pub parameters_ref: Option<ParametersRef>,
}

/// `spec.allowedListeners.namespaces`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AllowedListeners {
    /// Default `None`
    pub from: FromNamespaces,
}

/// Which namespaces may attach something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FromNamespaces {
    All,
    Same,
    /// Only `allowedListeners` and, since 1.5, `allowedRoutes`
    None,
    Selector(LabelSelector),
    /// A value of a newer API
    Unknown(Name),
}

/// A Kubernetes label selector: all of it must hold. An empty selector selects everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LabelSelector {
    pub match_labels: BTreeMap<Name, Name>,
    pub match_expressions: Vec<LabelSelectorRequirement>,
}

/// `matchExpressions[]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabelSelectorRequirement {
    pub key: Name,
    pub operator: SelectorOperator,
    pub values: Vec<Name>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SelectorOperator {
    In,
    NotIn,
    Exists,
    DoesNotExist,
    Unknown(Name),
}

/// `spec.tls` of a Gateway: client certificates of the frontend, and the certificate shown to backends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GatewayTls {
    pub backend_client_certificate: Option<CertificateRef>,
    /// `frontend.default.validation`
    pub frontend_default: Option<ClientValidation>,
    /// `frontend.perPort[]`: port and its validation (`None`: the port is listed without one)
    pub frontend_per_port: Vec<(u16, Option<ClientValidation>)>,
}

/// Validation of client certificates (GEP-91).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientValidation {
    pub ca_certificate_refs: Vec<ObjectRef>,
    pub mode: ValidationMode,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ValidationMode {
    AllowValidOnly,
    AllowInsecureFallback,
    Unknown(Name),
}

/// `gateway.networking.k8s.io/v1` ListenerSet (GEP-1713).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListenerSet {
    pub meta: Meta,
    pub parent: ParentRef,
    pub listeners: Vec<ListenerSpec>,
}

/// One listener of a Gateway or a ListenerSet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListenerSpec {
    pub name: Name,
    /// Lower-case; `None` or empty: every hostname
    pub hostname: Option<Name>,
    pub port: u16,
    pub protocol: Protocol,
    pub tls: Option<ListenerTls>,
    pub allowed_routes: AllowedRoutes,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Protocol {
    Http,
    Https,
    Tls,
    Tcp,
    Udp,
    /// Anything else, as written
    Other(Name),
}

/// `listeners[].tls`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListenerTls {
    pub mode: TlsMode,
    pub certificate_refs: Vec<CertificateRef>,
    pub options: BTreeMap<Name, Name>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TlsMode {
    Terminate,
    Passthrough,
    Unknown(Name),
}

/// A reference to a Secret (by default) that holds a certificate and its key.
pub type CertificateRef = ObjectRef;

/// `listeners[].allowedRoutes`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AllowedRoutes {
    /// Default `Same`
    pub from: FromNamespaces,
    /// Empty: the kinds of the protocol
    pub kinds: Vec<RouteGroupKind>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RouteGroupKind {
    pub group: Name,
    pub kind: Name,
}
