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
    applied: Applied,
    generation: i64,
    status: Option<Value>,
}

impl Ledger {
    /// Takes note of an object that is new, different or gone.
    pub fn record(&mut self, key: &ObjectKey, applied: Option<&Applied>) {
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
                entry.applied = applied.clone();
            }
            None => {
                let entry = Entry { applied: applied.clone(), generation: written.unwrap_or(1), status: None };
                self.entries.insert(key.clone(), Arc::new(entry));
            }
        }
    }

    /// Puts a status in force; `now` in seconds since the epoch. lastTransitionTime moves only where a condition's status does.
    pub fn set_status(&mut self, key: &ObjectKey, status: Option<&Status>, now: i64) {
        if let Some(entry) = self.entries.get_mut(key).map(Arc::make_mut) {
            let before = entry.status.take();
            entry.status = status
                .map(|status| Stamp { generation: entry.generation, now, before: before.as_ref() }.status(status));
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
        object.insert("apiVersion".into(), json!(self.applied.api_version));
        object.insert("kind".into(), json!(key.kind.as_str()));
        object.insert("metadata".into(), Value::Object(metadata));
        if let Some(status) = &self.status {
            object.insert("status".into(), status.clone());
        }
        Value::Object(object)
    }
}

/// What a status is written with.
struct Stamp<'a> {
    generation: i64,
    now: i64,
    /// The status that stood before, for its times
    before: Option<&'a Value>,
}

impl Stamp<'_> {
    fn status(&self, status: &Status) -> Value {
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
                    let reference = parent_ref(&parent.parent);
                    let conditions = self.conditions_of("parents", "parentRef", &reference, &parent.conditions);
                    json!({"parentRef": reference, "controllerName": CONTROLLER_NAME, "conditions": conditions})
                });
                json!({"parents": parents.collect::<Vec<_>>()})
            }
            Status::Policy { ancestors } => {
                let ancestors = ancestors.iter().map(|(gateway, conditions)| {
                    let reference = gateway_ref(gateway);
                    let conditions = self.conditions_of("ancestors", "ancestorRef", &reference, conditions);
                    json!({"ancestorRef": reference, "controllerName": CONTROLLER_NAME, "conditions": conditions})
                });
                json!({"ancestors": ancestors.collect::<Vec<_>>()})
            }
        }
    }

    fn listeners(&self, listeners: &[portolan_model::ir::ListenerStatus]) -> Vec<Value> {
        let listener = |listener: &portolan_model::ir::ListenerStatus| {
            let name = json!(*listener.name);
            json!({
                "name": name,
                "attachedRoutes": listener.attached_routes,
                "supportedKinds": listener.supported_kinds.iter()
                    .map(|kind| json!({"group": *kind.group, "kind": *kind.kind})).collect::<Vec<_>>(),
                "conditions": self.conditions_of("listeners", "name", &name, &listener.conditions),
            })
        };
        listeners.iter().map(listener).collect()
    }

    /// Conditions in the element of `list` whose `field` is `value`.
    fn conditions_of(&self, list: &str, field: &str, value: &Value, conditions: &[Condition]) -> Vec<Value> {
        let elements = self.before.and_then(|before| before.get(list)).and_then(Value::as_array);
        let element = elements.and_then(|elements| elements.iter().find(|element| element.get(field) == Some(value)));
        self.stamp(conditions, element.and_then(|element| element.get("conditions")))
    }

    fn conditions(&self, conditions: &[Condition]) -> Vec<Value> {
        self.stamp(conditions, self.before.and_then(|before| before.get("conditions")))
    }

    fn stamp(&self, conditions: &[Condition], before: Option<&Value>) -> Vec<Value> {
        let before = before.and_then(Value::as_array);
        let stamped = |condition: &Condition| {
            let status = if condition.status { "True" } else { "False" };
            let same = before.and_then(|before| {
                before.iter().find(|old| {
                    old.get("type") == Some(&json!(condition.kind.as_str()))
                        && old.get("status") == Some(&json!(status))
                })
            });
            let since = same.and_then(|old| old.get("lastTransitionTime")).cloned();
            json!({
                "type": condition.kind.as_str(),
                "status": status,
                "reason": condition.reason.as_str(),
                "message": *condition.message,
                "observedGeneration": self.generation,
                "lastTransitionTime": since.unwrap_or_else(|| json!(timestamp(self.now))),
            })
        };
        conditions.iter().map(stamped).collect()
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
