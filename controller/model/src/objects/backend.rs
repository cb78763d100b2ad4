//! Portolan's own Backend: endpoints outside Kubernetes.

use std::net::IpAddr;

use super::Meta;
use crate::Name;

/// `portolan.dev/v1alpha1` Backend, with the field names of Envoy Gateway's kind of the same name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Backend {
    pub meta: Meta,
    pub endpoints: Vec<BackendEndpoint>,
    /// `h2c` or `ws`, as a Service port's appProtocol without its prefix `kubernetes.io/`
    pub app_protocols: Vec<Name>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BackendEndpoint {
    Ip { address: IpAddr, port: u16 },
    Fqdn { hostname: Name, port: u16 },
    Unix { path: Name },
}
