//! A status as Kubernetes writes it: JSON, with the generation it is about and the times that whoever writes it keeps.

use serde_json::{Map, Value, json};

use super::{ListenerStatus, Status};
use crate::objects::ParentRef;
use crate::{CONTROLLER_NAME, Condition, GATEWAY_GROUP, Name, NamespacedName};

/// What the conditions of a status are about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Element<'a> {
    Object,
    Listener(&'a Name),
    Parent(&'a ParentRef),
    Ancestor(&'a NamespacedName),
}

impl Status {
    /// The conditions, by what they are about.
    #[must_use]
    pub fn elements(&self) -> Vec<(Element<'_>, &[Condition])> {
        match self {
            Self::GatewayClass { conditions, .. } => vec![(Element::Object, conditions)],
            Self::Gateway { conditions, listeners, .. } | Self::ListenerSet { conditions, listeners } => {
                let listeners = listeners
                    .iter()
                    .map(|listener| (Element::Listener(&listener.name), listener.conditions.as_slice()));
                std::iter::once((Element::Object, conditions.as_slice())).chain(listeners).collect()
            }
            Self::Route { parents } => {
                parents.iter().map(|parent| (Element::Parent(&parent.parent), parent.conditions.as_slice())).collect()
            }
            Self::Policy { ancestors } => ancestors
                .iter()
                .map(|(gateway, conditions)| (Element::Ancestor(gateway), conditions.as_slice()))
                .collect(),
        }
    }

    /// Each condition, with what it is about.
    pub fn conditions(&self) -> impl Iterator<Item = (Element<'_>, &Condition)> {
        self.elements()
            .into_iter()
            .flat_map(|(element, conditions)| conditions.iter().map(move |condition| (element, condition)))
    }

    /// As JSON. `since` gives each condition's `lastTransitionTime`; it is asked once for each, in the order of [`Self::conditions`].
    pub fn render(&self, generation: i64, since: &mut dyn FnMut(Element<'_>, &Condition) -> String) -> Value {
        Renderer { generation, since }.status(self)
    }
}

struct Renderer<'a> {
    generation: i64,
    since: &'a mut dyn FnMut(Element<'_>, &Condition) -> String,
}

impl Renderer<'_> {
    fn status(&mut self, status: &Status) -> Value {
        match status {
            Status::GatewayClass { conditions, supported_features } => json!({
                "conditions": self.conditions(Element::Object, conditions),
                "supportedFeatures": supported_features.iter().map(|name| json!({"name": **name})).collect::<Vec<_>>(),
            }),
            Status::Gateway { conditions, listeners, addresses, attached_listener_sets } => json!({
                "addresses": addresses.iter().map(|(kind, value)| json!({"type": **kind, "value": **value})).collect::<Vec<_>>(),
                "conditions": self.conditions(Element::Object, conditions),
                "listeners": self.listeners(listeners),
                "attachedListenerSets": attached_listener_sets,
            }),
            Status::ListenerSet { conditions, listeners } => json!({
                "conditions": self.conditions(Element::Object, conditions),
                "listeners": self.listeners(listeners),
            }),
            Status::Route { parents } => {
                let parents = parents.iter().map(|parent| {
                    let conditions = self.conditions(Element::Parent(&parent.parent), &parent.conditions);
                    json!({"parentRef": parent_ref(&parent.parent), "controllerName": CONTROLLER_NAME, "conditions": conditions})
                });
                json!({"parents": parents.collect::<Vec<_>>()})
            }
            Status::Policy { ancestors } => {
                let ancestors = ancestors.iter().map(|(gateway, conditions)| {
                    let conditions = self.conditions(Element::Ancestor(gateway), conditions);
                    json!({"ancestorRef": ancestor_ref(gateway), "controllerName": CONTROLLER_NAME, "conditions": conditions})
                });
                json!({"ancestors": ancestors.collect::<Vec<_>>()})
            }
        }
    }

    fn listeners(&mut self, listeners: &[ListenerStatus]) -> Vec<Value> {
        let listener = |listener: &ListenerStatus| {
            json!({
                "name": *listener.name,
                "attachedRoutes": listener.attached_routes,
                "supportedKinds": listener.supported_kinds.iter()
                    .map(|kind| json!({"group": *kind.group, "kind": *kind.kind})).collect::<Vec<_>>(),
                "conditions": self.conditions(Element::Listener(&listener.name), &listener.conditions),
            })
        };
        listeners.iter().map(listener).collect()
    }

    fn conditions(&mut self, element: Element<'_>, conditions: &[Condition]) -> Vec<Value> {
        let rendered = conditions.iter().map(|condition| {
            json!({
                "type": condition.kind.as_str(),
                "status": if condition.status { "True" } else { "False" },
                "reason": condition.reason.as_str(),
                "message": *condition.message,
                "observedGeneration": self.generation,
                "lastTransitionTime": (self.since)(element, condition),
            })
        });
        rendered.collect()
    }
}

/// As the route wrote it, with the defaults that an API server fills in.
#[must_use]
pub fn parent_ref(parent: &ParentRef) -> Value {
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

/// A policy's ancestor.
#[must_use]
pub fn ancestor_ref(gateway: &NamespacedName) -> Value {
    json!({"group": GATEWAY_GROUP, "kind": "Gateway", "namespace": *gateway.namespace, "name": *gateway.name})
}
