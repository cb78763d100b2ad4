//! From the status that is there to the one that is wanted: one patch, or none. Pure.

use portolan_model::ir::{Element, Status, ancestor_ref, parent_ref};
use portolan_model::{CONTROLLER_NAME, Condition, ConditionType, GATEWAY_GROUP, ObjectKey};
use serde_json::{Map, Value, json};

use crate::Meta;

/// `maxItems` of `RouteStatus.parents`.
const MAX_PARENTS: usize = 32;
/// `maxItems` of `PolicyStatus.ancestors`.
const MAX_ANCESTORS: usize = 16;
/// `maxItems` of every list of conditions.
const MAX_CONDITIONS: usize = 8;
/// `maxLength` of `Condition.message`.
const MAX_MESSAGE: usize = 32_768;

/// One request for `/status`.
#[derive(Clone, Debug, PartialEq)]
pub enum Write {
    /// A merge patch that holds only for this state of this object: routes and policies, whose lists are atomic
    Merge(Value),
    /// Server-side apply: Gateway, GatewayClass and ListenerSet, whose lists merge by key
    Apply(Value),
}

/// Of what was said of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Digest(u128);

impl Digest {
    const NOTHING: Self = Self(0);

    fn of(status: Value) -> Self {
        Self(xxhash_rust::xxh3::xxh3_128(without_times(status).to_string().as_bytes()))
    }
}

/// A status as it should be.
#[derive(Clone, Debug, PartialEq)]
pub struct Desired {
    pub write: Write,
    /// Of what Portolan says, without times: equal to what was written last means that somebody else took it away
    pub said: Digest,
}

/// What to write so that an object's status says what is wanted; `None`: it does. `wanted` is `None` where the object is no concern of
/// Portolan's (any more); `said` is what was last written of this object; `now` is the time of conditions whose status moves.
#[must_use]
pub fn desired(
    key: &ObjectKey,
    meta: &Meta,
    wanted: Option<&Status>,
    said: Option<Digest>,
    now: &str,
) -> Option<Desired> {
    match (list_of(key), wanted) {
        (Some(list), wanted) => entries(list, meta, wanted, now),
        (None, Some(wanted)) => applied(key, meta, wanted, said, now),
        (None, None) => retracted(key, meta, said),
    }
}

/// An atomic list of entries, each of one controller.
#[derive(Clone, Copy)]
struct List {
    field: &'static str,
    reference: &'static str,
    limit: usize,
}

fn list_of(key: &ObjectKey) -> Option<List> {
    if key.kind.is_route() {
        return Some(List { field: "parents", reference: "parentRef", limit: MAX_PARENTS });
    }
    let is_applied = matches!(
        key.kind,
        portolan_model::Kind::Gateway | portolan_model::Kind::GatewayClass | portolan_model::Kind::ListenerSet
    );
    (!is_applied).then_some(List { field: "ancestors", reference: "ancestorRef", limit: MAX_ANCESTORS })
}

/// "Implementations of this API can only populate Route status for the Gateways/parents they are responsible for" (RouteStatus):
/// entries of others stay verbatim and in their places.
fn entries(list: List, meta: &Meta, wanted: Option<&Status>, now: &str) -> Option<Desired> {
    let there = meta.status.get(list.field).and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let (mut rendered, said) = match wanted {
        None => (Vec::new(), Digest::NOTHING),
        Some(wanted) => {
            let mut since = |element: Element<'_>, condition: &Condition| {
                transition_time(conditions_there(&meta.status, element), condition, now)
            };
            let status = bounded(wanted.render(meta.generation, &mut since), &Value::Null);
            let rendered = status.get(list.field).and_then(Value::as_array).cloned().unwrap_or_default();
            (rendered, Digest::of(status))
        }
    };
    let mut all = Vec::with_capacity(there.len() + rendered.len());
    for entry in there {
        if !is_ours(entry) {
            all.push(entry.clone());
            continue;
        }
        let same = |new: &Value| {
            new.get(list.reference).is_some_and(|reference| is_same_reference(entry.get(list.reference), reference))
        };
        if let Some(at) = rendered.iter().position(same) {
            let new = rendered.remove(at);
            all.push(if agrees(&new, entry, "") == Agreement::Same { entry.clone() } else { new });
        }
    }
    // Where others left no room for all, those that are there stay: entries must not push each other out in turns.
    let room = list.limit.saturating_sub(all.len());
    all.extend(rendered.into_iter().take(room));
    if all == there {
        return None;
    }
    let write = Write::Merge(json!({
        "metadata": {"uid": *meta.uid, "resourceVersion": *meta.resource_version},
        "status": {list.field: all},
    }));
    Some(Desired { write, said })
}

