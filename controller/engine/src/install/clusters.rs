//! Clusters exist in a fleet while a route attached to it uses them.

use std::collections::BTreeSet;
use std::sync::Arc;

use portolan_model::NamespacedName;
use portolan_model::ir::{ClusterKey, RouteView};

use crate::engine::{ClusterSlot, Engine};
use crate::node::Node;

impl Engine {
    /// Counts the route's clusters in the fleets it is attached to.
    pub(super) fn use_clusters(&mut self, view: &RouteView) {
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

    pub(super) fn release_clusters(&mut self, view: &RouteView) {
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
    pub(super) fn publish_cluster(&mut self, key: &ClusterKey) {
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
}

/// The Gateways whose listeners take the route.
fn attached_gateways(view: &RouteView) -> BTreeSet<&NamespacedName> {
    view.parents.iter().filter(|parent| !parent.attachments.is_empty()).map(|parent| &parent.gateway).collect()
}
