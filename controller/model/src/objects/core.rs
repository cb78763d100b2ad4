//! The Kubernetes objects that routes lead to: slim, only what Portolan uses.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use super::Meta;
use crate::{Name, NamespacedName};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Namespace {
    pub meta: Meta,
    /// With `kubernetes.io/metadata.name`
    pub labels: BTreeMap<Name, Name>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Service {
    pub meta: Meta,
    /// `spec.type: ExternalName`
    pub external_name: Option<Name>,
    /// In the Service's order of preference; empty: not said
    pub ip_families: Vec<IpFamily>,
    pub ports: Vec<ServicePort>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum IpFamily {
    V4,
    V6,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServicePort {
    /// Empty for the only port of a Service
    pub name: Name,
    pub port: u16,
    pub protocol: TransportProtocol,
    pub app_protocol: Option<Name>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum TransportProtocol {
    Tcp,
    Udp,
    Sctp,
}

/// `discovery.k8s.io/v1` EndpointSlice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndpointSlice {
    pub meta: Meta,
    /// From the label `kubernetes.io/service-name`; a slice without it belongs to no Service
    pub service: Option<NamespacedName>,
    pub address_type: AddressType,
    pub ports: Vec<EndpointPort>,
    pub endpoints: Vec<Endpoint>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AddressType {
    V4,
    V6,
    Fqdn,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndpointPort {
    pub name: Name,
    /// `None`: all ports
    pub port: Option<u16>,
    pub protocol: TransportProtocol,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// The first address is used, as Kubernetes says since all are fungible. Addresses that are no IP are kept out.
    pub addresses: Vec<IpAddr>,
    /// Unknown counts as ready
    pub ready: bool,
    /// Unknown: as ready
    pub serving: bool,
    pub terminating: bool,
    pub zone: Option<Name>,
}

/// A Secret's type and data, decoded. Its `Debug` shows no content.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret {
    pub meta: Meta,
    pub kind: Name,
    pub data: BTreeMap<Name, Arc<[u8]>>,
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Secret").field("meta", &self.meta).field("kind", &self.kind).finish_non_exhaustive()
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigMap {
    pub meta: Meta,
    /// `data` and, decoded, `binaryData`
    pub data: BTreeMap<Name, Arc<[u8]>>,
}
