//! Computing one node.

use std::collections::BTreeSet;
use std::sync::Arc;

use portolan_model::ir::{
    BackendId, BackendView, ClusterKey, GatewayView, HostEntry, ListenerPlan, ParentView, RouteView, SecretPlan,
    SecretState, Status, TableId,
};
use portolan_model::{Kind, Name, NamespacedName, ObjectKey};
use portolan_proto::{Resource, Version, VirtualHostBody};
use portolan_resolve::{
    Refusal, RefusedPlace, World, backend, endpoints, gateway, host, listener, parent, route, secret, status,
};
use portolan_translate::TableContext;

use crate::engine::{Engine, HostKey};
use crate::node::Node;
use crate::recorder::{Made, Recorder};
use crate::{FleetIntent, Output, Subject, refused};

/// The result of a node.
pub enum Value {
    GatewayView(NamespacedName, Option<GatewayView>),
    ListenerPlans(NamespacedName, Plans),
    ParentView(ObjectKey, Option<ParentView>),
    BackendView(BackendId, BackendView),
    RouteView(ObjectKey, Option<RouteView>),
    HostEntries(ObjectKey, Vec<HostEntry>),
    VirtualHost(TableId, Name, Option<Arc<VirtualHostBody>>, Vec<(ObjectKey, Refusal)>),
    Cluster(ClusterKey, Option<Resource>),
    Endpoints(ClusterKey, Option<Resource>),
    Secret(NamespacedName, Resource),
    Status(ObjectKey, Option<Status>),
}

/// What a Gateway's listeners call for; `None`: the Gateway is not Portolan's.
pub type Plans = Option<(Vec<ListenerPlan>, BTreeSet<HostKey>, FleetIntent)>;

fn evaluate(node: &Node, world: &Recorder<'_>) -> Value {
    match node {
        Node::GatewayView(name) => Value::GatewayView(name.clone(), gateway::view(world, name)),
        Node::ListenerPlans(name) => Value::ListenerPlans(name.clone(), plans(world, name)),
        Node::ParentView(key) => Value::ParentView(key.clone(), parent::view(world, key)),
        Node::BackendView(id) => Value::BackendView(id.clone(), backend::view(world, id)),
        Node::RouteView(key) => Value::RouteView(key.clone(), route::view(world, key)),
        Node::HostEntries(key) => Value::HostEntries(key.clone(), host_entries(world, key)),
        Node::VirtualHost(key) => virtual_host(world, &key.0, &key.1),
        Node::Cluster(key) => {
            Value::Cluster(key.clone(), backend::cluster(world, key).map(|plan| portolan_translate::cluster(&plan)))
        }
        Node::Endpoints(key) => {
            Value::Endpoints(key.clone(), endpoints::plan(world, key).map(|plan| portolan_translate::endpoints(&plan)))
        }
        Node::Secret(name) => Value::Secret(name.clone(), certificate(world, name)),
        Node::Status(key) => Value::Status(key.clone(), compute_status(world, key)),
    }
}

fn plans(world: &Recorder<'_>, name: &NamespacedName) -> Plans {
    let view = world.gateway_view(name)?;
    let plans = listener::plans(world, name);
    let hosts = host::listener_hosts(&view).into_iter().collect();
    let parameters = gateway::parameters(world, name);
    let (labels, annotations) = world
        .gateway(name)
        .and_then(|gateway| gateway.infrastructure.clone())
        .map(|infrastructure| (infrastructure.labels, infrastructure.annotations))
        .unwrap_or_default();
    let intent = FleetIntent {
        ports: plans.iter().map(|plan| (plan.port, plan.tls)).collect(),
        addresses: view.requested_addresses.clone(),
        labels,
        annotations,
        parameters: parameters.own,
        class_parameters: parameters.class,
        class_is_lost: parameters.class_is_lost,
        refused: view.refused,
    };
    Some((plans, hosts, intent))
}

fn host_entries(world: &Recorder<'_>, key: &ObjectKey) -> Vec<HostEntry> {
    let Some(view) = world.route_view(key) else { return Vec::new() };
    let gateways: BTreeSet<&NamespacedName> = view.parents.iter().map(|parent| &parent.gateway).collect();
    let mut entries: Vec<HostEntry> = gateways
        .into_iter()
        .filter_map(|gateway| world.gateway_view(gateway))
        .flat_map(|gateway| host::hosts_of(&view, &gateway))
        .collect();
    entries.sort_unstable();
    entries.dedup();
    entries.shrink_to_fit();
    entries
}

fn virtual_host(world: &Recorder<'_>, table: &TableId, name: &Name) -> Value {
    let mut refusals = Vec::new();
    // Where nothing can listen, no listener names the table.
    let port = world.binding(&table.gateway).map_or(Some(table.port), |binding| binding.port(table.port));
    let body = port.and_then(|port| {
        let context = TableContext { tls: table.server.is_some(), port };
        let plan = host::plan(world, table, name)?;
        let body = portolan_translate::virtual_host(&plan, context, &mut |planned, content| {
            let text = world.refused(&Subject::Route(planned.route.clone()), Version(content))?;
            let place = RefusedPlace::Match { rule: planned.rule.index, matched: planned.matched };
            refusals.push((planned.route.clone(), Refusal { place, text }));
            Some(())
        });
        let subject = Subject::Host(Box::new((table.clone(), Arc::clone(name))));
        let Some(text) = world.refused(&subject, body.version) else { return Some(Arc::new(body)) };
        let refusal = Refusal { place: RefusedPlace::Host(table.clone(), Arc::clone(name)), text };
        let routes: BTreeSet<&ObjectKey> = plan.routes.iter().map(|planned| &planned.route).collect();
        refusals.extend(routes.iter().map(|route| (ObjectKey::clone(route), refusal.clone())));
        if routes.is_empty() {
            refusals.push((ObjectKey::new(Kind::Gateway, table.gateway.clone()), refusal));
        }
        let substitute = portolan_translate::refused_host(&body, &table.gateway);
        world.refused(&subject, substitute.version).is_none().then(|| Arc::new(substitute))
    });
    Value::VirtualHost(table.clone(), Arc::clone(name), body, refusals)
}

fn certificate(world: &Recorder<'_>, name: &NamespacedName) -> Resource {
    let plan = secret::plan(world, name);
    match refused::secret(world, name) {
        Some(_) => portolan_translate::secret(&SecretPlan { state: SecretState::Held, ..plan }),
        None => portolan_translate::secret(&plan),
    }
}

fn compute_status(world: &Recorder<'_>, key: &ObjectKey) -> Option<Status> {
    match key.kind {
        Kind::GatewayClass => status::gateway_class(world, &key.name.name),
        Kind::Gateway => status::gateway(world, &key.name),
        Kind::ListenerSet => status::listener_set(world, &key.name),
        Kind::BackendTLSPolicy => status::policy(world, &key.name),
        kind if kind.is_route() => status::route(world, key),
        _ => None,
    }
}

impl Engine {
    pub(crate) fn compute(&mut self, node: &Node, output: &mut Output) {
        let recorder = Recorder::new(self);
        let value = evaluate(node, &recorder);
        let (reads, made) = recorder.finish();
        for made in made {
            let node = made.node();
            match made {
                Made::Parent(key, view, reads) => {
                    self.parent_views.insert(key, view);
                    self.record(&node, &reads);
                }
                Made::Backend(id, view, reads) => {
                    self.backend_views.insert(id, view);
                    self.record(&node, &reads);
                }
            }
        }
        self.record(node, &reads);
        self.install(node, value, output);
    }
}
