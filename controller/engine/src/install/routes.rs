//! What a route leads to: clusters, attachments, users of backends.

use std::collections::BTreeSet;
use std::sync::Arc;

use portolan_model::ir::RouteView;
use portolan_model::{NamespacedName, ObjectKey};

use crate::engine::Engine;
use crate::node::{Node, Read};

impl Engine {
    pub(super) fn install_route(&mut self, node: &Node, key: ObjectKey, view: Option<RouteView>) {
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
            let users = self.target_users.entry(target.clone()).or_insert_with(|| Vec::with_capacity(1));
            match users.binary_search_by(|(user, _)| user.cmp(gateway)) {
                Ok(place) => users.get_mut(place).into_iter().for_each(|(_, count)| *count += 1),
                Err(place) => {
                    users.insert(place, (gateway.clone(), 1));
                    self.graph.touch(&Read::GatewaysUsing(target.clone()));
                }
            }
        }
        for (target, gateway) in old.difference(&new) {
            let Some(users) = self.target_users.get_mut(target) else { continue };
            let Ok(place) = users.binary_search_by(|(user, _)| user.cmp(gateway)) else { continue };
            match users.get_mut(place) {
                Some((_, count)) if *count > 1 => *count -= 1,
                _ => {
                    users.remove(place);
                    self.graph.touch(&Read::GatewaysUsing(target.clone()));
                }
            }
            if users.is_empty() {
                self.target_users.remove(target);
            }
        }
    }
}
