//! The resources of one fleet, gathered from the nodes that make them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use portolan_model::ir::{ClusterKey, TableId};
use portolan_model::{Name, NamespacedName};
use portolan_proto::{Change, HostTable, Resource, ResourceKey, Snapshot, Version, VirtualHostBody};
use portolan_resolve::PortRefusal;

/// A route table in the making.
struct Table {
    hosts: HostTable,
    /// Sum of the versions of head and hosts
    version: Version,
    /// Whether a listener names it; hosts may be known before
    published: bool,
}

/// One Gateway's fleet.
pub struct Fleet {
    snapshot: Snapshot,
    tables: BTreeMap<TableId, Table>,
    dirty: BTreeSet<TableId>,
    /// Whether tables may be in force that Envoy has refused since
    reconsider: bool,
    /// Clusters by the number of routes that use them
    clusters: BTreeMap<ClusterKey, usize>,
    listeners: BTreeMap<ResourceKey, Version>,
    secrets: BTreeSet<NamespacedName>,
    pending: BTreeMap<ResourceKey, Option<Arc<Resource>>>,
}

impl Fleet {
    /// A fleet with what every fleet has: the probe, on which a refused table is searched for its culprit, and the endpoints of the
    /// cluster that stands for the proxies themselves.
    pub fn new() -> Self {
        let mut fleet = Self {
            snapshot: Snapshot::default(),
            tables: BTreeMap::new(),
            dirty: BTreeSet::new(),
            reconsider: false,
            clusters: BTreeMap::new(),
            listeners: BTreeMap::new(),
            secrets: BTreeSet::new(),
            pending: BTreeMap::new(),
        };
        for resource in [
            portolan_translate::probe_listener(),
            portolan_translate::probe_table(),
            portolan_translate::local_endpoints(),
        ] {
            fleet.put(Arc::new(resource));
        }
        fleet
    }

    pub const fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    /// Puts a resource in or replaces it, with the next [`Fleet::publish`].
    pub fn put(&mut self, resource: Arc<Resource>) {
        self.pending.insert(resource.key.clone(), Some(resource));
    }

    pub fn take_out(&mut self, key: ResourceKey) {
        self.pending.insert(key, None);
    }

    /// The virtual host that is in force.
    pub fn host(&self, table: &TableId, host: &Name) -> Option<&Arc<VirtualHostBody>> {
        self.tables.get(table)?.hosts.hosts.get(host)
    }

    pub fn set_host(&mut self, id: &TableId, host: &Name, body: Option<Arc<VirtualHostBody>>) {
        let table = self.tables.entry(id.clone()).or_insert_with(|| Table::new(id));
        if let Some(old) = table.hosts.hosts.get(host) {
            table.version = table.version.minus(old.version);
        }
        if let Some(new) = &body {
            table.version = table.version.plus(new.version);
        }
        table.hosts.set(host, body);
        self.dirty.insert(id.clone());
    }

    /// Says which tables the listeners name.
    pub fn set_tables(&mut self, named: &BTreeSet<TableId>) {
        for id in named {
            let table = self.tables.entry(id.clone()).or_insert_with(|| Table::new(id));
            if !table.published {
                table.published = true;
                self.dirty.insert(id.clone());
            }
        }
        for (id, table) in &mut self.tables {
            if table.published && !named.contains(id) {
                table.published = false;
                self.dirty.insert(id.clone());
            }
        }
    }

    /// Says which listeners and secrets there are; returns the secrets that are new.
    pub fn set_listeners(
        &mut self,
        listeners: Vec<Arc<Resource>>,
        secrets: BTreeSet<NamespacedName>,
    ) -> Vec<NamespacedName> {
        let versions: BTreeMap<ResourceKey, Version> =
            listeners.iter().map(|listener| (listener.key.clone(), listener.version)).collect();
        for gone in self.listeners.keys().filter(|key| !versions.contains_key(*key)) {
            self.pending.insert(gone.clone(), None);
        }
        self.listeners = versions;
        for listener in listeners {
            self.put(listener);
        }
        for gone in self.secrets.difference(&secrets) {
            self.pending.insert(portolan_translate::secret_key(gone), None);
        }
        let new = secrets.difference(&self.secrets).cloned().collect();
        self.secrets = secrets;
        new
    }

    pub const fn secrets(&self) -> &BTreeSet<NamespacedName> {
        &self.secrets
    }

    /// Counts one more user of a cluster. True: it is the first.
    pub fn use_cluster(&mut self, key: &ClusterKey) -> bool {
        let uses = self.clusters.entry(key.clone()).or_default();
        *uses += 1;
        *uses == 1
    }

