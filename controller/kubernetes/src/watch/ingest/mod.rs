//! What the watches said becomes batches, each a moment of the world. Pure: the time is an argument.
//!
//! Watches of different kinds are not in step, and in two cases alone that would show. There an object is read from the API server before
//! the word of its watch counts, for at most [`CONFIRM`]:
//!
//! * a Service or EndpointSlice that a route uses is gone: the route may long have been moved to another one. The routes concerned are read,
//!   and what they are now comes in one batch with the deletion;
//! * a route refers to a Service that nobody has seen, or across namespaces without a grant: these are read, and come in one batch with the
//!   route. Where the route was there before and differs in more than its backends, its new value may be the one that takes access away:
//!   it waits for [`BRIEFLY`] only.
//!
//! Everything else is told at once: each key for itself, nothing waits for a key that waits.
//!
//! Objects are told apart by UID: a deletion concerns the object that it names, not whatever has its name by now. The watch delivers every
//! version of an object in order, so what a read brought is ahead of the watch until the watch says the same version.

mod hold;
mod reads;
#[cfg(test)]
mod simulation;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use portolan_model::objects::Object;
use portolan_model::{Kind, NamespacedName, ObjectKey};

use super::follow::Heard;
use super::wire::Scope;
use crate::Observed;
use crate::resource::is_older;
use hold::Hold;
use reads::{Read, Reads};

pub(crate) use reads::{Answer, Order, What};

/// An object and its key.
pub(crate) type Item = (ObjectKey, Observed);

/// A batch waits this long for more after its last event …
const QUIET: Duration = Duration::from_millis(1);
/// … and never longer than this after its first.
const LATEST: Duration = Duration::from_millis(5);
/// The longest that a confirmation may delay something.
pub(crate) const CONFIRM: Duration = Duration::from_secs(1);
/// The same where the delay might be one of taking access away.
const BRIEFLY: Duration = Duration::from_millis(80);

/// What is known of every object, and what is not yet told.
#[derive(Debug, Default)]
pub(crate) struct Ingest {
    /// Whether kinds are watched per namespace
    per_namespace: bool,
    /// Whether confirmation has begun: while everything is listed for the first time, nothing is missing yet
    confirms: bool,
    /// Counts what came in, to say what was before what
    moment: u64,
    entries: BTreeMap<ObjectKey, Entry>,
    /// By Service, its slices among the entries
    slices: BTreeMap<NamespacedName, BTreeSet<ObjectKey>>,
    /// Objects that a read did not find any more: older words about them count no more. A UID never comes back
    dead: BTreeMap<ObjectKey, (Arc<str>, u64)>,
    /// When the list that is being made was begun
    listing: BTreeMap<Scope, u64>,
    reads: Reads,
    holds: BTreeMap<ObjectKey, Hold>,
    /// The routes as they were told last
    told: BTreeMap<ObjectKey, Object>,
    /// By Service, the routes that refer to it, as they were told last
    users: BTreeMap<NamespacedName, BTreeSet<ObjectKey>>,
    batch: BTreeMap<ObjectKey, Option<Observed>>,
    /// The first and the last event of the batch
    times: Option<(Instant, Instant)>,
}

/// What is known of an object.
#[derive(Debug)]
struct Entry {
    uid: Arc<str>,
    version: Arc<str>,
    /// Whose watch sees it
    scope: Scope,
    /// Set at this moment by a read, and the watch has not yet come so far
    ahead: Option<u64>,
    /// Kept of the kinds that confirmation looks at
    object: Option<Object>,
}

impl Ingest {
    pub fn new(per_namespace: bool) -> Self {
        Self { per_namespace, ..Self::default() }
    }

    /// Everything has been listed: from now on what is missing is asked for.
    pub fn confirm(&mut self) {
        self.confirms = true;
    }

    /// The watch of a scope says something.
    pub fn hear(&mut self, scope: &Scope, heard: Heard<Item>, now: Instant) {
        self.moment += 1;
        match heard {
            Heard::Alive | Heard::Broken(_) => {}
            Heard::Listing => {
                self.listing.insert(scope.clone(), self.moment);
            }
            Heard::Listed(items, version) => self.listed(scope, items, &version, now),
            Heard::Applied((key, observed)) => self.said(scope, key, observed, now),
            Heard::Deleted((key, observed)) => {
                if self.dead.get(&key).is_some_and(|(uid, _)| *uid == observed.meta.uid) {
                    self.dead.remove(&key);
                }
                self.note(&key, &observed.meta.resource_version);
                if self.entries.get(&key).is_some_and(|entry| entry.uid == observed.meta.uid) {
                    self.gone(key, now);
                }
            }
        }
    }

