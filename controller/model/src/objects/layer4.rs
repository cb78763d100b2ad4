//! TLSRoute, TCPRoute and UDPRoute: the same shape.

use std::convert::Infallible;

use super::{BackendRef, Meta, ParentRef};
use crate::{Kind, Name};

/// `gateway.networking.k8s.io/v1` (and v1alpha2, v1alpha3) TLSRoute, TCPRoute or UDPRoute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct L4Route {
    pub kind: Kind,
    pub meta: Meta,
    pub parents: Vec<ParentRef>,
    pub use_default_gateways: Option<Name>,
    /// TLSRoute only
    pub hostnames: Vec<Name>,
    pub rules: Vec<L4Rule>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct L4Rule {
    pub name: Option<Name>,
    pub backends: Vec<BackendRef<Infallible>>,
}