    /// Counts one user less. True: it was the last.
    pub fn release_cluster(&mut self, key: &ClusterKey) -> bool {
        match self.clusters.get_mut(key) {
            Some(uses) if *uses > 1 => {
                *uses -= 1;
                false
            }
            Some(_) => self.clusters.remove(key).is_some(),
            None => false,
        }
    }

    /// The version of a listener.
    pub fn listener_version(&self, key: &ResourceKey) -> Option<Version> {
        self.listeners.get(key).copied()
    }

    /// Envoy has refused a table, which counts from the next [`Fleet::publish`] on.
    pub const fn reconsider_tables(&mut self) {
        self.reconsider = true;
    }

    /// The listeners and tables of which `refused` gives a text.
    pub fn port_refusals(&self, refused: &mut dyn FnMut(Version) -> Option<Arc<str>>) -> Vec<PortRefusal> {
        let mut refusals = Vec::new();
        for (key, version) in &self.listeners {
            let Some(port) = portolan_translate::port_of_listener(&key.name) else { continue };
            refusals.extend(refused(*version).map(|text| PortRefusal { port, table: None, text }));
        }
        for (id, table) in self.tables.iter().filter(|(_, table)| table.published) {
            let mut first = None;
            table.in_force(id, &mut |version| {
                let text = refused(version);
                let is_refused = text.is_some();
                first = first.take().or(text);
                is_refused
            });
            refusals.extend(first.map(|text| PortRefusal { port: id.port, table: Some(id.clone()), text }));
        }
        refusals
    }

    /// Puts everything pending in force. Returns what differs. A resource whose provenance alone differs is among it: its version is
    /// the same, so nothing is sent, but a refusal must be blamed on the right object. `refused`: whether Envoy refused a table of this
    /// version.
    pub fn publish(&mut self, refused: &dyn Fn(Version) -> bool) -> Vec<Change> {
        let mut changes = Vec::new();
        let dirty = std::mem::take(&mut self.dirty);
        if std::mem::take(&mut self.reconsider) {
            for (id, table) in self.tables.iter().filter(|(id, table)| table.published && !dirty.contains(*id)) {
                let resource = table.resource(id, refused);
                if self.snapshot.get(&resource.key).is_none_or(|old| old.version != resource.version) {
                    changes.push(Change { key: resource.key.clone(), resource: Some(Arc::new(resource)) });
                }
            }
        }
        for id in dirty {
            let Some(table) = self.tables.get(&id) else { continue };
            if table.published {
                let resource = table.resource(&id, refused);
                changes.push(Change { key: resource.key.clone(), resource: Some(Arc::new(resource)) });
                continue;
            }
            let key = portolan_translate::table_key(&id);
            if self.snapshot.get(&key).is_some() {
                changes.push(Change { key, resource: None });
            }
            if table.hosts.hosts.is_empty() {
                self.tables.remove(&id);
            }
        }
        let pending = std::mem::take(&mut self.pending).into_iter();
        changes.extend(
            pending
                .filter(|(key, new)| match (self.snapshot.get(key), new) {
                    (Some(old), Some(new)) => {
                        old.version != new.version || old.is_held() != new.is_held() || old.origins != new.origins
                    }
                    (old, new) => old.is_some() != new.is_some(),
                })
                .map(|(key, resource)| Change { key, resource }),
        );
        changes.sort_unstable_by(|one, other| one.key.cmp(&other.key));
        self.snapshot.apply(changes.iter().cloned());
        changes
    }
}

impl Table {
    fn new(id: &TableId) -> Self {
        let head = portolan_translate::table_head(id);
        let version = portolan_translate::table_head_version(id);
        Self { hosts: HostTable::new(head), version, published: false }
    }

    fn resource(&self, id: &TableId, refused: &dyn Fn(Version) -> bool) -> Resource {
        let (hosts, version) = self.in_force(id, &mut |version| refused(version));
        portolan_translate::table(id, hosts, version)
    }

    /// The table or, where Envoy refused it, one whose hosts answer 500, or an empty one. A table that is empty already is all there is.
    fn in_force(&self, id: &TableId, refused: &mut dyn FnMut(Version) -> bool) -> (HostTable, Version) {
        if !refused(self.version) {
            return (self.hosts.clone(), self.version);
        }
        let mut substitute = Self::new(id);
        let empty = (substitute.hosts.clone(), substitute.version);
        for (host, body) in &self.hosts.hosts {
            let body = portolan_translate::refused_host(body, &id.gateway);
            substitute.version = substitute.version.plus(body.version);
            substitute.hosts.set(host, Some(Arc::new(body)));
        }
        if refused(substitute.version) { empty } else { (substitute.hosts, substitute.version) }
    }
}
