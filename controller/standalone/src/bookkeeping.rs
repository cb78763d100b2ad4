//! What an API server keeps about objects: generations, and statuses with times. Pure: the time comes in as an argument.

use std::collections::BTreeMap;
use std::sync::Arc;

use portolan_model::ir::{Element, Status};
use portolan_model::objects::Object;
use portolan_model::read::Location;
use portolan_model::{Condition, ObjectKey};
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
    /// `lastTransitionTime` of each condition, in the order of [`Status::conditions`]
    since: Box<[i64]>,
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
        let since = status.conditions().map(|(element, condition)| since_of(element, condition)).collect();
        Self { status: status.clone(), since }
    }

    /// Each condition with its time.
    fn times(&self) -> Vec<(Element<'_>, &Condition, i64)> {
        self.status
            .conditions()
            .zip(&self.since)
            .map(|((element, condition), since)| (element, condition, *since))
            .collect()
    }

    /// As Kubernetes would show it.
    fn show(&self, generation: i64) -> Value {
        let mut since = self.since.iter();
        self.status.render(generation, &mut |_, _| timestamp(since.next().copied().unwrap_or_default()))
    }
}

/// Kubernetes' form of a time: RFC 3339 in UTC, whole seconds.
fn timestamp(seconds: i64) -> String {
    jiff::Timestamp::from_second(seconds).unwrap_or(jiff::Timestamp::UNIX_EPOCH).to_string()
}
