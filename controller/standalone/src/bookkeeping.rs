//! What an API server keeps about objects: generations, and statuses with times. Pure: the time comes in as an argument.

use std::collections::BTreeMap;
use std::sync::Arc;

use portolan_model::ir::Status;
use portolan_model::objects::{Object, ParentRef};
use portolan_model::read::Location;
use portolan_model::{CONTROLLER_NAME, Condition, GATEWAY_GROUP, NamespacedName, ObjectKey};
use serde_json::{Map, Value, json};

use crate::directory::Applied;

/// Generations and statuses of all objects in force. A copy shares them with the original.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    entries: BTreeMap<ObjectKey, Arc<Entry>>,
}

#[derive(Clone, Debug)]
struct Entry {
    applied: Arc<Applied>,
    generation: i64,
    status: Option<Stood>,
}

impl Ledger {
    /// Takes note of an object that is new, different or gone.
    pub fn record(&mut self, key: &ObjectKey, applied: Option<&Arc<Applied>>) {
        let Some(applied) = applied else {
            self.entries.remove(key);
            return;
        };
        let written = Some(applied.bookkeeping.generation).filter(|generation| *generation > 0);
        match self.entries.get_mut(key) {
            Some(entry) => {
                let entry = Arc::make_mut(entry);
                let counted = entry.generation + i64::from(entry.applied.object != applied.object);
                entry.generation = written.unwrap_or(counted);
                entry.applied = Arc::clone(applied);
            }
            None => {
                let entry = Entry { applied: Arc::clone(applied), generation: written.unwrap_or(1), status: None };
                self.entries.insert(key.clone(), Arc::new(entry));
            }
        }
    }

    /// Puts a status in force; `now` in seconds since the epoch. lastTransitionTime moves only where a condition's status does.
    pub fn set_status(&mut self, key: &ObjectKey, status: Option<&Status>, now: i64) {
        if let Some(entry) = self.entries.get_mut(key).map(Arc::make_mut) {
            entry.status = status.map(|status| Stood::new(status, entry.status.as_ref(), now));
        }
    }

    /// Where the object is written.
    #[must_use]
    pub fn location(&self, key: &ObjectKey) -> Option<&Location> {
        self.entries.get(key).map(|entry| &entry.applied.location)
    }

    /// The object as Kubernetes would show it, without its spec.
    #[must_use]
    pub fn show(&self, key: &ObjectKey) -> Option<Value> {
        self.entries.get(key).map(|entry| entry.show(key))
    }

    /// All objects as Kubernetes would show them, by kind and name.
    pub fn show_all(&self) -> impl Iterator<Item = (&ObjectKey, Value)> {
        self.entries.iter().map(|(key, entry)| (key, entry.show(key)))
    }

    /// The objects in force.
    pub fn objects(&self) -> impl Iterator<Item = (&ObjectKey, &Object)> {
        self.entries.iter().map(|(key, entry)| (key, &entry.applied.object))
    }
}

impl Entry {
    fn show(&self, key: &ObjectKey) -> Value {
        let mut metadata = Map::new();
        if !key.name.namespace.is_empty() {
            metadata.insert("namespace".into(), json!(*key.name.namespace));
        }
        metadata.insert("name".into(), json!(*key.name.name));
        metadata.insert("generation".into(), json!(self.generation));
        let mut object = Map::new();
        object.insert("apiVersion".into(), json!(*self.applied.api_version));
        object.insert("kind".into(), json!(key.kind.as_str()));
        object.insert("metadata".into(), Value::Object(metadata));
        if let Some(status) = &self.status {
            object.insert("status".into(), status.show(self.generation));
        }
        Value::Object(object)
    }
}

/// A status that is in force. As JSON it would be many times larger, and few are ever asked for.
#[derive(Clone, Debug)]
struct Stood {
    status: Status,
    /// `lastTransitionTime` of each condition, in the order of [`each`]
    since: Box<[i64]>,
}