fn applied(key: &ObjectKey, meta: &Meta, wanted: &Status, said: Option<Digest>, now: &str) -> Option<Desired> {
    let mut since = |element: Element<'_>, condition: &Condition| {
        transition_time(conditions_there(&meta.status, element), condition, now)
    };
    let status = bounded(wanted.render(meta.generation, &mut since), &meta.status);
    let says = Digest::of(status.clone());
    match agrees(&status, &meta.status, "") {
        Agreement::Same => return None,
        // What is there besides is of another manager if it has outlived our last word, which took back whatever was ours.
        Agreement::More if said == Some(says) => return None,
        Agreement::More | Agreement::Differs => {}
    }
    Some(Desired { write: Write::Apply(manifest(key, meta, status)), said: says })
}

/// Applying nothing takes back what this process has applied.
fn retracted(key: &ObjectKey, meta: &Meta, said: Option<Digest>) -> Option<Desired> {
    let said_something = said.is_some_and(|said| said != Digest::NOTHING);
    said_something.then(|| Desired { write: Write::Apply(manifest(key, meta, json!({}))), said: Digest::NOTHING })
}

fn manifest(key: &ObjectKey, meta: &Meta, status: Value) -> Value {
    let mut metadata = Map::new();
    metadata.insert("name".into(), json!(*key.name.name));
    if !key.name.namespace.is_empty() {
        metadata.insert("namespace".into(), json!(*key.name.namespace));
    }
    // Not another object that came under the name meanwhile. The version guards that: with `uid` alone the API server applies it to
    // whatever has the name, since for `/status` of a custom resource it takes no notice of other fields.
    metadata.insert("uid".into(), json!(*meta.uid));
    metadata.insert("resourceVersion".into(), json!(*meta.resource_version));
    let fields = [
        ("apiVersion", json!(*meta.api_version)),
        ("kind", json!(key.kind.as_str())),
        ("metadata", Value::Object(metadata)),
        ("status", status),
    ];
    fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

fn is_ours(entry: &Value) -> bool {
    entry.get("controllerName").and_then(Value::as_str) == Some(CONTROLLER_NAME)
}

fn reference(element: Element<'_>) -> Value {
    match element {
        Element::Parent(parent) => parent_ref(parent),
        Element::Ancestor(gateway) => ancestor_ref(gateway),
        Element::Object | Element::Listener(_) => Value::Null,
    }
}

fn is_same_reference(a: Option<&Value>, b: &Value) -> bool {
    let Some(a) = a else { return false };
    let default = |field: &str| match field {
        "group" => json!(GATEWAY_GROUP),
        "kind" => json!("Gateway"),
        _ => Value::Null,
    };
    ["group", "kind", "namespace", "name", "sectionName", "port"].into_iter().all(|field| {
        let of = |value: &Value| value.get(field).cloned().unwrap_or_else(|| default(field));
        of(a) == of(b)
    })
}

fn listener<'a>(status: &'a Value, name: &str) -> Option<&'a Value> {
    let listeners = status.get("listeners")?.as_array()?;
    listeners.iter().find(|listener| listener.get("name").and_then(Value::as_str) == Some(name))
}

/// Whether a Gateway's status says that it has been programmed. It "stays True through generations, restarts, scaling and disconnects"
/// (design invariant 14): a control plane that starts goes on from here, before any proxy has said anything to it.
#[must_use]
pub fn says_programmed(status: &Value) -> bool {
    let programmed = ConditionType::Programmed.as_str();
    let conditions = conditions_there(status, Element::Object);
    conditions.iter().any(|condition| text(condition, "type") == programmed && text(condition, "status") == "True")
}