    /// There is no such watch any more: what it saw is not known any more.
    pub fn close(&mut self, scope: &Scope, now: Instant) {
        self.moment += 1;
        self.listing.remove(scope);
        self.reads.spoil(scope.kind);
        for key in self.keys(scope) {
            self.holds.remove(&key);
            self.remove(&key);
            self.tell(key, None, now);
        }
    }

    /// A read has an answer, or has none within its time.
    pub fn answered(&mut self, id: u64, answer: Answer, now: Instant) {
        self.moment += 1;
        let Some(read) = self.reads.finish(id) else { return };
        if read.spoiled {
            let again = self.reads.again(read);
            self.holds.values_mut().for_each(|hold| hold.replace(id, again));
            return;
        }
        if let Answer::Found(items) = answer {
            let found: BTreeSet<ObjectKey> = items.iter().map(|(key, _)| key.clone()).collect();
            for (key, observed) in items {
                if self.is_news(&read, &key, &observed) {
                    self.note(&key, &observed.meta.resource_version);
                    let scope = self.scope(&key);
                    self.set(&scope, key, observed, Some(self.moment), now);
                }
            }
            for key in read.concerned.difference(&found) {
                self.vanished(&read, key, now);
            }
        }
        self.settle(id, now);
    }

    /// The reads to be made, once each.
    pub fn orders(&mut self) -> Vec<Order> {
        self.reads.orders()
    }

    /// When to call [`Self::tick`]; `None`: nothing waits.
    pub fn due(&self) -> Option<Instant> {
        self.holds.values().map(|hold| hold.until).chain(self.ripe_at()).min()
    }

    /// It is this time: what was held for long enough is held no more.
    pub fn tick(&mut self, now: Instant) {
        self.give_up(now);
    }

    /// Whether there is a batch that waits for nothing more.
    pub fn is_ripe(&self, now: Instant) -> bool {
        self.ripe_at().is_some_and(|at| at <= now)
    }

    /// Whether there is one at all.
    pub fn has_batch(&self) -> bool {
        self.times.is_some()
    }

    /// The batch.
    pub fn take(&mut self) -> BTreeMap<ObjectKey, Option<Observed>> {
        self.times = None;
        std::mem::take(&mut self.batch)
    }

    fn ripe_at(&self) -> Option<Instant> {
        self.times.map(|(first, last)| (first + LATEST).min(last + QUIET))
    }

    /// These are all that the watch of a scope sees.
    fn listed(&mut self, scope: &Scope, items: Vec<Item>, version: &str, now: Instant) {
        let begun = self.listing.remove(scope).unwrap_or(self.moment);
        // What was read before the list was begun is in the list; of what was read since then, what is newer is not.
        for entry in self.entries.values_mut().filter(|entry| entry.scope == *scope) {
            entry.ahead = entry.ahead.filter(|moment| *moment > begun && is_older(version, &entry.version));
        }
        self.dead.retain(|key, (_, moment)| {
            *moment > begun
                || key.kind != scope.kind
                || scope.namespace.as_ref().is_some_and(|namespace| *namespace != key.name.namespace)
        });
        // A list passes over versions: a read of one of them would be waited for in vain.
        self.reads.spoil(scope.kind);
        let listed: BTreeSet<ObjectKey> = items.iter().map(|(key, _)| key.clone()).collect();
        for key in self.keys(scope) {
            let is_ahead = self.entries.get(&key).is_some_and(|entry| entry.ahead.is_some());
            if !listed.contains(&key) && !is_ahead {
                self.gone(key, now);
            }
        }
        for (key, observed) in items {
            self.said(scope, key, observed, now);
        }
    }

    /// The watch says that an object is there.
    fn said(&mut self, scope: &Scope, key: ObjectKey, observed: Observed, now: Instant) {
        if self.dead.get(&key).is_some_and(|(uid, _)| *uid == observed.meta.uid) {
            return;
        }
        self.note(&key, &observed.meta.resource_version);
        if let Some(entry) = self.entries.get_mut(&key)
            && entry.ahead.is_some()
        {
            if entry.version == observed.meta.resource_version {
                entry.ahead = None;
            }
            return;
        }
        self.set(scope, key, observed, None, now);
    }