/// Whose conditions they are.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Element<'a> {
    Object,
    Listener(&'a str),
    Parent(&'a ParentRef),
    Ancestor(&'a NamespacedName),
}

/// The conditions of a status, by what they are about.
fn groups(status: &Status) -> Vec<(Element<'_>, &[Condition])> {
    match status {
        Status::GatewayClass { conditions, .. } => vec![(Element::Object, conditions)],
        Status::Gateway { conditions, listeners, .. } | Status::ListenerSet { conditions, listeners } => {
            let listeners =
                listeners.iter().map(|listener| (Element::Listener(&listener.name), listener.conditions.as_slice()));
            std::iter::once((Element::Object, conditions.as_slice())).chain(listeners).collect()
        }
        Status::Route { parents } => {
            parents.iter().map(|parent| (Element::Parent(&parent.parent), parent.conditions.as_slice())).collect()
        }
        Status::Policy { ancestors } => {
            ancestors.iter().map(|(gateway, conditions)| (Element::Ancestor(gateway), conditions.as_slice())).collect()
        }
    }
}

/// Each condition of a status.
fn each(status: &Status) -> impl Iterator<Item = (Element<'_>, &Condition)> {
    groups(status).into_iter().flat_map(|(element, conditions)| conditions.iter().map(move |one| (element, one)))
}

impl Stood {
    fn new(status: &Status, before: Option<&Self>, now: i64) -> Self {
        let before = before.map(Self::times).unwrap_or_default();
        let since_of = |element: Element<'_>, condition: &Condition| {
            let same = before
                .iter()
                .find(|(of, old, _)| *of == element && (old.kind, old.status) == (condition.kind, condition.status));
            same.map_or(now, |(_, _, since)| *since)
        };
        let since = each(status).map(|(element, condition)| since_of(element, condition)).collect();
        Self { status: status.clone(), since }
    }

    /// Each condition with its time.
    fn times(&self) -> Vec<(Element<'_>, &Condition, i64)> {
        each(&self.status).zip(&self.since).map(|((element, condition), since)| (element, condition, *since)).collect()
    }

    /// As Kubernetes would show it.
    fn show(&self, generation: i64) -> Value {
        Stamp { generation, since: self.since.iter() }.status(&self.status)
    }
}

/// What conditions are written with, taken one by one: they are written in the order of [`each`].
struct Stamp<'a> {
    generation: i64,
    since: std::slice::Iter<'a, i64>,
}

impl Stamp<'_> {
    fn status(&mut self, status: &Status) -> Value {
        match status {
            Status::GatewayClass { conditions, supported_features } => json!({
                "conditions": self.conditions(conditions),
                "supportedFeatures": supported_features.iter().map(|name| json!({"name": **name})).collect::<Vec<_>>(),
            }),
            Status::Gateway { conditions, listeners, addresses, attached_listener_sets } => json!({
                "addresses": addresses.iter().map(|(kind, value)| json!({"type": **kind, "value": **value})).collect::<Vec<_>>(),
                "conditions": self.conditions(conditions),
                "listeners": self.listeners(listeners),
                "attachedListenerSets": attached_listener_sets,
            }),
            Status::ListenerSet { conditions, listeners } => json!({
                "conditions": self.conditions(conditions),
                "listeners": self.listeners(listeners),
            }),
            Status::Route { parents } => {
                let parents = parents.iter().map(|parent| {
                    let conditions = self.conditions(&parent.conditions);
                    json!({"parentRef": parent_ref(&parent.parent), "controllerName": CONTROLLER_NAME, "conditions": conditions})
                });
                json!({"parents": parents.collect::<Vec<_>>()})
            }
            Status::Policy { ancestors } => {
                let ancestors = ancestors.iter().map(|(gateway, conditions)| {
                    let conditions = self.conditions(conditions);
                    json!({"ancestorRef": gateway_ref(gateway), "controllerName": CONTROLLER_NAME, "conditions": conditions})
                });
                json!({"ancestors": ancestors.collect::<Vec<_>>()})
            }
        }
    }

    fn listeners(&mut self, listeners: &[portolan_model::ir::ListenerStatus]) -> Vec<Value> {
        let listener = |listener: &portolan_model::ir::ListenerStatus| {
            json!({
                "name": *listener.name,
                "attachedRoutes": listener.attached_routes,
                "supportedKinds": listener.supported_kinds.iter()
                    .map(|kind| json!({"group": *kind.group, "kind": *kind.kind})).collect::<Vec<_>>(),
                "conditions": self.conditions(&listener.conditions),
            })
        };
        listeners.iter().map(listener).collect()
    }

    fn conditions(&mut self, conditions: &[Condition]) -> Vec<Value> {
        let stamped = conditions.iter().zip(&mut self.since).map(|(condition, since)| {
            json!({
                "type": condition.kind.as_str(),
                "status": if condition.status { "True" } else { "False" },
                "reason": condition.reason.as_str(),
                "message": *condition.message,
                "observedGeneration": self.generation,
                "lastTransitionTime": timestamp(*since),
            })
        });
        stamped.collect()
    }
}

/// Kubernetes' form of a time: RFC 3339 in UTC, whole seconds.
fn timestamp(seconds: i64) -> String {
    jiff::Timestamp::from_second(seconds).unwrap_or(jiff::Timestamp::UNIX_EPOCH).to_string()
}

/// As the route wrote it, with the defaults that an API server fills in.
fn parent_ref(parent: &ParentRef) -> Value {
    let mut value = Map::new();
    value.insert("group".into(), json!(parent.group.as_deref().unwrap_or(GATEWAY_GROUP)));
    value.insert("kind".into(), json!(parent.kind.as_deref().unwrap_or("Gateway")));
    if let Some(namespace) = &parent.namespace {
        value.insert("namespace".into(), json!(**namespace));
    }
    value.insert("name".into(), json!(*parent.name));
    if let Some(section) = &parent.section_name {
        value.insert("sectionName".into(), json!(**section));
    }
    if let Some(port) = parent.port {
        value.insert("port".into(), json!(port));
    }
    Value::Object(value)
}

fn gateway_ref(gateway: &NamespacedName) -> Value {
    json!({"group": GATEWAY_GROUP, "kind": "Gateway", "namespace": *gateway.namespace, "name": *gateway.name})
}
