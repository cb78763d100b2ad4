//! One xDS resource: its key, version, encoded body, references and provenance.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::{BufMut, Bytes, BytesMut};
use prost::encoding::{WireType, encode_key, encode_varint, encoded_len_varint, key_len};
use rpds::RedBlackTreeMapSync;

/// The route table of the probe, a listener without a socket: the server sends it parts of a table that a proxy refused, to find out
/// which part is to blame.
pub const PROBE_TABLE: &str = "portolan/probe";

/// The xDS resource types that Portolan serves, in the order in which additions are pushed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ResourceType {
    /// CDS
    Cluster,
    /// EDS
    Endpoints,
    /// SDS
    Secret,
    /// SRDS
    Scope,
    /// RDS
    Route,
    /// ECDS
    Extension,
    /// LDS
    Listener,
}

impl ResourceType {
    /// Every type, in push order.
    pub const ALL: [Self; 7] =
        [Self::Cluster, Self::Endpoints, Self::Secret, Self::Scope, Self::Route, Self::Extension, Self::Listener];

    /// The type URL as it stands in discovery requests.
    #[must_use]
    pub const fn type_url(self) -> &'static str {
        match self {
            Self::Cluster => "type.googleapis.com/envoy.config.cluster.v3.Cluster",
            Self::Endpoints => "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment",
            Self::Secret => "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret",
            Self::Scope => "type.googleapis.com/envoy.config.route.v3.ScopedRouteConfiguration",
            Self::Route => "type.googleapis.com/envoy.config.route.v3.RouteConfiguration",
            Self::Extension => "type.googleapis.com/envoy.config.core.v3.TypedExtensionConfig",
            Self::Listener => "type.googleapis.com/envoy.config.listener.v3.Listener",
        }
    }

    /// The type with this URL, if Portolan serves it.
    #[must_use]
    pub fn from_type_url(url: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.type_url() == url)
    }

    /// Whether proxies subscribe to all resources of the type (CDS, LDS and SRDS) rather than by name.
    #[must_use]
    pub const fn is_wildcard(self) -> bool {
        matches!(self, Self::Cluster | Self::Listener | Self::Scope)
    }
}

/// Type and name of a resource. Unique within a fleet.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ResourceKey {
    /// The type, that is, the type URL
    pub kind: ResourceType,
    /// As proxies ask for it
    pub name: Arc<str>,
}

impl ResourceKey {
    /// The key of the resource of this type and name.
    #[must_use]
    pub fn new(kind: ResourceType, name: impl Into<Arc<str>>) -> Self {
        Self { kind, name: name.into() }
    }
}

impl fmt::Display for ResourceKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} {}", self.kind, self.name)
    }
}

/// 128-bit hash of canonical content. Equal content has the equal version on every replica and after every restart.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Version(pub u128);

impl Version {
    /// Hash of bytes that the caller knows to be canonical (one value, one byte string).
    #[must_use]
    pub fn of(canonical: &[u8]) -> Self {
        Self(xxhash_rust::xxh3::xxh3_128(canonical))
    }

    /// Order-independent combination: the version of a table is the sum over its members, so that one member changes it in O(1).
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self(self.0.wrapping_add(other.0))
    }

    /// Takes a member out of a combination made by [`Version::plus`].
    #[must_use]
    pub const fn minus(self, other: Self) -> Self {
        Self(self.0.wrapping_sub(other.0))
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Debug for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Version({self})")
    }
}

/// The object and field that a resource, or a part of one, comes from, such as `HTTPRoute shop/cart spec.rules[2]`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Origin {
    /// Kind, `HTTPRoute`
    pub kind: Arc<str>,
    /// Namespace, empty for cluster-scoped objects
    pub namespace: Arc<str>,
    /// Name of the object
    pub name: Arc<str>,
    /// Path of the field within the object, `spec.rules[2].matches[0]`; empty for the whole object
    pub field: Arc<str>,
}

/// Provenance of a resource. Stands beside the content and never changes its version.
pub type Origins = Arc<[Origin]>;

/// A part of a resource that Envoy can refuse on its own: one route of a virtual host.
#[derive(Clone, Debug)]
pub struct Unit {
    /// The encoded message, without a field key
    pub bytes: Bytes,
    /// Hash of the unit's canonical content: what a refusal is remembered by
    pub version: Version,
    /// What the unit was made from
    pub origin: Origin,
}