    /// An object is there with this value; told now, or held while something is in doubt.
    fn set(&mut self, scope: &Scope, key: ObjectKey, observed: Observed, ahead: Option<u64>, now: Instant) {
        self.remove(&key);
        let object = observed.object.clone().filter(|_| is_looked_at(key.kind));
        if let Some(Object::EndpointSlice(slice)) = &object
            && let Some(service) = &slice.service
        {
            self.slices.entry(service.clone()).or_default().insert(key.clone());
        }
        let (uid, version) = (observed.meta.uid.clone(), observed.meta.resource_version.clone());
        self.entries.insert(key.clone(), Entry { uid, version, scope: scope.clone(), ahead, object });
        let held = self.holds.remove(&key);
        match self.doubts_of_reference(&key, observed.object.as_ref(), held.as_ref(), now) {
            Some((waits, until)) => {
                self.holds.insert(key, Hold { value: Some(observed), service: None, waits, until });
            }
            None => self.tell(key, Some(observed), now),
        }
    }

    /// An object is gone; told now, or held while it is in doubt whether it is in use.
    fn gone(&mut self, key: ObjectKey, now: Instant) {
        let entry = self.remove(&key);
        self.holds.remove(&key);
        match self.doubts_of_use(&key, entry.as_ref(), now) {
            Some(hold) => {
                self.holds.insert(key, hold);
            }
            None => self.tell(key, None, now),
        }
    }

    /// A read did not find an object that was there when it began.
    fn vanished(&mut self, read: &Read, key: &ObjectKey, now: Instant) {
        // Unless the watch has said something about that name meanwhile.
        if !read.log.contains_key(key)
            && let Some(entry) = self.entries.get(key)
        {
            self.dead.insert(key.clone(), (entry.uid.clone(), self.moment));
            self.gone(key.clone(), now);
        }
    }

    /// Whether what a read found is ahead of the watch.
    fn is_news(&self, read: &Read, key: &ObjectKey, found: &Observed) -> bool {
        let (uid, version) = (&found.meta.uid, &found.meta.resource_version);
        if read.has_seen(key, version) || self.dead.get(key).is_some_and(|(dead, _)| dead == uid) {
            return false;
        }
        match self.entries.get(key) {
            None => true,
            Some(entry) if entry.version == *version => false,
            // Of two reads at a time no watch says which one was first.
            Some(entry) if entry.ahead.is_some() => is_older(&entry.version, version),
            Some(_) => true,
        }
    }

    fn remove(&mut self, key: &ObjectKey) -> Option<Entry> {
        let entry = self.entries.remove(key)?;
        if let Some(Object::EndpointSlice(slice)) = &entry.object
            && let Some(service) = &slice.service
            && let Some(slices) = self.slices.get_mut(service)
        {
            slices.remove(key);
            if slices.is_empty() {
                self.slices.remove(service);
            }
        }
        Some(entry)
    }

    fn tell(&mut self, key: ObjectKey, value: Option<Observed>, now: Instant) {
        if key.kind.is_route() {
            let object = value.as_ref().and_then(|observed| observed.object.clone());
            self.told_route(&key, object);
        }
        self.batch.insert(key, value);
        self.times = Some(self.times.map_or((now, now), |(first, _)| (first, now)));
    }

    /// The keys that the watch of a scope has seen.
    fn keys(&self, scope: &Scope) -> Vec<ObjectKey> {
        self.entries.iter().filter(|(_, entry)| entry.scope == *scope).map(|(key, _)| key.clone()).collect()
    }

    /// Reads that are under way learn what is said meanwhile.
    fn note(&mut self, key: &ObjectKey, version: &Arc<str>) {
        self.reads.log(key, self.entries.get(key).map(|entry| &entry.version), version);
    }

    /// The scope whose watch will see an object that was read.
    fn scope(&self, key: &ObjectKey) -> Scope {
        Scope { kind: key.kind, namespace: self.per_namespace.then(|| key.name.namespace.clone()), name: None }
    }
}

const fn is_looked_at(kind: Kind) -> bool {
    kind.is_route() || matches!(kind, Kind::Service | Kind::EndpointSlice | Kind::ReferenceGrant)
}
