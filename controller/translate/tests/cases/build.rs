//! Short ways to write plans.

use std::cmp::Reverse;
use std::sync::Arc;

use portolan_model::ir::*;
use portolan_model::objects::{HeaderModifier, Meta, ValueMatch, ValueMatcher};
use portolan_model::{Kind, NamespacedName, ObjectKey};
use portolan_proto::{Change, HostTable, Resource, Snapshot};
use portolan_translate::TableContext;

pub fn gateway() -> NamespacedName {
    NamespacedName::new("infra", "edge")
}

pub fn service(name: &str, protocol: UpstreamProtocol) -> ClusterKey {
    let backend = BackendId { kind: Kind::Service, name: NamespacedName::new("shop", name), port: 8080 };
    ClusterKey { backend, protocol }
}

pub fn http1(name: &str) -> ClusterKey {
    service(name, UpstreamProtocol::Http1)
}

pub fn http_table(port: u16) -> TableId {
    TableId { gateway: gateway(), port, server: None }
}

pub fn listener_plan(port: u16, binding: Binding) -> ListenerPlan {
    let table = http_table(port);
    let chain = ChainPlan { table, server_names: Vec::new(), certificates: Vec::new(), listener: None };
    ListenerPlan {
        gateway: gateway(),
        port,
        tls: false,
        binding,
        chains: vec![chain],
        access_logs: Arc::default(),
        listeners: vec![listener_id("web")],
    }
}

pub fn listener_id(name: &str) -> ListenerId {
    ListenerId { parent: ObjectKey::new(Kind::Gateway, gateway()), name: name.into() }
}

pub fn loopback() -> Binding {
    Binding { addresses: vec!["127.0.0.1".parse().unwrap()], ..Default::default() }
}

pub fn snapshot(resources: impl IntoIterator<Item = Resource>) -> Snapshot {
    let mut snapshot = Snapshot::default();
    snapshot.apply(
        resources.into_iter().map(|resource| Change { key: resource.key.clone(), resource: Some(Arc::new(resource)) }),
    );
    snapshot
}

// Routes

pub fn any() -> RequestMatch {
    prefix("")
}

pub fn prefix(prefix: &str) -> RequestMatch {
    on(PathSpec::SegmentPrefix(prefix.into()))
}

pub fn on(path: PathSpec) -> RequestMatch {
    RequestMatch { path, method: None, headers: Vec::new(), query: Vec::new(), grpc: false }
}

pub fn exact(name: &str, value: &str) -> ValueMatch {
    ValueMatch { name: name.into(), value: ValueMatcher::Exact(value.into()) }
}

pub fn regex(name: &str, value: &str) -> ValueMatch {
    ValueMatch { name: name.into(), value: ValueMatcher::Regex(value.into()) }
}

pub fn forward(backends: Vec<WeightedBackend>) -> Forward {
    Forward {
        backends,
        host_rewrite: None,
        path_rewrite: None,
        timeout: None,
        backend_timeout: None,
        mirrors: Vec::new(),
        websocket: true,
    }
}

pub fn to(name: &str) -> Forward {
    forward(vec![backend(name, 1)])
}

pub fn backend(name: &str, weight: u32) -> WeightedBackend {
    WeightedBackend {
        weight,
        target: WeightedTarget::Cluster(http1(name)),
        index: 0,
        request_headers: HeaderModifier::default(),
        response_headers: HeaderModifier::default(),
        host_rewrite: None,
        path_rewrite: None,
    }
}

pub fn invalid(weight: u32) -> WeightedBackend {
    WeightedBackend { target: WeightedTarget::Invalid, ..backend("", weight) }
}

pub fn modifier(set: &[(&str, &str)], add: &[(&str, &str)], remove: &[&str]) -> HeaderModifier {
    let pairs = |pairs: &[(&str, &str)]| pairs.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
    HeaderModifier { set: pairs(set), add: pairs(add), remove: remove.iter().map(|name| (*name).into()).collect() }
}

/// A rule of HTTPRoute `shop/cart` as far as a host's plan goes: one match, one action.
pub fn rule(request: RequestMatch, action: RuleAction) -> Arc<ResolvedRule> {
    filtered(request, action, RuleFilters::default())
}

pub fn filtered(request: RequestMatch, action: RuleAction, filters: RuleFilters) -> Arc<ResolvedRule> {
    Arc::new(ResolvedRule { index: 0, name: None, matches: vec![(0, request)], action, filters })
}

/// One host with these rules in this order.
pub fn host(table: TableId, host: &str, rules: Vec<Arc<ResolvedRule>>) -> HostPlan {
    let name = NamespacedName::new("shop", "cart");
    let planned = |(index, rule): (usize, Arc<ResolvedRule>)| {
        let rule = Arc::new(ResolvedRule { index, ..(*rule).clone() });
        let (matched, request) = rule.matches.first().cloned().unwrap();
        let kind = if request.grpc { Kind::GRPCRoute } else { Kind::HTTPRoute };
        let rank = Rank {
            path_kind: 0,
            path_length: Reverse(0),
            method: 1,
            headers: Reverse(0),
            query: Reverse(0),
            route: Meta { created: 0, name: name.clone() },
            kind,
            rule: index,
            matched,
        };
        PlannedRoute { route: ObjectKey::new(kind, name.clone()), rule, matched, request, rank, via: host.into() }
    };
    HostPlan {
        table,
        host: host.into(),
        domains: Vec::new(),
        routes: rules.into_iter().enumerate().map(planned).collect(),
        otherwise: 404,
    }
}

/// The table of these hosts.
pub fn table(id: &TableId, hosts: &[HostPlan]) -> Resource {
    table_where(id, hosts, TableContext { tls: id.server.is_some(), port: id.port }, &mut |_, _| None)
}

pub fn table_where(
    id: &TableId,
    hosts: &[HostPlan],
    context: TableContext,
    refused: &mut dyn FnMut(&PlannedRoute, u128) -> Option<()>,
) -> Resource {
    let mut table = HostTable::new(portolan_translate::table_head(id));
    let mut version = portolan_translate::table_head_version(id);
    for host in hosts {
        let body = portolan_translate::virtual_host(host, context, refused);
        version = version.plus(body.version);
        table.set(&host.host, Some(Arc::new(body)));
    }
    portolan_translate::table(id, table, version)
}
