//! The middle of every command: objects and the proxies' words in; changes of Snapshots, statuses and bindings out. Pure: the time and
//! what the machine says about addresses come in as arguments.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use portolan_engine::{Engine, Event, Options};
use portolan_fleet::Heard;
use portolan_model::ir::Binding;
use portolan_model::{NamespacedName, ObjectKey};
use portolan_proto::Change;
use portolan_resolve::{FleetState, World};
use portolan_xds::Transition;

use crate::binding::{BindingOptions, Bindings, Usable, Wanted};
use crate::bookkeeping::Ledger;
use crate::directory::Applied;

/// The engine with what a single machine adds to it.
pub struct ControlPlane {
    engine: Engine,
    ledger: Ledger,
    bindings: Bindings,
    heard: Heard,
}

/// Something that happened.
#[derive(Debug)]
pub enum Happening {
    /// Objects are new, different or gone
    Objects(BTreeMap<ObjectKey, Option<Arc<Applied>>>),
    /// A proxy said something
    Transition(Transition),
}

/// What follows from it.
#[derive(Debug, Default)]
pub struct Effects {
    /// Changes of each fleet's Snapshot, in the order in which they are to be published
    pub changes: BTreeMap<NamespacedName, Vec<Change>>,
    /// Gateways that are gone
    pub removed: BTreeSet<NamespacedName>,
    /// Objects whose status differs
    pub statuses: BTreeSet<ObjectKey>,
    /// Gateways whose ports or addresses differ
    pub rebound: BTreeSet<NamespacedName>,
}

impl ControlPlane {
    /// `assigned`: addresses that Gateways already listen on (empty: all), from an earlier process.
    #[must_use]
    pub fn new(options: BindingOptions, assigned: &BTreeMap<NamespacedName, Vec<std::net::IpAddr>>) -> Self {
        Self {
            engine: Engine::new(Options::default()),
            ledger: Ledger::default(),
            bindings: Bindings::new(options, assigned),
            heard: Heard::default(),
        }
    }

    /// `now` in seconds since the epoch; with nothing that happened, it is the time alone that went on.
    pub fn apply(&mut self, happenings: impl IntoIterator<Item = Happening>, now: i64, usable: Usable<'_>) -> Effects {
        let mut effects = Effects::default();
        let mut events = vec![Event::Time(now)];
        for happening in happenings {
            self.note(happening, &mut events);
        }
        let written = |event: &Event| match event {
            Event::Object { key, .. } => Some(key.clone()),
            _ => None,
        };
        let written: BTreeSet<ObjectKey> = events.iter().filter_map(written).collect();
        // A binding is an answer to what Gateways ask for, and does not change what they ask for: the second round gives no third.
        loop {
            let output = self.engine.apply(std::mem::take(&mut events));
            for (gateway, changes) in output.fleets {
                effects.changes.entry(gateway).or_default().extend(changes);
            }
            for gateway in output.removed_fleets {
                events.extend(self.heard.removed(&gateway));
                effects.removed.insert(gateway);
            }
            for (key, status) in output.statuses {
                self.ledger.set_status(&key, status.as_ref(), now);
                effects.statuses.insert(key);
            }
            if !output.intents.is_empty() {
                effects.rebound.extend(output.intents.into_keys());
                for (gateway, binding) in self.bindings.update(&self.wanted(), usable) {
                    effects.rebound.insert(gateway.clone());
                    events.push(Event::Binding { gateway, binding });
                }
            }
            if events.is_empty() {
                break;
            }
        }
        // A status that stays the same is of the new generation all the same.
        for key in written {
            if let (false, Some(status)) = (effects.statuses.contains(&key), self.engine.status(&key)) {
                self.ledger.set_status(&key, Some(status), now);
                effects.statuses.insert(key);
            }
        }
        for gateway in &effects.removed {
            effects.changes.remove(gateway);
        }
        effects
    }

    fn note(&mut self, happening: Happening, events: &mut Vec<Event>) {
        match happening {
            Happening::Objects(objects) => {
                for (key, applied) in objects {
                    self.ledger.record(&key, applied.as_ref());
                    events.push(Event::Object { key, object: applied.map(|applied| applied.object.clone()) });
                }
            }
            Happening::Transition(transition) => events.extend(self.heard.hear(&transition)),
        }
    }

    /// By the listeners that are accepted, since those that are served follow from the bindings.
    fn wanted(&self) -> BTreeMap<NamespacedName, Wanted> {
        let world = self.engine.world();
        let wanted = |gateway: &NamespacedName| {
            let view = world.gateway_view(gateway).filter(|view| !view.refused || self.bindings.knows(gateway))?;
            let ports =
                view.listeners.iter().filter(|listener| listener.accepted).map(|listener| listener.port).collect();
            Some((gateway.clone(), Wanted { ports, addresses: view.requested_addresses.clone() }))
        };
        self.engine.fleets().filter_map(wanted).collect()
    }

    #[must_use]
    pub const fn engine(&self) -> &Engine {
        &self.engine
    }

    #[must_use]
    pub const fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// Where each Gateway listens.
    #[must_use]
    pub const fn bindings(&self) -> &BTreeMap<NamespacedName, Binding> {
        self.bindings.in_force()
    }

    /// The changes of a fleet's Snapshot are published, up to this position of its log.
    pub fn published(&mut self, gateway: &NamespacedName, changes: &[Change], position: u64) {
        self.heard.published(gateway, changes, position);
    }

    /// What the proxies of a Gateway have said so far.
    #[must_use]
    pub fn state(&self, gateway: &NamespacedName) -> FleetState {
        self.heard.state(gateway)
    }

