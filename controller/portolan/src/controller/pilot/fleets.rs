//! What Gateways' fleets need, and what has been made of it.

use std::collections::BTreeMap;
use std::sync::Arc;

use portolan_engine::Event;
use portolan_fleet::{Fleet, ManagedFleet, binding, troubles};
use portolan_kubernetes::watch::Found;
use portolan_model::{Name, NamespacedName};
use portolan_xds::FleetName;

use super::Pilot;

impl Pilot {
    /// What of a Gateway's fleet could not be made as it should be, to the knowledge of this replica.
    pub(super) fn problems(&self, gateway: &NamespacedName) -> Event {
        let told = self.uids.get(gateway).and_then(|uid| self.troubles.get(uid)).into_iter().flatten().cloned();
        let unmade = self.unmade.get(gateway).into_iter().flatten().cloned();
        let deployment = self.made.get("Deployment", gateway).map(|deployment| troubles(gateway, deployment));
        let others = unmade.chain(deployment.into_iter().flatten()).map(Name::from);
        Event::Problems { gateway: gateway.clone(), problems: told.chain(others).collect() }
    }

    /// The name under which the fleet of a Gateway is served.
    pub(super) fn server_name(&mut self, gateway: &NamespacedName) -> Option<FleetName> {
        let uid = self.uids.get(gateway)?;
        let name = self.served.entry(gateway.clone()).or_insert_with(|| Fleet::of(gateway.clone()).server_name_of(uid));
        Some(name.clone())
    }

    /// Hands over which fleets there are.
    pub(super) fn keep(&self) {
        let fleet = |gateway: &NamespacedName| {
            let kept = (Arc::clone(self.uids.get(gateway)?), self.engine.intent(gateway)?.clone());
            Some((gateway.clone(), kept))
        };
        self.around.keeping.send_replace(Arc::new(self.engine.fleets().filter_map(fleet).collect()));
    }

    /// Something that Portolan has made has changed.
    pub(super) fn found(&mut self, found: Found) {
        let kind = found.kind;
        let gateways = self.made.take(found);
        let mut events = Vec::new();
        for gateway in gateways {
            if kind == "Service" {
                events.extend(self.bind(&gateway));
            }
            // Whoever changed or deleted it, it is to be as it was.
            self.order(&gateway);
            events.push(self.problems(&gateway));
        }
        if !events.is_empty() {
            self.advance(events, BTreeMap::new());
        }
        self.open();
    }

    /// Where the proxies of a Gateway listen.
    pub(super) fn bind(&self, gateway: &NamespacedName) -> Option<Event> {
        if !self.made.is_listed("Service") {
            // Nothing is known yet; `found` comes back to it.
            return None;
        }
        let binding = self
            .engine
            .intent(gateway)
            .map(|intent| binding(intent, self.made.get("Service", gateway), self.around.ipv6));
        Some(Event::Binding { gateway: gateway.clone(), binding })
    }

    /// Has the fleet of a Gateway made as it should be.
    pub(super) fn order(&mut self, gateway: &NamespacedName) {
        if !self.is_open {
            return;
        }
        let Some(uid) = self.uids.get(gateway) else { return };
        // What it should be is not known: it stays as it is.
        let intent = self.engine.intent(gateway);
        if intent.is_some_and(|intent| intent.refused) {
            return;
        }
        let made = intent.map(|intent| {
            let running = self.made.get("Deployment", gateway).or_else(|| self.made.get("DaemonSet", gateway));
            let fleet = ManagedFleet { gateway, uid, intent };
            portolan_fleet::manifests(fleet, &self.around.platform, running, false)
        });
        let (objects, problems) = made.map(|made| (made.objects, made.problems)).unzip();
        // Another controller's Gateway, now: nothing of it is ours any more.
        self.around.manifests.want(uid, objects.unwrap_or_default());
        match problems.filter(|problems: &Vec<String>| !problems.is_empty()) {
            Some(problems) => _ = self.unmade.insert(gateway.clone(), problems),
            None => _ = self.unmade.remove(gateway),
        }
    }
}
