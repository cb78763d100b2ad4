//! What Portolan itself makes for fleets and follows: Services (for the addresses that they have got) and workloads (for the revision that
//! runs). Every replica does: addresses are an input of the engine on all of them alike.

use std::collections::{BTreeMap, BTreeSet};

use portolan_fleet::resource_name;
use portolan_kubernetes::watch::{Found, Made, Place};
use portolan_model::NamespacedName;
use serde_json::Value;

/// The kinds.
pub const KINDS: [Made; 3] = [
    Made { kind: "Service", root: "/api/v1", plural: "services" },
    Made { kind: "Deployment", root: "/apis/apps/v1", plural: "deployments" },
    Made { kind: "DaemonSet", root: "/apis/apps/v1", plural: "daemonsets" },
];

/// By these they are found.
pub const LABELS: &str = "app.kubernetes.io/name=portolan-proxy,app.kubernetes.io/managed-by=portolan";

/// What there is of it.
pub struct Objects {
    /// What is known, by kind too
    by_name: BTreeMap<(&'static str, NamespacedName), Value>,
    /// Kinds and places of which not all is known yet
    unlisted: BTreeSet<(&'static str, Place)>,
    /// Gateways by the name of what is made for them
    gateways: BTreeMap<NamespacedName, NamespacedName>,
}

impl Objects {
    pub const fn new(unlisted: BTreeSet<(&'static str, Place)>) -> Self {
        Self { by_name: BTreeMap::new(), unlisted, gateways: BTreeMap::new() }
    }

    /// Whether a Gateway has a fleet.
    pub fn belongs(&mut self, gateway: &NamespacedName, has_fleet: bool) {
        let name = NamespacedName::new(gateway.namespace.clone(), resource_name(gateway));
        if has_fleet {
            self.gateways.insert(name, gateway.clone());
        } else {
            self.gateways.remove(&name);
        }
    }

    /// Those that have a fleet.
    pub fn gateways(&self) -> impl Iterator<Item = &NamespacedName> {
        self.gateways.values()
    }

    pub fn get(&self, kind: &'static str, gateway: &NamespacedName) -> Option<&Value> {
        self.by_name.get(&(kind, NamespacedName::new(gateway.namespace.clone(), resource_name(gateway))))
    }

    pub fn is_listed(&self, kind: &str) -> bool {
        !self.unlisted.iter().any(|(unlisted, _)| *unlisted == kind)
    }

    /// Whether all kinds are listed everywhere.
    pub fn is_whole(&self) -> bool {
        self.unlisted.is_empty()
    }

    /// Takes note, and returns the Gateways that it is about.
    pub fn take(&mut self, found: Found) -> Vec<NamespacedName> {
        let Found { kind, objects, whole } = found;
        let mut names: BTreeSet<NamespacedName> = objects.keys().cloned().collect();
        if let Some(place) = whole {
            let is_here = |name: &NamespacedName| place.as_ref().is_none_or(|namespace| name.namespace == *namespace);
            // Also those of which there is nothing: now that is known.
            names.extend(self.gateways.keys().filter(|name| is_here(name)).cloned());
            self.by_name.retain(|(other, name), _| *other != kind || !is_here(name));
            self.unlisted.remove(&(kind, place));
        }
        for (name, object) in objects {
            match object {
                Some(object) => _ = self.by_name.insert((kind, name), object),
                None => _ = self.by_name.remove(&(kind, name)),
            }
        }
        names.iter().filter_map(|name| self.gateways.get(name).cloned()).collect()
    }
}