    /// The ports that a Gateway's proxies listen on, the offset added, and whether with TLS.
    #[must_use]
    pub fn ports(&self, gateway: &NamespacedName) -> BTreeMap<u16, bool> {
        let binding = self.bindings().get(gateway);
        let ports = self.engine.intent(gateway).into_iter().flat_map(|intent| &intent.ports);
        let listened_on = |port: u16| binding.map_or(Some(port), |binding| binding.port(port));
        ports.filter_map(|(port, tls)| Some((listened_on(*port)?, *tls))).collect()
    }
}

#[cfg(test)]
mod tests {
    use portolan_model::Kind;
    use portolan_model::ir::Status;
    use portolan_model::{ConditionType, read};

    use super::*;

    const MANIFESTS: &str = "
apiVersion: gateway.networking.k8s.io/v1
kind: GatewayClass
metadata: {name: portolan}
spec: {controllerName: portolan.dev/gateway-controller}
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: web}
spec: {gatewayClassName: portolan, listeners: [{name: http, port: 80, protocol: HTTP}]}
";

    fn objects() -> BTreeMap<ObjectKey, Option<Arc<Applied>>> {
        objects_of(MANIFESTS)
    }

    fn objects_of(manifests: &str) -> BTreeMap<ObjectKey, Option<Arc<Applied>>> {
        let manifests = read::manifests(&"a.yaml".into(), manifests.as_bytes()).unwrap();
        let applied = |manifest: read::Manifest| {
            let applied = Applied {
                object: manifest.object.unwrap(),
                api_version: manifest.api_version.into(),
                location: manifest.location,
                bookkeeping: manifest.bookkeeping,
            };
            (manifest.key.unwrap(), Some(Arc::new(applied)))
        };
        manifests.into_iter().map(applied).collect()
    }

    #[test]
    fn a_gateway_whose_parameters_go_stays_and_a_new_one_waits_for_them() {
        let mut plane = ControlPlane::new(BindingOptions::default(), &BTreeMap::new());
        let web = NamespacedName::new("default", "web");
        let class = ObjectKey::new(Kind::GatewayClass, NamespacedName::new("", "portolan"));
        let with = |parameters: &str| {
            let named = MANIFESTS.replace("gateway-controller}", &format!("gateway-controller{parameters}}}"));
            objects_of(&named).remove(&class).unwrap()
        };
        let lost = with(", parametersRef: {group: portolan.dev, kind: EnvoyProxy, name: lost, namespace: default}");
        let apply = |plane: &mut ControlPlane, objects| plane.apply([Happening::Objects(objects)], 0, &|_| Ok(()));
        let mut refused = objects();
        refused.insert(class.clone(), lost.clone());
        apply(&mut plane, refused);
        assert_eq!(plane.ports(&web), BTreeMap::new(), "a new one");
        apply(&mut plane, BTreeMap::from([(class.clone(), with(""))]));
        let served = BTreeMap::from([(80, false)]);
        assert_eq!(plane.ports(&web), served);
        apply(&mut plane, BTreeMap::from([(class.clone(), lost.clone())]));
        assert_eq!(plane.ports(&web), served, "one that runs");
        // The next process knows from its predecessor where it listens.
        let mut next = ControlPlane::new(BindingOptions::default(), &BTreeMap::from([(web.clone(), Vec::new())]));
        let mut refused = objects();
        refused.insert(class, lost);
        apply(&mut next, refused);
        assert_eq!(next.ports(&web), served, "one that runs since the last process");
    }

    #[test]
    fn a_gateway_that_is_made_again_is_not_programmed_yet() {
        let mut plane = ControlPlane::new(BindingOptions::default(), &BTreeMap::new());
        let key = ObjectKey::new(Kind::Gateway, NamespacedName::new("default", "web"));
        let programmed = |plane: &ControlPlane| match plane.engine().status(&key) {
            Some(Status::Gateway { conditions, .. }) => {
                conditions.iter().find(|condition| condition.kind == ConditionType::Programmed).unwrap().status
            }
            other => panic!("{other:?}"),
        };
        let apply = |plane: &mut ControlPlane, happening| plane.apply([happening], 0, &|_| Ok(()));
        // As the program publishes: to a server that tells how far its log is.
        let (server, _transitions) = portolan_xds::Server::new(
            portolan_xds::Options::default(),
            &mut prometheus_client::registry::Registry::default(),
        );
        let fleet = portolan_fleet::Fleet::of(key.name.clone()).server_name();
        let publish = |plane: &mut ControlPlane, effects: Effects| {
            let [(gateway, changes)] = effects.changes.into_iter().collect::<Vec<_>>().try_into().unwrap();
            let position = server.publish(&fleet, changes.clone());
            plane.published(&gateway, &changes, position);
            position
        };
        let acked = |position| Happening::Transition(Transition::Acked { fleet: fleet.clone(), position, first: true });
        let effects = apply(&mut plane, Happening::Objects(objects()));
        let position = publish(&mut plane, effects);
        assert!(!programmed(&plane));
        apply(&mut plane, acked(position));
        assert!(programmed(&plane));
        let effects = apply(&mut plane, Happening::Objects(BTreeMap::from([(key.clone(), None)])));
        assert!(effects.removed.contains(&key.name) && effects.changes.is_empty());
        server.remove_fleet(&fleet);
        let effects = apply(&mut plane, Happening::Objects(objects()));
        let again = publish(&mut plane, effects);
        assert!(!programmed(&plane), "no proxy of the new fleet has said anything");
        apply(&mut plane, acked(position));
        assert!(!programmed(&plane), "this came late from one of the old fleet");
        apply(&mut plane, acked(again));
        assert!(programmed(&plane));
    }
}
