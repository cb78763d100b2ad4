//! Envoy resources of a small world.

use std::net::SocketAddr;
use std::sync::Arc;

use portolan_proto::envoy::route;
use portolan_proto::prost::Message;
use portolan_proto::{
    Body, Content, HostTable, Origin, Resource, ResourceKey, ResourceType, Unit, Version, VirtualHostBody, json,
};
use serde_json::{Value, json};

pub fn resource(kind: ResourceType, name: &str, json: &Value, references: &[ResourceKey]) -> Arc<Resource> {
    let bytes = json::from_json(kind.type_url(), json).unwrap();
    let mut references = references.to_vec();
    references.sort();
    Arc::new(Resource {
        key: ResourceKey::new(kind, name),
        version: Version::of(json.to_string().as_bytes()),
        body: Body::new(Content::Message(bytes.into())),
        references: references.into(),
        origins: Arc::from([origin(name)]),
    })
}

pub fn origin(name: &str) -> Origin {
    Origin { kind: "Test".into(), namespace: "default".into(), name: name.into(), field: "".into() }
}

/// An EDS cluster; `timeout` is what a test changes to change it.
pub fn cluster(name: &str, timeout: &str) -> Arc<Resource> {
    let json = json!({
        "name": name,
        "type": "EDS",
        "connect_timeout": timeout,
        "eds_cluster_config": {"eds_config": {"ads": {}, "resource_api_version": "V3"}}
    });
    resource(ResourceType::Cluster, name, &json, &[ResourceKey::new(ResourceType::Endpoints, name)])
}

pub fn endpoints(name: &str, addresses: &[SocketAddr]) -> Arc<Resource> {
    let endpoint = |address: &SocketAddr| json!({"endpoint": {"address": {"socket_address": {"address": address.ip(), "port_value": address.port()}}}});
    let all: Vec<_> = addresses.iter().map(endpoint).collect();
    let json = json!({"cluster_name": name, "endpoints": [{"lb_endpoints": all}]});
    resource(ResourceType::Endpoints, name, &json, &[])
}

/// A connection manager on a table.
pub fn manager(prefix: &str, table: &str) -> Value {
    json!({"name": "http", "typed_config": {
        "@type": "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
        "stat_prefix": prefix,
        "rds": {"route_config_name": table, "config_source": {"ads": {}, "resource_api_version": "V3"}},
        "http_filters": [{"name": "router", "typed_config": {
            "@type": "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router"
        }}]
    }})
}

pub fn listener(name: &str, at: SocketAddr, table: &str) -> Arc<Resource> {
    let json = json!({
        "name": name,
        "address": {"socket_address": {"address": at.ip(), "port_value": at.port()}},
        "filter_chains": [{"filters": [manager(name, table)]}]
    });
    resource(ResourceType::Listener, name, &json, &[ResourceKey::new(ResourceType::Route, table)])
}

/// A listener whose TCP proxy is a filter configuration of this name.
pub fn tcp_listener(name: &str, at: SocketAddr, filter: &str) -> Arc<Resource> {
    let json = json!({
        "name": name,
        "address": {"socket_address": {"address": at.ip(), "port_value": at.port()}},
        "filter_chains": [{"filters": [{"name": filter, "config_discovery": {
            "config_source": {"ads": {}, "resource_api_version": "V3"},
            "type_urls": ["type.googleapis.com/envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy"]
        }}]}]
    });
    resource(ResourceType::Listener, name, &json, &[ResourceKey::new(ResourceType::Extension, filter)])
}

/// Envoy refuses an empty `prefix`.
pub fn tcp_proxy(name: &str, prefix: &str, cluster: &str) -> Arc<Resource> {
    let json = json!({"name": name, "typed_config": {
        "@type": "type.googleapis.com/envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy",
        "stat_prefix": prefix,
        "cluster": cluster
    }});
    resource(ResourceType::Extension, name, &json, &[ResourceKey::new(ResourceType::Cluster, cluster)])
}

