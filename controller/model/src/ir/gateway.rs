//! Gateways with their listeners, and what becomes of them.

use std::net::IpAddr;
use std::sync::Arc;

use crate::objects::{AccessLog, FromNamespaces, GatewayAddress, Protocol, RouteGroupKind};
use crate::{Condition, Name, NamespacedName, ObjectKey};

/// A listener's identity: names may repeat between a Gateway and its ListenerSets.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ListenerId {
    /// The Gateway or ListenerSet whose `spec.listeners` holds it
    pub parent: ObjectKey,
    pub name: Name,
}

/// One Gateway of an accepted class, its listeners merged with those of its ListenerSets (GEP-1713).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GatewayView {
    pub name: NamespacedName,
    /// `Accepted`
    pub accepted: bool,
    /// What it or its class asks of the fleet cannot be done or is not known. Its listeners are what they are: a fleet that runs stays as it is and
    /// goes on serving, and none is made
    pub refused: bool,
    /// Conditions of the Gateway, `Programmed` excepted: that depends on the proxies too
    pub conditions: Vec<Condition>,
    /// `spec.addresses`
    pub requested_addresses: Vec<GatewayAddress>,
    /// All listeners in order of precedence: the Gateway's own, then those of the ListenerSets, oldest first
    pub listeners: Vec<Arc<ListenerView>>,
    /// Every ListenerSet that names the Gateway, accepted or not, in order of precedence
    pub listener_sets: Vec<ListenerSetView>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListenerSetView {
    pub name: NamespacedName,
    /// Whether the Gateway allows it and at least one listener is valid: counted in `attachedListenerSets`
    pub accepted: bool,
    /// Whether the Gateway's `allowedListeners` admits it; its listeners are part of the Gateway only then
    pub allowed: bool,
    /// As those of the Gateway, `Programmed` excepted unless it is False for reasons of the objects
    pub conditions: Vec<Condition>,
}

/// A listener after merging and conflict resolution.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListenerView {
    pub id: ListenerId,
    pub port: u16,
    pub protocol: Protocol,
    /// Lower-case; `None`: every hostname
    pub hostname: Option<Name>,
    /// Which namespaces' routes may attach; `Same` means `id.parent`'s
    pub allowed_namespaces: FromNamespaces,
    /// `status.listeners[].supportedKinds`: the valid ones of `allowedRoutes.kinds`, or the protocol's
    pub kinds: Vec<RouteGroupKind>,
    /// Accepted, not conflicted, protocol supported: it holds its port and hostname, and routes attach
    pub accepted: bool,
    /// Granted certificate references, in order, usable or held. A reference that is not granted or whose Secret is of a wrong
    /// kind is left out. An HTTPS listener with none is not served.
    pub certificates: Vec<CertificateView>,
    /// Conditions of the listener, `Programmed` only where it is False for reasons of the objects
    pub conditions: Vec<Condition>,
}

/// A certificate that a listener may use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateView {
    pub secret: NamespacedName,
    /// False: missing, unreadable, not matching its key, expired or not valid yet; its SDS name is answered as held
    pub usable: bool,
    /// Names in the certificate, lower-case, sorted; used where each certificate gets a filter chain of its own
    pub dns_names: Vec<Name>,
}

/// The listeners that one parentRef can mean: those of a Gateway itself, or those of a ListenerSet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParentView {
    /// The Gateway that serves them
    pub gateway: NamespacedName,
    /// Only listeners of this parent, in the order of its spec
    pub listeners: Vec<Arc<ListenerView>>,
}

/// What the platform says of the proxies of a Gateway: where they listen, above all.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Binding {
    /// Empty: all addresses
    pub addresses: Vec<IpAddr>,
    /// Added to each listener's port (`portolan run --port-offset`)
    pub port_offset: u16,
    /// `status.addresses`: type and value
    pub status: Vec<(Name, Name)>,
    /// `spec.addresses` that cannot be used, each with the reason: `Programmed=False/AddressNotUsable`
    pub unusable: Vec<(Name, Arc<str>)>,
    /// Whether they log requests where no parameters say anything of it
    pub logs: bool,
}

impl Binding {
    /// Where proxies listen for a listener's port; `None`: the offset moves it beyond 65535, and nothing may listen for it. Every use of
    /// the offset goes through here.
    #[must_use]
    pub const fn port(&self, port: u16) -> Option<u16> {
        port.checked_add(self.port_offset)
    }
}

/// A route table: one per port for HTTP, one per listener for HTTPS (so that a hostname is served only under its own SNI).
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TableId {
    pub gateway: NamespacedName,
    pub port: u16,
    /// HTTPS: the listener's hostname, `*` for none. HTTP: `None`
    pub server: Option<Name>,
}

impl TableId {
    /// Name of the RouteConfiguration within the fleet: `http/80`, `https/443/shop.example.com`. Holds no `:` and no `|` (both
    /// separate parts of scope keys).
    #[must_use]
    pub fn resource_name(&self) -> String {
        match &self.server {
            None => format!("http/{}", self.port),
            Some(server) => format!("https/{}/{server}", self.port),
        }
    }

    /// The table of a Gateway that has this [`TableId::resource_name`]; `None` where none has.
    #[must_use]
    pub fn of_resource(gateway: NamespacedName, name: &str) -> Option<Self> {
        let parts: Vec<&str> = name.split('/').collect();
        let (port, server) = match parts[..] {
            ["http", port] => (port, None),
            ["https", port, server] => (port, Some(Name::from(server))),
            _ => return None,
        };
        Some(Self { gateway, port: port.parse().ok()?, server })
    }
}

/// One socket of a Gateway: everything that Envoy's Listener needs. HTTP and HTTPS; other protocols have none yet.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ListenerPlan {
    pub gateway: NamespacedName,
    pub port: u16,
    pub tls: bool,
    pub binding: Binding,
    /// HTTP: exactly one. HTTPS: one per listener hostname (or per certificate); may be empty, then every connection is closed
    pub chains: Vec<ChainPlan>,
    /// Of each chain
    pub access_logs: Arc<[AccessLog]>,
    /// The listeners that share the socket, for provenance
    pub listeners: Vec<ListenerId>,
}

/// A filter chain: an HTTP connection manager over one route table.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ChainPlan {
    pub table: TableId,
    /// Matched against SNI; empty: every (other) name
    pub server_names: Vec<Name>,
    /// Names of the Secrets; at most 16
    pub certificates: Vec<NamespacedName>,
    pub listener: Option<ListenerId>,
}

/// A certificate as SDS delivers it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SecretPlan {
    pub name: NamespacedName,
    pub state: SecretState,
}

#[derive(Clone, PartialEq, Eq, Hash)]
pub enum SecretState {
    /// PEM, checked: they parse, and the key is the certificate's
    Usable { certificate_chain: Arc<[u8]>, private_key: Arc<[u8]> },
    /// Proxies keep what they have (design invariant 6)
    Held,
}

impl std::fmt::Debug for SecretState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Usable { .. } => "Usable",
            Self::Held => "Held",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_found_by_its_resource() {
        let gateway = || NamespacedName::new("infra", "edge");
        for server in [None, Some(Name::from("*")), Some("*.shop.test".into())] {
            let table = TableId { gateway: gateway(), port: 443, server };
            assert_eq!(TableId::of_resource(gateway(), &table.resource_name()), Some(table));
        }
        for other in ["portolan/probe", "http/no", "http/80/x", "https/443"] {
            assert_eq!(TableId::of_resource(gateway(), other), None, "{other}");
        }
    }
}