/// The part of a resource that a proxy refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// The resource: no part of it is to blame alone
    Whole,
    /// A virtual host of a table, none of whose routes is to blame alone: [`VirtualHostBody::name`] and its version
    Host(Arc<str>, Version),
    /// A route of a table: [`Unit::version`]
    Unit(Version),
}

/// One virtual host: the encoded message without its routes, and its routes.
#[derive(Clone, Debug)]
pub struct VirtualHostBody {
    /// The virtual host's name, unique within a table
    pub name: Arc<str>,
    /// Encoded `VirtualHost` fields other than `routes`
    pub head: Bytes,
    /// In the order in which they are matched
    pub routes: Arc<[Unit]>,
    /// Names of the clusters that the routes use: sorted, without duplicates
    pub clusters: Arc<[Arc<str>]>,
    /// Hash over head and routes
    pub version: Version,
}

/// Field number of `VirtualHost.routes`.
const VIRTUAL_HOST_ROUTES: u32 = 3;
/// Field number of `RouteConfiguration.name`.
const ROUTE_CONFIGURATION_NAME: u32 = 1;
/// Field number of `RouteConfiguration.virtual_hosts`.
const ROUTE_CONFIGURATION_VIRTUAL_HOSTS: u32 = 2;

impl VirtualHostBody {
    /// Length in bytes of the encoded `VirtualHost` message.
    #[must_use]
    pub fn encoded_len(&self) -> usize {
        self.head.len()
            + self.routes.iter().map(|unit| delimited_len(VIRTUAL_HOST_ROUTES, unit.bytes.len())).sum::<usize>()
    }

    fn encode(&self, buffer: &mut impl BufMut) {
        buffer.put_slice(&self.head);
        for unit in self.routes.iter() {
            put_delimited_key(VIRTUAL_HOST_ROUTES, unit.bytes.len(), buffer);
            buffer.put_slice(&unit.bytes);
        }
    }
}

/// A route table: one virtual host per hostname, kept apart so that one host changes at the cost of one host.
#[derive(Clone, Debug)]
pub struct HostTable {
    /// Encoded `RouteConfiguration` fields other than `virtual_hosts`, the name included
    pub head: Bytes,
    /// By domain, in the order in which they are encoded
    pub hosts: RedBlackTreeMapSync<Arc<str>, Arc<VirtualHostBody>>,
    /// The clusters that the hosts use, each with the number of hosts that use it
    pub clusters: RedBlackTreeMapSync<Arc<str>, u32>,
}

impl HostTable {
    /// An empty table under this encoded head.
    #[must_use]
    pub fn new(head: Bytes) -> Self {
        Self { head, hosts: RedBlackTreeMapSync::new_sync(), clusters: RedBlackTreeMapSync::new_sync() }
    }

    /// Puts one host in, replaces or (with `None`) removes it. O(log hosts + clusters of the host).
    pub fn set(&mut self, name: &Arc<str>, host: Option<Arc<VirtualHostBody>>) {
        let old = self.hosts.get(name).cloned();
        for cluster in host.iter().flat_map(|host| host.clusters.iter()) {
            let uses = self.clusters.get(cluster).copied().unwrap_or(0);
            self.clusters.insert_mut(Arc::clone(cluster), uses + 1);
        }
        for cluster in old.iter().flat_map(|host| host.clusters.iter()) {
            match self.clusters.get(cluster).copied() {
                Some(uses) if uses > 1 => self.clusters.insert_mut(Arc::clone(cluster), uses - 1),
                _ => _ = self.clusters.remove_mut(cluster),
            }
        }
        match host {
            Some(host) => self.hosts.insert_mut(Arc::clone(name), host),
            None => _ = self.hosts.remove_mut(name),
        }
    }

    /// The encoded `RouteConfiguration`. O(table).
    #[must_use]
    pub fn encode(&self) -> Bytes {
        encode_table(&self.head, None, || self.hosts.values().map(Arc::as_ref))
    }

