//! What the watches said becomes batches. Pure: the time is an argument.
//!
//! Objects are told apart by UID: a deletion concerns the object that it names, not whatever has its name by now.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use portolan_model::ObjectKey;

use super::follow::Heard;
use super::wire::Scope;
use crate::Observed;

/// An object and its key.
pub(crate) type Item = (ObjectKey, Observed);

/// A batch waits this long for more after its last event …
const QUIET: Duration = Duration::from_millis(1);
/// … and never longer than this after its first.
const LATEST: Duration = Duration::from_millis(5);

/// What is known of every object, and what is not yet told.
#[derive(Debug, Default)]
pub(crate) struct Ingest {
    entries: BTreeMap<ObjectKey, Entry>,
    batch: BTreeMap<ObjectKey, Option<Observed>>,
    /// The first and the last event of the batch
    times: Option<(Instant, Instant)>,
}

/// What is known of an object.
#[derive(Debug)]
struct Entry {
    uid: std::sync::Arc<str>,
    /// Whose watch saw it last
    scope: Scope,
}

impl Ingest {
    /// The watch of a scope says something.
    pub fn hear(&mut self, scope: &Scope, heard: Heard<Item>, now: Instant) {
        match heard {
            Heard::Listing | Heard::Alive | Heard::Broken(_) => {}
            Heard::Listed(items) => {
                let names: BTreeSet<ObjectKey> = items.iter().map(|(key, _)| key.clone()).collect();
                self.forget(|key, entry| entry.scope == *scope && !names.contains(key), now);
                for (key, observed) in items {
                    self.apply(scope, key, observed, now);
                }
            }
            Heard::Applied((key, observed)) => self.apply(scope, key, observed, now),
            Heard::Deleted((key, observed)) => {
                self.forget(|known, entry| *known == key && entry.uid == observed.meta.uid, now);
            }
        }
    }

    /// There is no such watch any more: what it saw is not known any more.
    pub fn close(&mut self, scope: &Scope, now: Instant) {
        self.forget(|_, entry| entry.scope == *scope, now);
    }

    /// When the batch is to be taken; `None`: there is none.
    pub fn due(&self) -> Option<Instant> {
        self.times.map(|(first, last)| (first + LATEST).min(last + QUIET))
    }

    /// The batch.
    pub fn take(&mut self) -> BTreeMap<ObjectKey, Option<Observed>> {
        self.times = None;
        std::mem::take(&mut self.batch)
    }

    fn apply(&mut self, scope: &Scope, key: ObjectKey, observed: Observed, now: Instant) {
        self.entries.insert(key.clone(), Entry { uid: observed.meta.uid.clone(), scope: scope.clone() });
        self.tell(key, Some(observed), now);
    }

    fn forget(&mut self, is_gone: impl Fn(&ObjectKey, &Entry) -> bool, now: Instant) {
        let gone: Vec<ObjectKey> =
            self.entries.iter().filter(|(key, entry)| is_gone(key, entry)).map(|(key, _)| key.clone()).collect();
        for key in gone {
            self.entries.remove(&key);
            self.tell(key, None, now);
        }
    }

    fn tell(&mut self, key: ObjectKey, value: Option<Observed>, now: Instant) {
        self.batch.insert(key, value);
        self.times = Some(self.times.map_or((now, now), |(first, _)| (first, now)));
    }
}