/// A listener with a chain per server name, each with the secret of that name.
pub fn tls_listener(name: &str, at: SocketAddr, table: &str, names: &[&str]) -> Arc<Resource> {
    let chain = |name: &&str| {
        json!({
            "filter_chain_match": {"server_names": [name]},
            "filters": [manager(name, table)],
            "transport_socket": {"name": "tls", "typed_config": {
                "@type": "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext",
                "common_tls_context": {"tls_certificate_sds_secret_configs": [
                    {"name": name, "sds_config": {"ads": {}, "resource_api_version": "V3"}}
                ]}
            }}
        })
    };
    let json = json!({
        "name": name,
        "address": {"socket_address": {"address": at.ip(), "port_value": at.port()}},
        "listener_filters": [{"name": "tls", "typed_config": {
            "@type": "type.googleapis.com/envoy.extensions.filters.listener.tls_inspector.v3.TlsInspector"
        }}],
        "filter_chains": names.iter().map(chain).collect::<Vec<_>>()
    });
    let secrets = names.iter().map(|name| ResourceKey::new(ResourceType::Secret, *name));
    let references: Vec<_> = secrets.chain([ResourceKey::new(ResourceType::Route, table)]).collect();
    resource(ResourceType::Listener, name, &json, &references)
}

pub fn secret(name: &str, certificate: &str, key: &str) -> Arc<Resource> {
    let json = json!({"name": name, "tls_certificate": {
        "certificate_chain": {"inline_string": certificate},
        "private_key": {"inline_string": key}
    }});
    resource(ResourceType::Secret, name, &json, &[])
}

pub fn held(kind: ResourceType, name: &str) -> Arc<Resource> {
    Arc::new(Resource {
        key: ResourceKey::new(kind, name),
        version: Version::default(),
        body: Body::new(Content::Held),
        references: Arc::from([]),
        origins: Arc::from([]),
    })
}

/// One host of a table: its name and its routes as pairs of a match and a cluster.
pub type Host<'a> = (&'a str, Vec<(Value, &'a str)>);

pub fn prefix(path: &str) -> Value {
    json!({"prefix": path})
}

/// A table of hosts. The name of a route, in its origin too, is `HOST-INDEX`.
pub fn table(name: &str, hosts: &[Host<'_>]) -> Arc<Resource> {
    let head = route::RouteConfiguration { name: name.into(), ..Default::default() };
    let mut table = HostTable::new(head.encode_to_vec().into());
    let mut version = Version::of(name.as_bytes());
    for (host, routes) in hosts {
        let body = virtual_host(host, routes);
        version = version.plus(body.version);
        table.set(&Arc::from(*host), Some(Arc::new(body)));
    }
    Arc::new(Resource {
        key: ResourceKey::new(ResourceType::Route, name),
        version,
        body: Body::new(Content::Table(table)),
        references: Arc::from([]),
        origins: Arc::from([origin(name)]),
    })
}

fn virtual_host(host: &str, routes: &[(Value, &str)]) -> VirtualHostBody {
    let head = route::VirtualHost { name: host.into(), domains: vec![host.into()], ..Default::default() };
    let unit = |(index, (matches, cluster)): (usize, &(Value, &str))| {
        let name = format!("{host}-{index}");
        let json = json!({"name": name, "match": matches, "route": {"cluster": cluster}});
        let bytes = json::from_json("envoy.config.route.v3.Route", &json).unwrap();
        let version = Version::of(json.to_string().as_bytes());
        Unit { bytes: bytes.into(), version, origin: origin(&name) }
    };
    let units: Vec<_> = routes.iter().enumerate().map(unit).collect();
    let mut clusters: Vec<Arc<str>> = routes.iter().map(|(_, cluster)| Arc::from(*cluster)).collect();
    clusters.sort();
    clusters.dedup();
    VirtualHostBody {
        name: host.into(),
        head: head.encode_to_vec().into(),
        version: units.iter().fold(Version::of(host.as_bytes()), |sum, unit| sum.plus(unit.version)),
        routes: units.into(),
        clusters: clusters.into(),
    }
}