    /// The encoded table under another name and with these hosts only: a part of a refused table, to be tried on its own.
    #[must_use]
    pub fn encode_part(&self, name: &str, hosts: &[&VirtualHostBody]) -> Bytes {
        encode_table(&self.head, Some(name), || hosts.iter().copied())
    }
}

/// Where a singular field occurs twice, protobuf readers take the last: so `name` overrides the one in `head`.
fn encode_table<'a, I: Iterator<Item = &'a VirtualHostBody>>(
    head: &[u8],
    name: Option<&str>,
    hosts: impl Fn() -> I,
) -> Bytes {
    let length = head.len()
        + name.map_or(0, |name| delimited_len(ROUTE_CONFIGURATION_NAME, name.len()))
        + hosts().map(|host| delimited_len(ROUTE_CONFIGURATION_VIRTUAL_HOSTS, host.encoded_len())).sum::<usize>();
    let mut buffer = BytesMut::with_capacity(length);
    buffer.put_slice(head);
    if let Some(name) = name {
        put_delimited_key(ROUTE_CONFIGURATION_NAME, name.len(), &mut buffer);
        buffer.put_slice(name.as_bytes());
    }
    for host in hosts() {
        put_delimited_key(ROUTE_CONFIGURATION_VIRTUAL_HOSTS, host.encoded_len(), &mut buffer);
        host.encode(&mut buffer);
    }
    buffer.freeze()
}

fn delimited_len(field: u32, length: usize) -> usize {
    key_len(field) + encoded_len_varint(length as u64) + length
}

fn put_delimited_key(field: u32, length: usize, buffer: &mut impl BufMut) {
    encode_key(field, WireType::LengthDelimited, buffer);
    encode_varint(length as u64, buffer);
}

/// What stands behind a resource's name.
#[derive(Clone, Debug)]
pub enum Content {
    /// The encoded message of the resource's type
    Message(Bytes),
    /// A route table, encoded when first sent
    Table(HostTable),
    /// Nothing can be served under this name, and proxies keep what they have: answered with `removed_resources`
    /// (design invariant 6).
    Held,
}

/// The content of a resource and its wire form, computed when first needed and shared by all streams.
#[derive(Debug)]
pub struct Body {
    content: Content,
    encoded: Mutex<Option<Bytes>>,
}

impl Body {
    /// A body whose wire form has not been needed yet.
    #[must_use]
    pub const fn new(content: Content) -> Self {
        Self { content, encoded: Mutex::new(None) }
    }

    /// What stands behind the name.
    #[must_use]
    pub const fn content(&self) -> &Content {
        &self.content
    }

    /// The encoded message (not the `discovery.v3.Resource` around it). `None` when held. A table is encoded on the first call.
    #[must_use]
    pub fn message(&self) -> Option<Bytes> {
        match &self.content {
            Content::Message(bytes) => Some(bytes.clone()),
            Content::Table(table) => {
                let mut encoded = self.encoded.lock().unwrap_or_else(PoisonError::into_inner);
                Some(encoded.get_or_insert_with(|| table.encode()).clone())
            }
            Content::Held => None,
        }
    }

