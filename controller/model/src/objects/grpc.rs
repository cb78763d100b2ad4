//! GRPCRoute.

use super::{
    BackendRef, HeaderModifier, Meta, Mirror, ObjectRef, ParentRef, SessionPersistence, ValueMatch, ValueMatcher,
};
use crate::Name;

/// `gateway.networking.k8s.io/v1` GRPCRoute, both channels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrpcRoute {
    pub meta: Meta,
    pub parents: Vec<ParentRef>,
    pub use_default_gateways: Option<Name>,
    /// Lower-case; empty: those of the listener
    pub hostnames: Vec<Name>,
    pub rules: Vec<GrpcRule>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrpcRule {
    pub name: Option<Name>,
    /// Empty: every gRPC request
    pub matches: Vec<GrpcMatch>,
    pub filters: Vec<GrpcFilter>,
    pub backends: Vec<BackendRef<GrpcFilter>>,
    pub session_persistence: Option<Box<SessionPersistence>>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GrpcMatch {
    pub method: Option<GrpcMethodMatch>,
    pub headers: Vec<ValueMatch>,
}

/// At least one of service and method is given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrpcMethodMatch {
    pub service: Option<ValueMatcher>,
    pub method: Option<ValueMatcher>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GrpcFilter {
    RequestHeaderModifier(HeaderModifier),
    ResponseHeaderModifier(HeaderModifier),
    RequestMirror(Mirror),
    ExtensionRef(ObjectRef),
    /// A type of a newer API
    Unknown(Name),
}
