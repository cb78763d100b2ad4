//! HTTPRoute, and the parts it shares with GRPCRoute.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{Meta, ObjectRef, ParentRef};
use crate::Name;

/// `gateway.networking.k8s.io/v1` HTTPRoute, both channels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpRoute {
    pub meta: Meta,
    pub parents: Vec<ParentRef>,
    /// Experimental: `spec.useDefaultGateways`
    pub use_default_gateways: Option<Name>,
    /// Lower-case; empty: those of the listener
    pub hostnames: Vec<Name>,
    pub rules: Vec<HttpRule>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpRule {
    pub name: Option<Name>,
    /// Never empty: the default is one match of the prefix `/`
    pub matches: Vec<HttpMatch>,
    pub filters: Vec<HttpFilter>,
    pub backends: Vec<BackendRef<HttpFilter>>,
    pub timeouts: Timeouts,
    pub retry: Option<Retry>,
    /// Boxed: nearly always absent, and large
    pub session_persistence: Option<Box<SessionPersistence>>,
}

/// One of a rule's alternatives; everything in it must hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpMatch {
    pub path: PathMatch,
    /// As written; several entries of one name were reduced to the first, as the specification says
    pub headers: Vec<ValueMatch>,
    pub query: Vec<ValueMatch>,
    /// `GET`, `POST` … or a value of a newer API
    pub method: Option<Name>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum PathMatch {
    Exact(Name),
    /// By path segments. `/` matches everything.
    Prefix(Name),
    /// RE2, the whole path
    Regex(Name),
    /// A type of a newer API: type and value
    Unknown(Name, Name),
}

/// A condition on a header or query parameter.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ValueMatch {
    pub name: Name,
    pub value: ValueMatcher,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ValueMatcher {
    Exact(Name),
    /// RE2, the whole value
    Regex(Name),
    /// A type of a newer API: type and value
    Unknown(Name, Name),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HttpFilter {
    RequestHeaderModifier(HeaderModifier),
    ResponseHeaderModifier(HeaderModifier),
    RequestRedirect(Redirect),
    UrlRewrite(UrlRewrite),
    RequestMirror(Mirror),
    Cors(Cors),
    /// Experimental (GEP-1494)
    ExternalAuth(Box<ExternalAuth>),
    ExtensionRef(ObjectRef),
    /// A type of a newer API
    Unknown(Name),
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct HeaderModifier {
    pub set: Vec<(Name, Name)>,
    pub add: Vec<(Name, Name)>,
    pub remove: Vec<Name>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Redirect {
    pub scheme: Option<Name>,
    pub hostname: Option<Name>,
    pub path: Option<PathModifier>,
    pub port: Option<u16>,
    /// Default 302
    pub status: u16,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PathModifier {
    ReplaceFullPath(Name),
    ReplacePrefixMatch(Name),
    Unknown(Name),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UrlRewrite {
    pub hostname: Option<Name>,
    pub path: Option<PathModifier>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mirror {
    pub backend: ObjectRef,
    pub port: Option<u16>,
    /// Share of the requests; everything when neither `percent` nor `fraction` is given
    pub fraction: Fraction,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Fraction {
    pub numerator: u32,
    pub denominator: u32,
}

/// GEP-1767
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Cors {
    pub allow_origins: Vec<Name>,
    pub allow_credentials: bool,
    pub allow_methods: Vec<Name>,
    pub allow_headers: Vec<Name>,
    pub expose_headers: Vec<Name>,
    /// Seconds, default 5
    pub max_age: u32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExternalAuth {
    /// `GRPC` or `HTTP`
    pub protocol: Name,
    pub backend: ObjectRef,
    pub port: Option<u16>,
    pub path: Option<Name>,
    pub allowed_headers: Vec<Name>,
    pub allowed_response_headers: Vec<Name>,
    pub forward_body_max_size: Option<u32>,
}

/// A backend with its weight and the filters that apply when it is chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackendRef<F> {
    pub target: ObjectRef,
    pub port: Option<u16>,
    /// 0 to 1,000,000, default 1
    pub weight: u32,
    pub filters: Vec<F>,
}

/// `None`: not set (Envoy's own default is switched off). Zero: no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timeouts {
    pub request: Option<Duration>,
    pub backend_request: Option<Duration>,
}

/// GEP-1731
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Retry {
    pub codes: Vec<u16>,
    pub attempts: Option<u32>,
    pub backoff: Option<Duration>,
}

/// GEP-1619, in the forms of 1.6 and (cookie, header) of 1.7
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionPersistence {
    /// `Cookie` or `Header`
    pub kind: Name,
    pub session_name: Option<Name>,
    pub absolute_timeout: Option<Duration>,
    /// `Session` or `Permanent`
    pub cookie_lifetime: Option<Name>,
    pub cookie_path: Option<Name>,
    /// Fields of newer versions, by name
    pub other: BTreeMap<Name, Name>,
}
