//! What is held until reads have confirmed it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use portolan_model::objects::Object;
use portolan_model::{Kind, Name, NamespacedName, ObjectKey};

use super::super::references::{differ_in_backends_alone, permits, services};
use super::reads::What;
use super::{BRIEFLY, CONFIRM, Entry, Ingest};
use crate::Observed;

/// More routes than these in a namespace are read with one list.
const FEW: usize = 8;

/// What is known and not yet told.
#[derive(Debug)]
pub(super) struct Hold {
    /// `None`: it is gone
    pub value: Option<Observed>,
    /// The Service whose users are asked for before it (or a slice of it) may be gone
    pub service: Option<NamespacedName>,
    /// The reads that it waits for
    pub waits: BTreeSet<u64>,
    /// At the latest
    pub until: Instant,
}

impl Hold {
    /// Waits for another read instead of one.
    pub fn replace(&mut self, one: u64, another: u64) {
        if self.waits.remove(&one) {
            self.waits.insert(another);
        }
    }
}

impl Ingest {
    /// The reads that a route has to wait for, and how long at most. It waits for what it refers to and did not refer to before.
    pub(super) fn doubts_of_reference(
        &mut self,
        route: &ObjectKey,
        object: Option<&Object>,
        held: Option<&Hold>,
        now: Instant,
    ) -> Option<(BTreeSet<u64>, Instant)> {
        let object = object.filter(|_| self.confirms && route.kind.is_route())?;
        let told = self.told.get(route);
        let known = told.map(services).unwrap_or_default();
        let longest = if told.is_none_or(|told| differ_in_backends_alone(told, object)) { CONFIRM } else { BRIEFLY };
        let waits: BTreeSet<u64> = services(object)
            .difference(&known)
            .flat_map(|service| self.unseen(route, service))
            .collect::<Vec<What>>()
            .into_iter()
            .map(|what| self.reads.order(what, None))
            .collect();
        let until = held.map_or(now + longest, |held| held.until.min(now + longest));
        (!waits.is_empty()).then_some((waits, until))
    }

    /// What a reference needs and nobody has seen.
    fn unseen(&self, route: &ObjectKey, service: &NamespacedName) -> Vec<What> {
        let key = ObjectKey::new(Kind::Service, service.clone());
        let mut unseen = Vec::new();
        let entry = self.entries.get(&key);
        if entry.is_none() {
            unseen.push(What::Object(key));
        }
        let has_slices =
            |entry: &Entry| matches!(&entry.object, Some(Object::Service(service)) if service.external_name.is_none());
        if entry.is_none_or(has_slices) && !self.slices.contains_key(service) {
            unseen.push(What::Slices(service.clone()));
        }
        if service.namespace != route.name.namespace && !self.is_granted(route, service) {
            unseen.push(What::All(Kind::ReferenceGrant, service.namespace.clone()));
        }
        unseen
    }

    fn is_granted(&self, route: &ObjectKey, service: &NamespacedName) -> bool {
        let first = ObjectKey::new(Kind::ReferenceGrant, NamespacedName::new(service.namespace.clone(), ""));
        let in_namespace = |key: &ObjectKey| key.kind == first.kind && key.name.namespace == service.namespace;
        let grants = self.entries.range(first.clone()..).take_while(|(key, _)| in_namespace(key));
        grants
            .filter_map(|(_, entry)| entry.object.as_ref())
            .any(|object| matches!(object, Object::ReferenceGrant(grant) if permits(grant, route, &service.name)))
    }

    /// Whether the deletion of a Service or a slice has to wait until the routes that use it have been read.
    pub(super) fn doubts_of_use(&mut self, key: &ObjectKey, entry: Option<&Entry>, now: Instant) -> Option<Hold> {
        let service = match (key.kind, entry.and_then(|entry| entry.object.as_ref())) {
            (Kind::Service, _) => key.name.clone(),
            (_, Some(Object::EndpointSlice(slice))) => slice.service.clone()?,
            _ => return None,
        };
        let users = self.users.get(&service).filter(|_| self.confirms)?;
        let mut by_namespace: BTreeMap<(Kind, Name), Vec<ObjectKey>> = BTreeMap::new();
        for route in users {
            by_namespace.entry((route.kind, route.name.namespace.clone())).or_default().push(route.clone());
        }
        let mut waits = BTreeSet::new();
        for ((kind, namespace), routes) in by_namespace {
            let are_few = routes.len() <= FEW;
            for route in routes {
                let what = if are_few { What::Object(route.clone()) } else { What::All(kind, namespace.clone()) };
                waits.insert(self.reads.order(what, Some(&route)));
            }
        }
        Some(Hold { value: None, service: Some(service), waits, until: now + CONFIRM })
    }

    /// A read is finished: whatever waited for it alone is told.
    pub(super) fn settle(&mut self, read: u64, now: Instant) {
        let mut settled: Vec<ObjectKey> = Vec::new();
        for (key, hold) in &mut self.holds {
            if hold.waits.remove(&read) && hold.waits.is_empty() {
                settled.push(key.clone());
            }
        }
        // Routes first: a deletion waits for the routes that still use the Service and wait themselves.
        settled.sort_by_key(|key| !key.kind.is_route());
        for key in settled {
            let users = self.holds.get(&key).and_then(|hold| self.users.get(hold.service.as_ref()?));
            let waits: BTreeSet<u64> = users
                .into_iter()
                .flatten()
                .filter_map(|route| self.holds.get(route))
                .flat_map(|hold| hold.waits.iter().copied())
                .collect();
            match self.holds.get_mut(&key) {
                Some(hold) if !waits.is_empty() => hold.waits = waits,
                _ => self.release(key, now),
            }
        }
    }

    /// What was held for long enough is told: then the watch's word stands.
    pub(super) fn give_up(&mut self, now: Instant) {
        let expired = |(key, hold): (&ObjectKey, &Hold)| (hold.until <= now).then(|| key.clone());
        for key in self.holds.iter().filter_map(expired).collect::<Vec<_>>() {
            self.release(key, now);
        }
    }

    fn release(&mut self, key: ObjectKey, now: Instant) {
        if let Some(hold) = self.holds.remove(&key) {
            self.tell(key, hold.value, now);
        }
    }

    /// Keeps what a route was told to be, and which Services it uses.
    pub(super) fn told_route(&mut self, route: &ObjectKey, object: Option<Object>) {
        if let Some(before) = self.told.remove(route) {
            for service in services(&before) {
                if let Some(users) = self.users.get_mut(&service) {
                    users.remove(route);
                    if users.is_empty() {
                        self.users.remove(&service);
                    }
                }
            }
        }
        if let Some(object) = object {
            for service in services(&object) {
                self.users.entry(service).or_default().insert(route.clone());
            }
            self.told.insert(route.clone(), object);
        }
    }
}
