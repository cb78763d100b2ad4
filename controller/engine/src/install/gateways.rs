//! What a Gateway's listeners call for: sockets, tables, secrets, hosts.

use std::collections::BTreeSet;
use std::sync::Arc;

use portolan_model::ir::TableId;
use portolan_model::{Kind, NamespacedName};

use crate::Output;
use crate::compute::Plans;
use crate::engine::{Engine, HostKey};
use crate::fleet::Fleet;
use crate::node::Node;

impl Engine {
    pub(super) fn install_plans(&mut self, node: &Node, name: NamespacedName, plans: Plans, output: &mut Output) {
        let Some((plans, hosts, intent)) = plans else {
            if self.fleets.remove(&name).is_some() {
                output.removed_fleets.push(name.clone());
            }
            if self.intents.remove(&name).is_some() {
                output.intents.insert(name.clone(), None);
            }
            self.listener_plans.remove(&name);
            self.set_listener_hosts(&name, BTreeSet::new());
            #[expect(clippy::iter_over_hash_type, reason = "the same is done to each, whatever the order")]
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
        self.touch_port_refusals(&name);
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
}
