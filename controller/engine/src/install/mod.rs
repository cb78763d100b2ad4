//! What follows from a result that differs: indexes, other nodes, the fleets' resources.

mod clusters;
mod gateways;
mod hosts;
mod routes;

use std::sync::Arc;

use portolan_model::Kind;

use crate::Output;
use crate::compute::Value;
use crate::engine::Engine;
use crate::node::{Node, Read};

impl Engine {
    pub(crate) fn install(&mut self, node: &Node, value: Value, output: &mut Output) {
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
}
