//! The resources of one fleet and the log of how they came to be so.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use crate::{Resource, ResourceKey, ResourceType};

/// A resource that is new, different (`Some`) or gone (`None`).
#[derive(Clone, Debug)]
pub struct Change {
    /// What changes
    pub key: ResourceKey,
    /// What stands under the key from now on
    pub resource: Option<Arc<Resource>>,
}

/// One step of the log: what stood under the key before.
#[derive(Clone, Debug)]
pub struct LogEntry {
    /// What changed
    pub key: ResourceKey,
    /// What stood under the key until then
    pub before: Option<Arc<Resource>>,
}

/// All resources of a fleet. One [with a log](Snapshot::with_log) remembers the most recent changes too: a reader that remembers
/// [`Snapshot::position`] finds out what has changed since in O(changes).
#[derive(Debug, Default)]
pub struct Snapshot {
    resources: BTreeMap<ResourceKey, Arc<Resource>>,
    /// `None`: nobody reads what has changed, and what was replaced need not be kept for them
    log: Option<VecDeque<LogEntry>>,
    /// Position of the first entry in `log`
    start: u64,
    held: usize,
}

impl Snapshot {
    /// Entries kept in the log. A reader must not fall further behind.
    pub const LOG_LIMIT: usize = 8_192;

    /// An empty snapshot that keeps a log.
    #[must_use]
    pub fn with_log() -> Self {
        Self::with_log_from(0)
    }

    /// An empty snapshot whose log begins at this position.
    #[must_use]
    pub fn with_log_from(start: u64) -> Self {
        Self { log: Some(VecDeque::new()), start, ..Self::default() }
    }

