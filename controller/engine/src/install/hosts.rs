//! Hostnames of tables exist while a listener or a route has them.

use std::sync::Arc;

use portolan_model::ir::{HostEntry, TableId};
use portolan_model::{Name, ObjectKey};
use portolan_proto::VirtualHostBody;
use portolan_resolve::Refusal;

use crate::engine::{Engine, HostKey, HostSlot};
use crate::node::{Node, Read};

impl Engine {
    /// Changes why a host exists, and has it computed; a host without reason goes.
    pub(super) fn with_slot(&mut self, key: &HostKey, change: impl FnOnce(&mut HostSlot)) {
        let slot = self.hosts.entry(key.clone()).or_default();
        change(slot);
        if slot.routes.is_empty() && !slot.listener {
            self.hosts.remove(key);
        }
        let (table, host) = key.clone();
        self.graph.want(&Node::VirtualHost(Box::new((table, host))));
    }

    pub(super) fn install_entries(&mut self, node: &Node, key: &ObjectKey, entries: Vec<HostEntry>) {
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
        self.graph.touch(&Read::Host(Box::new(key)));
    }

    pub(super) fn install_host(
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
                self.touch_port_refusals(&gateway);
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

/// The objects that a virtual host's routes come from: no part of its version.
fn origins(host: &VirtualHostBody) -> impl Iterator<Item = &portolan_proto::Origin> {
    host.routes.iter().map(|unit| &unit.origin)
}
