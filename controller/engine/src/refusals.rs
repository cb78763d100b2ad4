//! Which parts of which routes answer 500 because Envoy refused them, and under which hosts.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use portolan_model::ObjectKey;
use portolan_resolve::Refusal;

use crate::engine::HostKey;

/// Refusals in force, by route and by the host where they were found.
#[derive(Default)]
pub struct Refusals {
    by_route: HashMap<ObjectKey, BTreeMap<HostKey, BTreeSet<Refusal>>>,
    by_host: HashMap<HostKey, BTreeSet<ObjectKey>>,
}

impl Refusals {
    pub fn of(&self, route: &ObjectKey) -> Arc<[Refusal]> {
        let all: BTreeSet<&Refusal> =
            self.by_route.get(route).into_iter().flat_map(BTreeMap::values).flatten().collect();
        all.into_iter().cloned().collect()
    }

    /// Replaces what was found under one host. Returns the routes concerned.
    pub fn set(&mut self, host: &HostKey, found: Vec<(ObjectKey, Refusal)>) -> BTreeSet<ObjectKey> {
        let old = self.by_host.remove(host).unwrap_or_default();
        if found.is_empty() && old.is_empty() {
            return old;
        }
        let mut concerned = old;
        for route in &concerned {
            if let Some(hosts) = self.by_route.get_mut(route) {
                hosts.remove(host);
                if hosts.is_empty() {
                    self.by_route.remove(route);
                }
            }
        }
        let mut now = BTreeSet::new();
        for (route, refusal) in found {
            now.insert(route.clone());
            self.by_route.entry(route).or_default().entry(host.clone()).or_default().insert(refusal);
        }
        concerned.extend(now.iter().cloned());
        if !now.is_empty() {
            self.by_host.insert(host.clone(), now);
        }
        concerned
    }
}
