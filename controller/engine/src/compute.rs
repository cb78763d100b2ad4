//! Computing one node, and what follows from a result that differs.

use std::collections::BTreeSet;
use std::sync::Arc;

use portolan_model::ir::{
    BackendId, BackendView, ClusterKey, GatewayView, HostEntry, ListenerPlan, ParentView, RouteView, Status, TableId,
};
use portolan_model::{Kind, Name, NamespacedName, ObjectKey};
use portolan_proto::{Resource, VirtualHostBody};
use portolan_resolve::{Refusal, World, backend, endpoints, gateway, host, listener, parent, route, secret, status};
use portolan_translate::TableContext;

use crate::engine::{ClusterSlot, Engine, HostKey};
use crate::fleet::Fleet;
use crate::node::{Node, Read};
use crate::recorder::{Made, Recorder};
use crate::{FleetIntent, Output};

/// The result of a node.
enum Value {
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
type Plans = Option<(Vec<ListenerPlan>, BTreeSet<HostKey>, FleetIntent)>;

fn evaluate(node: &Node, world: &Recorder<'_>) -> Value {
    match node {
        Node::GatewayView(name) => Value::GatewayView(name.clone(), gateway::view(world, name)),
        Node::ListenerPlans(name) => Value::ListenerPlans(name.clone(), plans(world, name)),
        Node::ParentView(key) => Value::ParentView(key.clone(), parent::view(world, key)),
        Node::BackendView(id) => Value::BackendView(id.clone(), backend::view(world, id)),
        Node::RouteView(key) => Value::RouteView(key.clone(), route::view(world, key)),
        Node::HostEntries(key) => Value::HostEntries(key.clone(), host_entries(world, key)),
        Node::VirtualHost(table, name) => virtual_host(world, table, name),
        Node::Cluster(key) => {
            Value::Cluster(key.clone(), backend::cluster(world, key).map(|plan| portolan_translate::cluster(&plan)))
        }
        Node::Endpoints(key) => {
            Value::Endpoints(key.clone(), endpoints::plan(world, key).map(|plan| portolan_translate::endpoints(&plan)))
        }
        Node::Secret(name) => Value::Secret(name.clone(), portolan_translate::secret(&secret::plan(world, name))),
        Node::Status(key) => Value::Status(key.clone(), compute_status(world, key)),
    }
}

fn plans(world: &Recorder<'_>, name: &NamespacedName) -> Plans {
    let view = world.gateway_view(name)?;
    let plans = listener::plans(world, name);
    let hosts = host::listener_hosts(&view).into_iter().collect();
    let intent = FleetIntent {
        ports: plans.iter().map(|plan| (plan.port, plan.tls)).collect(),
        addresses: view.requested_addresses.clone(),
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
    entries
}

fn virtual_host(world: &Recorder<'_>, table: &TableId, name: &Name) -> Value {
    let mut refusals = Vec::new();
    let offset = world.binding(&table.gateway).map_or(0, |binding| binding.port_offset);
    let context = TableContext { tls: table.server.is_some(), port: table.port.saturating_add(offset) };
    let body = host::plan(world, table, name).map(|plan| {
        Arc::new(portolan_translate::virtual_host_at(&plan, context, &mut |planned, content| {
            let text = world.refused(&planned.route, content)?;
            let refusal = Refusal { rule: planned.rule.index, matched: planned.matched, text };
            refusals.push((planned.route.clone(), refusal));
            Some(())
        }))
    });
    Value::VirtualHost(table.clone(), Arc::clone(name), body, refusals)
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

    fn install(&mut self, node: &Node, value: Value, output: &mut Output) {
        match value {
            Value::GatewayView(name, view) => {
                let gone = self.store.object(Kind::Gateway, &name).is_none();
                if self.gateway_views.get(&name).map(|old| &**old) != view.as_ref() {
                    match view {
                        Some(view) => _ = self.gateway_views.insert(name.clone(), Arc::new(view)),
                        None => _ = self.gateway_views.remove(&name),
                    }
                    self.graph.touch(&Read::GatewayView(name));
                }
                if gone {
                    self.drop_node(node);
                }
            }
            Value::ListenerPlans(name, plans) => self.install_plans(node, name, plans, output),
            Value::ParentView(key, view) => {
                if let Some(old) = self.parent_views.get(&key)
                    && old.as_deref() != view.as_ref()
                {
                    self.parent_views.insert(key.clone(), view.map(Arc::new));
                    self.graph.touch(&Read::ParentView(key));
                }
            }
            Value::BackendView(id, view) => {
                if let Some(old) = self.backend_views.get(&id)
                    && **old != view
                {
                    self.backend_views.insert(id.clone(), Arc::new(view));
                    self.graph.touch(&Read::BackendView(id));
                }
            }
            Value::RouteView(key, view) => self.install_route(node, key, view),
            Value::HostEntries(key, entries) => self.install_entries(node, &key, entries),
            Value::VirtualHost(table, name, body, refusals) => self.install_host(node, table, name, body, refusals),
            Value::Cluster(key, resource) => {
                if let Some(slot) = self.clusters.get_mut(&key) {
                    slot.cluster = resource.map(Arc::new);
                    self.publish_cluster(&key);
                } else {
                    self.drop_node(node);
                }
            }
            Value::Endpoints(key, resource) => {
                if let Some(slot) = self.clusters.get_mut(&key) {
                    slot.endpoints = resource.map(Arc::new);
                    self.publish_cluster(&key);
                } else {
                    self.drop_node(node);
                }
            }
            Value::Secret(name, resource) => {
                if let Some(slot) = self.secrets.get_mut(&name) {
                    let resource = Arc::new(resource);
                    slot.secret = Some(Arc::clone(&resource));
                    for fleet in slot.fleets.clone() {
                        if let Some(fleet) = self.fleets.get_mut(&fleet) {
                            fleet.put(Arc::clone(&resource));
                        }
                    }
                } else {
                    self.drop_node(node);
                }
            }
            Value::Status(key, status) => {
                let gone = self.store.get(&key).is_none();
                if self.statuses.get(&key) != status.as_ref() {
                    match &status {
                        Some(status) => _ = self.statuses.insert(key.clone(), status.clone()),
                        None => _ = self.statuses.remove(&key),
                    }
                    output.statuses.insert(key, status);
                }
                if gone {
                    self.drop_node(node);
                }
            }
        }
    }

    fn install_plans(&mut self, node: &Node, name: NamespacedName, plans: Plans, output: &mut Output) {
        let Some((plans, hosts, intent)) = plans else {
            if self.fleets.remove(&name).is_some() {
                output.removed_fleets.push(name.clone());
            }
            if self.intents.remove(&name).is_some() {
                output.intents.insert(name.clone(), None);
            }
            self.listener_plans.remove(&name);
            self.set_listener_hosts(&name, BTreeSet::new());
            for slot in self.clusters.values_mut() {
                slot.fleets.remove(&name);
            }
            self.set_secret_users(&name, &BTreeSet::new());
            if self.store.object(Kind::Gateway, &name).is_none() {
                self.drop_node(node);
            }
            return;
        };
        if self.intents.get(&name) != Some(&intent) {
            self.intents.insert(name.clone(), intent.clone());
            output.intents.insert(name.clone(), Some(intent));
        }
        self.set_listener_hosts(&name, hosts);
        if self.listener_plans.get(&name) == Some(&plans) {
            return;
        }
        let chains = || plans.iter().flat_map(|plan| &plan.chains);
        let tables: BTreeSet<TableId> = chains().map(|chain| chain.table.clone()).collect();
        let secrets: BTreeSet<NamespacedName> = chains().flat_map(|chain| chain.certificates.iter().cloned()).collect();
        let listeners = plans.iter().map(|plan| Arc::new(portolan_translate::listener(plan))).collect();
        // Here, below the routes' stratum, so that a route never attaches to a Gateway whose fleet does not exist.
        self.fleets.entry(name.clone()).or_insert_with(Fleet::new);
        self.set_secret_users(&name, &secrets);
        if let Some(fleet) = self.fleets.get_mut(&name) {
            fleet.set_tables(&tables);
            for new in fleet.set_listeners(listeners, secrets) {
                if let Some(secret) = self.secrets.get(&new).and_then(|slot| slot.secret.as_ref()) {
                    fleet.put(Arc::clone(secret));
                }
            }
        }
        self.listener_plans.insert(name, plans);
    }

    fn set_listener_hosts(&mut self, gateway: &NamespacedName, hosts: BTreeSet<HostKey>) {
        let old = self.listener_hosts.remove(gateway).unwrap_or_default();
        for key in old.difference(&hosts) {
            self.with_slot(key, |slot| slot.listener = false);
        }
        for key in hosts.difference(&old) {
            self.with_slot(key, |slot| slot.listener = true);
        }
        if !hosts.is_empty() {
            self.listener_hosts.insert(gateway.clone(), hosts);
        }
    }

    /// Changes why a host exists, and has it computed; a host without reason goes.
    fn with_slot(&mut self, key: &HostKey, change: impl FnOnce(&mut crate::engine::HostSlot)) {
        let slot = self.hosts.entry(key.clone()).or_default();
        change(slot);
        if slot.routes.is_empty() && !slot.listener {
            self.hosts.remove(key);
        }
        let (table, host) = key.clone();
        self.graph.want(&Node::VirtualHost(table, host));
    }

    fn set_secret_users(&mut self, fleet: &NamespacedName, secrets: &BTreeSet<NamespacedName>) {
        let old = self.fleets.get(fleet).map(|fleet| fleet.secrets().clone()).unwrap_or_default();
        // A fleet that was just removed has no secrets any more: look for them at the other end.
        let users: Vec<NamespacedName> = if self.fleets.contains_key(fleet) {
            old.difference(secrets).cloned().collect()
        } else {
            self.secrets.iter().filter(|(_, slot)| slot.fleets.contains(fleet)).map(|(name, _)| name.clone()).collect()
        };
        for name in users {
            if let Some(slot) = self.secrets.get_mut(&name) {
                slot.fleets.remove(fleet);
                if slot.fleets.is_empty() {
                    self.secrets.remove(&name);
                    self.drop_node(&Node::Secret(name));
                }
            }
        }
        for name in secrets {
            let slot = self.secrets.entry(name.clone()).or_default();
            slot.fleets.insert(fleet.clone());
            if slot.secret.is_none() {
                self.graph.want(&Node::Secret(name.clone()));
            }
        }
    }

    fn install_route(&mut self, node: &Node, key: ObjectKey, view: Option<RouteView>) {
        let gone = self.store.get(&key).is_none();
        if self.route_views.get(&key).map(|old| &**old) != view.as_ref() {
            let view = view.map(Arc::new);
            let old = match &view {
                Some(view) => self.route_views.insert(key.clone(), Arc::clone(view)),
                None => self.route_views.remove(&key),
            };
            // First the new uses, so that a cluster that both need is never let go in between.
            if let Some(view) = &view {
                self.use_clusters(view);
            }
            if let Some(old) = &old {
                self.release_clusters(old);
            }
            self.set_attachments(&key, old.as_deref(), view.as_deref());
            self.set_target_users(old.as_deref(), view.as_deref());
            self.graph.touch(&Read::RouteView(key));
        }
        if gone {
            self.drop_node(node);
        }
    }

    fn set_attachments(&mut self, key: &ObjectKey, old: Option<&RouteView>, new: Option<&RouteView>) {
        let listeners = |view: Option<&RouteView>| -> BTreeSet<_> {
            let parents = view.into_iter().flat_map(|view| &view.parents).filter(|parent| parent.accepted());
            parents.flat_map(|parent| &parent.attachments).map(|attachment| attachment.listener.clone()).collect()
        };
        let (old, new) = (listeners(old), listeners(new));
        for listener in old.difference(&new) {
            if let Some(routes) = self.attached.get_mut(listener) {
                routes.remove(key);
                if routes.is_empty() {
                    self.attached.remove(listener);
                }
            }
            self.graph.touch(&Read::Attached(listener.clone()));
        }
        for listener in new.difference(&old) {
            self.attached.entry(listener.clone()).or_default().insert(key.clone());
            self.graph.touch(&Read::Attached(listener.clone()));
        }
    }

    /// Keeps the index from Services and Backends to the Gateways whose routes name them.
    fn set_target_users(&mut self, old: Option<&RouteView>, new: Option<&RouteView>) {
        let pairs = |view: Option<&RouteView>| -> BTreeSet<(ObjectKey, NamespacedName)> {
            let view = view.into_iter();
            view.flat_map(|view| {
                let gateways = view.parents.iter().map(|parent| &parent.gateway);
                gateways.flat_map(|gateway| view.targets.iter().map(|target| (target.clone(), gateway.clone())))
            })
            .collect()
        };
        let (old, new) = (pairs(old), pairs(new));
        for (target, gateway) in new.difference(&old) {
            let users = self.target_users.entry(target.clone()).or_default().entry(gateway.clone()).or_default();
            *users += 1;
            if *users == 1 {
                self.graph.touch(&Read::GatewaysUsing(target.clone()));
            }
        }
        for (target, gateway) in old.difference(&new) {
            let Some(users) = self.target_users.get_mut(target) else { continue };
            match users.get_mut(gateway) {
                Some(count) if *count > 1 => *count -= 1,
                _ => {
                    users.remove(gateway);
                    self.graph.touch(&Read::GatewaysUsing(target.clone()));
                }
            }
            if users.is_empty() {
                self.target_users.remove(target);
            }
        }
    }

    /// Counts the route's clusters in the fleets it is attached to.
    fn use_clusters(&mut self, view: &RouteView) {
        for gateway in attached_gateways(view) {
            let Some(fleet) = self.fleets.get_mut(gateway) else { continue };
            let first: Vec<ClusterKey> = view.clusters().into_iter().filter(|key| fleet.use_cluster(key)).collect();
            for key in first {
                let slot = self.clusters.entry(key.clone()).or_default();
                slot.fleets.insert(gateway.clone());
                self.graph.want(&Node::Cluster(key.clone()));
                self.graph.want(&Node::Endpoints(key));
            }
        }
    }

    fn release_clusters(&mut self, view: &RouteView) {
        for gateway in attached_gateways(view) {
            let Some(fleet) = self.fleets.get_mut(gateway) else { continue };
            let last: Vec<ClusterKey> = view.clusters().into_iter().filter(|key| fleet.release_cluster(key)).collect();
            for key in last {
                let name: Arc<str> = key.resource_name().into();
                fleet.take_out(portolan_translate::cluster_key(&name));
                fleet.take_out(portolan_translate::endpoints_key(&name));
                if let Some(slot) = self.clusters.get_mut(&key) {
                    slot.fleets.remove(gateway);
                }
            }
        }
        for key in view.clusters() {
            if self.clusters.get(&key).is_some_and(|slot| slot.fleets.is_empty()) {
                self.clusters.remove(&key);
                let unread = [Node::Cluster(key.clone()), Node::Endpoints(key)];
                for node in &unread {
                    self.drop_node(node);
                }
            }
        }
    }

    /// Hands a cluster and its endpoints to the fleets that use it.
    fn publish_cluster(&mut self, key: &ClusterKey) {
        let Some(ClusterSlot { fleets, cluster, endpoints }) = self.clusters.get(key) else { return };
        let name: Arc<str> = key.resource_name().into();
        for gateway in fleets {
            let Some(fleet) = self.fleets.get_mut(gateway) else { continue };
            match cluster {
                Some(cluster) => fleet.put(Arc::clone(cluster)),
                None => fleet.take_out(portolan_translate::cluster_key(&name)),
            }
            match endpoints {
                Some(endpoints) => fleet.put(Arc::clone(endpoints)),
                None => fleet.take_out(portolan_translate::endpoints_key(&name)),
            }
        }
    }

    fn install_entries(&mut self, node: &Node, key: &ObjectKey, entries: Vec<HostEntry>) {
        let old = self.host_entries.remove(key).unwrap_or_default();
        let gone = self.store.get(key).is_none();
        for entry in old.iter().filter(|entry| entries.binary_search(entry).is_err()) {
            self.set_entry(entry, false);
        }
        for entry in entries.iter().filter(|entry| old.binary_search(entry).is_err()) {
            self.set_entry(entry, true);
        }
        if !entries.is_empty() {
            self.host_entries.insert(key.clone(), entries);
        }
        if gone {
            self.drop_node(node);
        }
    }

    fn set_entry(&mut self, entry: &HostEntry, present: bool) {
        let key = (entry.table.clone(), Arc::clone(&entry.host));
        let route = entry.route.clone();
        self.with_slot(&key, |slot| {
            if present {
                slot.routes.insert(route);
            } else {
                slot.routes.remove(&route);
            }
        });
        self.graph.touch(&Read::Host(key.0, key.1));
    }

    fn install_host(
        &mut self,
        node: &Node,
        table: TableId,
        name: Name,
        body: Option<Arc<VirtualHostBody>>,
        refusals: Vec<(ObjectKey, Refusal)>,
    ) {
        let gateway = table.gateway.clone();
        if let Some(fleet) = self.fleets.get_mut(&gateway) {
            let same = match (fleet.host(&table, &name), &body) {
                (Some(old), Some(new)) => old.version == new.version && origins(old).eq(origins(new)),
                (old, new) => old.is_none() && new.is_none(),
            };
            if !same {
                fleet.set_host(&table, &name, body);
            }
        }
        let key = (table, name);
        for route in self.refusals.set(&key, refusals) {
            self.graph.touch(&Read::Refusals(route));
        }
        if !self.hosts.contains_key(&key) {
            self.drop_node(node);
        }
    }
}

/// The Gateways whose listeners take the route.
fn attached_gateways(view: &RouteView) -> BTreeSet<&NamespacedName> {
    view.parents.iter().filter(|parent| !parent.attachments.is_empty()).map(|parent| &parent.gateway).collect()
}

/// The objects that a virtual host's routes come from: no part of its version.
fn origins(host: &VirtualHostBody) -> impl Iterator<Item = &portolan_proto::Origin> {
    host.routes.iter().map(|unit| &unit.origin)
}