/// The conditions that a status has for an element, of ours where entries have owners.
#[must_use]
pub fn conditions_there<'a>(status: &'a Value, element: Element<'_>) -> &'a [Value] {
    let entry = |list: &str, field: &str, wanted: &Value| {
        let entries = status.get(list)?.as_array()?;
        entries.iter().find(|entry| is_ours(entry) && is_same_reference(entry.get(field), wanted))
    };
    let place = match element {
        Element::Object => Some(status),
        Element::Listener(name) => listener(status, name),
        Element::Parent(_) => entry("parents", "parentRef", &reference(element)),
        Element::Ancestor(_) => entry("ancestors", "ancestorRef", &reference(element)),
    };
    place.and_then(|place| place.get("conditions")).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// "the last time the condition transitioned from one status to another": it stays while the status does.
fn transition_time(there: &[Value], condition: &Condition, now: &str) -> String {
    let old = there.iter().find(|old| text(old, "type") == condition.kind.as_str());
    let status = if condition.status { "True" } else { "False" };
    match old {
        Some(old) if text(old, "status") == status && !text(old, "lastTransitionTime").is_empty() => {
            text(old, "lastTransitionTime").to_owned()
        }
        _ => now.to_owned(),
    }
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value.get(field).and_then(Value::as_str).unwrap_or_default()
}

/// Cuts what the API server would refuse, and with it the whole write.
fn bounded(mut status: Value, there: &Value) -> Value {
    fn walk(value: &mut Value, there: &Value) {
        match value {
            Value::Object(fields) => {
                for (name, field) in fields {
                    let there = there.get(name).unwrap_or(&Value::Null);
                    if name == "conditions"
                        && let Value::Array(conditions) = field
                    {
                        conditions.truncate(MAX_CONDITIONS.saturating_sub(foreign_conditions(there)));
                    }
                    walk(field, there);
                }
            }
            Value::Array(elements) => {
                for element in elements {
                    let same =
                        |old: &&Value| !text(old, "name").is_empty() && text(old, "name") == text(element, "name");
                    let old = there.as_array().and_then(|there| there.iter().find(same)).cloned().unwrap_or_default();
                    walk(element, &old);
                }
            }
            Value::String(text) if text.len() > MAX_MESSAGE => {
                text.truncate(text.floor_char_boundary(MAX_MESSAGE - 4));
                text.push_str(" …");
            }
            _ => {}
        }
    }
    walk(&mut status, there);
    status
}

fn foreign_conditions(there: &Value) -> usize {
    there.as_array().into_iter().flatten().filter(|condition| !is_known_type(text(condition, "type"))).count()
}

fn is_known_type(name: &str) -> bool {
    ConditionType::ALL.iter().any(|known| known.as_str() == name)
}

fn without_times(mut status: Value) -> Value {
    fn walk(value: &mut Value) {
        match value {
            Value::Object(fields) => {
                fields.shift_remove("lastTransitionTime");
                fields.values_mut().for_each(walk);
            }
            Value::Array(elements) => elements.iter_mut().for_each(walk),
            _ => {}
        }
    }
    walk(&mut status);
    status
}

/// How what is there compares with what is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Agreement {
    Same,
    /// All of it is there, and elements of lists besides that may be Portolan's of earlier
    More,
    Differs,
}

/// Lists that merge by a key are compared by it, in any order; others as they are.
fn agrees(wanted: &Value, there: &Value, field: &str) -> Agreement {
    match (wanted, there) {
        (Value::Object(wanted), Value::Object(there)) => {
            let of = |(name, value): (&String, &Value)| agrees(value, there.get(name).unwrap_or(&Value::Null), name);
            wanted.iter().map(of).max().unwrap_or(Agreement::Same)
        }
        // Empty lists may be left out.
        (Value::Array(wanted), Value::Null) if wanted.is_empty() => Agreement::Same,
        (Value::Array(wanted), Value::Array(there)) => match list_key(field) {
            Some(key) => {
                let of = |element: &Value| {
                    let same = |old: &&Value| text(old, key) == text(element, key);
                    there.iter().find(same).map_or(Agreement::Differs, |old| agrees(element, old, ""))
                };
                let all = wanted.iter().map(of).max().unwrap_or(Agreement::Same);
                let is_stale = |old: &Value| {
                    let may_be_ours = field != "conditions" || is_known_type(text(old, key));
                    may_be_ours && !wanted.iter().any(|element| text(element, key) == text(old, key))
                };
                if there.iter().any(is_stale) { all.max(Agreement::More) } else { all }
            }
            None if wanted == there => Agreement::Same,
            None => Agreement::Differs,
        },
        _ if wanted == there => Agreement::Same,
        _ => Agreement::Differs,
    }
}

fn list_key(field: &str) -> Option<&'static str> {
    match field {
        "conditions" => Some("type"),
        "listeners" | "supportedFeatures" => Some("name"),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
