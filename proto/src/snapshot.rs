//! The resources of one fleet and the log of how they came to be so.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use crate::{Resource, ResourceKey};

/// A resource that is new, different (`Some`) or gone (`None`).
#[derive(Clone, Debug)]
pub struct Change {
    pub key: ResourceKey,
    pub resource: Option<Arc<Resource>>,
}

/// One step of the log: what stood under the key before.
#[derive(Clone, Debug)]
pub struct LogEntry {
    pub key: ResourceKey,
    pub before: Option<Arc<Resource>>,
}

/// All resources of a fleet, with the most recent changes. A reader that remembers [`Snapshot::position`] finds out what has
/// changed since in O(changes).
#[derive(Debug, Default)]
pub struct Snapshot {
    resources: BTreeMap<ResourceKey, Arc<Resource>>,
    log: VecDeque<LogEntry>,
    /// Position of the first entry in `log`
    start: u64,
}

/// Entries kept in the log. A reader further behind compares whole states.
const LOG_LIMIT: usize = 8_192;

impl Snapshot {
    /// Puts changes in force; changes that change nothing (same version) are dropped. Returns how many were logged.
    pub fn apply(&mut self, changes: impl IntoIterator<Item = Change>) -> usize {
        let mut logged = 0;
        for Change { key, resource } in changes {
            let before = match &resource {
                Some(new) => {
                    if self.resources.get(&key).is_some_and(|old| old.version == new.version && old.is_held() == new.is_held())
                    {
                        // Same content; origins and references may still differ.
                        self.resources.insert(key, Arc::clone(new));
                        continue;
                    }
                    self.resources.insert(key.clone(), Arc::clone(new))
                }
                None => match self.resources.remove(&key) {
                    Some(old) => Some(old),
                    None => continue,
                },
            };
            if let Some(old) = &before {
                old.body.forget_encoding();
            }
            self.log.push_back(LogEntry { key, before });
            logged += 1;
        }
        while self.log.len() > LOG_LIMIT {
            self.log.pop_front();
            self.start += 1;
        }
        logged
    }

    #[must_use]
    pub fn get(&self, key: &ResourceKey) -> Option<&Arc<Resource>> {
        self.resources.get(key)
    }

    /// All resources, by type and name.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Resource>> {
        self.resources.values()
    }

    #[must_use]
    pub fn len(&self) -> usize {
        self.resources.len()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.resources.is_empty()
    }

    /// Position behind the last log entry.
    #[must_use]
    pub fn position(&self) -> u64 {
        self.start + self.log.len() as u64
    }

    /// The entries since `position`, oldest first; `None` when the log no longer reaches back so far.
    #[must_use]
    pub fn since(&self, position: u64) -> Option<impl Iterator<Item = &LogEntry>> {
        let skip = position.checked_sub(self.start)?;
        (skip <= self.log.len() as u64).then(|| self.log.iter().skip(skip as usize))
    }
}