    /// Drops the wire form of a table that has been superseded; it is made again if a stream still asks for it.
    pub fn forget_encoding(&self) {
        *self.encoded.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

/// One xDS resource of a fleet.
#[derive(Debug)]
pub struct Resource {
    /// Type and name
    pub key: ResourceKey,
    /// Hash of the canonical content and of the type's encoding epoch
    pub version: Version,
    /// What is sent
    pub body: Body,
    /// The resources that this one names, sorted, without duplicates: the endpoints and secrets of a cluster, the tables
    /// and secrets of a listener. Empty for a route table, whose clusters stand in its [`HostTable`].
    pub references: Arc<[ResourceKey]>,
    /// The objects and fields it was made from
    pub origins: Origins,
}

impl Resource {
    /// Whether nothing can be served under this name for now, see [`Content::Held`].
    #[must_use]
    pub fn is_held(&self) -> bool {
        matches!(self.body.content, Content::Held)
    }

    /// Whether this resource names `key`. O(log references).
    #[must_use]
    pub fn refers_to(&self, key: &ResourceKey) -> bool {
        match &self.body.content {
            Content::Table(table) => key.kind == ResourceType::Cluster && table.clusters.contains_key(&key.name),
            _ => self.references.binary_search(key).is_ok(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::envoy::route;
    use prost::Message;

    fn unit(name: &str) -> Unit {
        let route = route::Route { name: name.into(), ..Default::default() };
        let origin = Origin { kind: "HTTPRoute".into(), namespace: "n".into(), name: "r".into(), field: "".into() };
        Unit { bytes: route.encode_to_vec().into(), version: Version::of(name.as_bytes()), origin }
    }

    fn host(name: &str, routes: &[&str], clusters: &[&str]) -> Arc<VirtualHostBody> {
        let head = route::VirtualHost { name: name.into(), domains: vec![name.into()], ..Default::default() };
        Arc::new(VirtualHostBody {
            name: name.into(),
            head: head.encode_to_vec().into(),
            routes: routes.iter().map(|name| unit(name)).collect(),
            clusters: clusters.iter().map(|name| Arc::from(*name)).collect(),
            version: Version::of(name.as_bytes()),
        })
    }

    fn table() -> HostTable {
        let head = route::RouteConfiguration { name: "t".into(), ..Default::default() };
        let mut table = HostTable::new(head.encode_to_vec().into());
        table.set(&"b.test".into(), Some(host("b.test", &["r3"], &["x"])));
        table.set(&"a.test".into(), Some(host("a.test", &["r1", "r2"], &["x", "y"])));
        table
    }

    #[test]
    fn an_encoded_table_is_a_route_configuration() {
        let read = route::RouteConfiguration::decode(table().encode()).unwrap();
        assert_eq!(read.name, "t");
        let hosts: Vec<_> = read
            .virtual_hosts
            .iter()
            .map(|host| {
                (host.domains[0].as_str(), host.routes.iter().map(|route| route.name.as_str()).collect::<Vec<_>>())
            })
            .collect();
        assert_eq!(hosts, [("a.test", vec!["r1", "r2"]), ("b.test", vec!["r3"])]);
    }

    #[test]
    fn a_part_of_a_table_has_the_other_name() {
        let part = host("b.test", &["r3"], &[]);
        let read = route::RouteConfiguration::decode(table().encode_part("probe", &[&part])).unwrap();
        assert_eq!((read.name.as_str(), read.virtual_hosts.len()), ("probe", 1));
    }

    #[test]
    fn clusters_are_counted_by_host() {
        let mut table = table();
        let counts = |table: &HostTable| -> Vec<_> {
            table.clusters.iter().map(|(name, uses)| (name.to_string(), *uses)).collect()
        };
        assert_eq!(counts(&table), [("x".to_string(), 2), ("y".to_string(), 1)]);
        table.set(&"a.test".into(), Some(host("a.test", &[], &["x"])));
        assert_eq!(counts(&table), [("x".to_string(), 2)]);
        table.set(&"a.test".into(), None);
        table.set(&"b.test".into(), None);
        assert!(counts(&table).is_empty() && table.hosts.is_empty());
    }

    #[test]
    fn a_table_refers_to_its_clusters_and_other_resources_to_what_they_list() {
        let key = |kind, name: &str| ResourceKey::new(kind, name);
        let make = |content, references: Vec<ResourceKey>| Resource {
            key: key(ResourceType::Route, "t"),
            version: Version(1),
            body: Body::new(content),
            references: references.into(),
            origins: Arc::from([]),
        };
        let of_table = make(Content::Table(table()), Vec::new());
        assert!(of_table.refers_to(&key(ResourceType::Cluster, "y")));
        assert!(!of_table.refers_to(&key(ResourceType::Endpoints, "y")));
        let of_message = make(Content::Message(Bytes::new()), vec![key(ResourceType::Secret, "s")]);
        assert!(of_message.refers_to(&key(ResourceType::Secret, "s")));
        assert!(!of_message.refers_to(&key(ResourceType::Secret, "t")));
    }

    #[test]
    fn a_table_is_encoded_once_until_forgotten() {
        let body = Body::new(Content::Table(table()));
        let first = body.message().unwrap();
        assert_eq!(first.as_ptr(), body.message().unwrap().as_ptr());
        body.forget_encoding();
        assert_eq!(first, body.message().unwrap());
        assert!(Body::new(Content::Held).message().is_none());
    }
}
