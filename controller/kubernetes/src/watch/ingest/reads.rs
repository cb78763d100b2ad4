//! Reads of the API server that are under way, and what the watches said meanwhile.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use portolan_model::{Kind, Name, NamespacedName, ObjectKey};

use super::Item;

/// What is read.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum What {
    /// One object
    Object(ObjectKey),
    /// Those of a kind in a namespace
    All(Kind, Name),
    /// The EndpointSlices of a Service
    Slices(NamespacedName),
}

impl What {
    pub fn kind(&self) -> Kind {
        match self {
            Self::Object(key) => key.kind,
            Self::All(kind, _) => *kind,
            Self::Slices(_) => Kind::EndpointSlice,
        }
    }

    pub fn namespace(&self) -> &Name {
        match self {
            Self::Object(key) => &key.name.namespace,
            Self::All(_, namespace) => namespace,
            Self::Slices(service) => &service.namespace,
        }
    }

    /// Whether an object may be among what is read.
    fn covers(&self, key: &ObjectKey) -> bool {
        match self {
            Self::Object(object) => object == key,
            Self::All(kind, namespace) => *kind == key.kind && *namespace == key.name.namespace,
            Self::Slices(service) => key.kind == Kind::EndpointSlice && service.namespace == key.name.namespace,
        }
    }
}

/// A read to be made. It must not begin before it was ordered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Order {
    pub id: u64,
    pub what: What,
}

/// What came of it.
#[derive(Clone, Debug)]
pub(crate) enum Answer {
    /// All that there is; nothing where there is nothing
    Found(Vec<Item>),
    /// The API server did not say
    Failed,
}

#[derive(Debug, Default)]
pub(crate) struct Reads {
    last: u64,
    under_way: BTreeMap<u64, Read>,
    /// Not yet begun: whoever wants the same may share it
    ordered: BTreeMap<What, u64>,
}

/// A read that is under way.
#[derive(Debug)]
pub(super) struct Read {
    what: What,
    begun: bool,
    /// A list of that kind came meanwhile: what is found is older or newer than it, nobody knows
    pub spoiled: bool,
    /// The objects whose absence says that they are gone; others are merely not found
    pub concerned: BTreeSet<ObjectKey>,
    /// By name, the versions that were known since it began
    pub log: BTreeMap<ObjectKey, BTreeSet<Arc<str>>>,
}

impl Read {
    /// Whether the watch has said this version, so that it is there or further.
    pub fn has_seen(&self, key: &ObjectKey, version: &Arc<str>) -> bool {
        self.log.get(key).is_some_and(|versions| versions.contains(version))
    }
}

impl Reads {
    /// Orders a read, or shares one that has not begun. `concerned`: a route that is gone if it is not found.
    pub fn order(&mut self, what: What, concerned: Option<&ObjectKey>) -> u64 {
        let id = *self.ordered.entry(what.clone()).or_insert_with(|| {
            self.last += 1;
            self.last
        });
        let new = || Read { what, begun: false, spoiled: false, concerned: BTreeSet::new(), log: BTreeMap::new() };
        self.under_way.entry(id).or_insert_with(new).concerned.extend(concerned.cloned());
        id
    }

    /// Orders a read once more.
    pub fn again(&mut self, read: Read) -> u64 {
        let id = self.order(read.what, None);
        if let Some(again) = self.under_way.get_mut(&id) {
            again.concerned.extend(read.concerned);
        }
        id
    }

    /// What has been ordered; it begins now.
    pub fn orders(&mut self) -> Vec<Order> {
        let ordered = std::mem::take(&mut self.ordered);
        for id in ordered.values() {
            if let Some(read) = self.under_way.get_mut(id) {
                read.begun = true;
            }
        }
        ordered.into_iter().map(|(what, id)| Order { id, what }).collect()
    }

    pub fn finish(&mut self, id: u64) -> Option<Read> {
        self.under_way.remove(&id)
    }

    /// Something is said about an object; `before`: the version that was known.
    pub fn log(&mut self, key: &ObjectKey, before: Option<&Arc<str>>, said: &Arc<str>) {
        for read in self.under_way.values_mut().filter(|read| read.begun && read.what.covers(key)) {
            let versions = read.log.entry(key.clone()).or_default();
            versions.extend(before.cloned());
            versions.insert(said.clone());
        }
    }

    /// A list of a kind has come.
    pub fn spoil(&mut self, kind: Kind) {
        for read in self.under_way.values_mut().filter(|read| read.begun && read.what.kind() == kind) {
            read.spoiled = true;
        }
    }
}