    /// Puts changes in force; changes that change nothing (same version) are dropped. Returns how many were none of these.
    pub fn apply(&mut self, changes: impl IntoIterator<Item = Change>) -> usize {
        let mut applied = 0;
        for Change { key, resource } in changes {
            let before = match &resource {
                Some(new) => {
                    let same = |old: &Arc<Resource>| old.version == new.version && old.is_held() == new.is_held();
                    if self.resources.get(&key).is_some_and(same) {
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
            self.held += usize::from(resource.is_some_and(|new| new.is_held()));
            if let Some(old) = &before {
                self.held -= usize::from(old.is_held());
                old.body.forget_encoding();
            }
            if let Some(log) = &mut self.log {
                log.push_back(LogEntry { key, before });
            }
            applied += 1;
        }
        let length = self.log.as_ref().map_or(0, VecDeque::len);
        self.forget_before(self.start + length.saturating_sub(Self::LOG_LIMIT) as u64);
        applied
    }

    /// Drops the log before `position`, which no reader needs any more. An entry keeps alive what it replaced: for a table of
    /// thousands of rules, or the endpoints of a large Service, thousands of entries are gigabytes.
    pub fn forget_before(&mut self, position: u64) {
        let Some(log) = &mut self.log else { return };
        let count = usize::try_from(position.saturating_sub(self.start)).unwrap_or(usize::MAX).min(log.len());
        log.drain(..count);
        self.start += count as u64;
    }

    /// The resource under `key`.
    #[must_use]
    pub fn get(&self, key: &ResourceKey) -> Option<&Arc<Resource>> {
        self.resources.get(key)
    }

    /// All resources, by type and name.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Resource>> {
        self.resources.values()
    }

    /// All resources of one type, by name.
    pub fn of_kind(&self, kind: ResourceType) -> impl Iterator<Item = &Arc<Resource>> {
        let first = ResourceKey { kind, name: Arc::from("") };
        self.resources.range(first..).take_while(move |(key, _)| key.kind == kind).map(|(_, resource)| resource)
    }

    /// How many resources are held.
    #[must_use]
    pub const fn held(&self) -> usize {
        self.held
    }

    /// How many resources there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.resources.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.resources.is_empty()
    }

    /// Position behind the last log entry.
    #[must_use]
    pub fn position(&self) -> u64 {
        self.start + self.log.as_ref().map_or(0, VecDeque::len) as u64
    }

    /// The entries since `position`, oldest first; `None` when the log no longer reaches back so far, or there is none.
    #[must_use]
    pub fn since(&self, position: u64) -> Option<impl Iterator<Item = &LogEntry>> {
        let log = self.log.as_ref()?;
        let skip = usize::try_from(position.checked_sub(self.start)?).ok()?;
        (skip <= log.len()).then(|| log.iter().skip(skip))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Body, Content, Version};

    fn resource(name: &str, version: u128, content: Content) -> Arc<Resource> {
        Arc::new(Resource {
            key: ResourceKey::new(ResourceType::Secret, name),
            version: Version(version),
            body: Body::new(content),
            references: Arc::from([]),
            origins: Arc::from([]),
        })
    }

    fn set(name: &str, version: u128) -> Change {
        let resource = resource(name, version, Content::Message(bytes::Bytes::new()));
        Change { key: resource.key.clone(), resource: Some(resource) }
    }

    #[test]
    fn the_log_holds_what_stood_there_before() {
        let mut snapshot = Snapshot::with_log();
        assert_eq!(snapshot.apply([set("a", 1), set("b", 1)]), 2);
        let position = snapshot.position();
        assert_eq!(snapshot.apply([set("a", 1)]), 0, "an equal version is no change");
        let gone = Change { key: ResourceKey::new(ResourceType::Secret, "b"), resource: None };
        assert_eq!(snapshot.apply([set("a", 2), gone.clone(), gone]), 2);
        let since: Vec<_> = snapshot
            .since(position)
            .unwrap()
            .map(|entry| (entry.key.name.to_string(), entry.before.as_ref().map(|old| old.version.0)))
            .collect();
        assert_eq!(since, [("a".to_string(), Some(1)), ("b".to_string(), Some(1))]);
        assert_eq!(snapshot.since(snapshot.position()).unwrap().count(), 0);
        assert!(snapshot.since(snapshot.position() + 1).is_none());
    }

    #[test]
    fn a_reader_too_far_behind_is_told_so() {
        let mut snapshot = Snapshot::with_log();
        for version in 0..=Snapshot::LOG_LIMIT as u128 {
            snapshot.apply([set("a", version)]);
        }
        assert!(snapshot.since(0).is_none());
        assert_eq!(snapshot.since(1).unwrap().count(), Snapshot::LOG_LIMIT);
        snapshot.forget_before(3);
        assert!(snapshot.since(2).is_none());
        assert_eq!(snapshot.since(3).unwrap().count(), Snapshot::LOG_LIMIT - 2);
        let position = snapshot.position();
        snapshot.forget_before(u64::MAX);
        assert_eq!((snapshot.position(), snapshot.since(position).unwrap().count()), (position, 0));
    }

    #[test]
    fn what_was_replaced_is_let_go_of_where_nobody_reads_the_log() {
        let mut snapshot = Snapshot::default();
        let first = set("a", 1);
        let replaced = Arc::downgrade(first.resource.as_ref().unwrap());
        snapshot.apply([first]);
        assert_eq!((snapshot.apply([set("a", 2)]), replaced.strong_count()), (1, 0));
        assert!(snapshot.since(0).is_none());
    }

    #[test]
    fn held_is_a_change_of_its_own_and_counted() {
        let mut snapshot = Snapshot::default();
        snapshot.apply([set("a", 1)]);
        let held = resource("a", 1, Content::Held);
        assert_eq!(snapshot.apply([Change { key: held.key.clone(), resource: Some(held) }]), 1);
        assert_eq!(snapshot.held(), 1);
        snapshot.apply([set("a", 1)]);
        assert_eq!(snapshot.held(), 0);
    }

    #[test]
    fn one_type_is_listed_by_name() {
        let mut snapshot = Snapshot::default();
        snapshot.apply([set("b", 1), set("a", 1)]);
        let names: Vec<_> =
            snapshot.of_kind(ResourceType::Secret).map(|resource| resource.key.name.to_string()).collect();
        assert_eq!(names, ["a", "b"]);
        assert_eq!(snapshot.of_kind(ResourceType::Endpoints).count(), 0);
    }
}
