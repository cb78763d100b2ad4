//! What every status should be, what it was last seen to be, and whose turn it is. Pure: the time comes in as an argument.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use portolan_model::ObjectKey;
use portolan_model::ir::Status;
use serde_json::Value;

use super::patch::{Desired, Digest, Write, desired};
use crate::Meta;
use crate::backoff::growing;
use crate::resource::{has_status, is_older};

/// So often somebody may take away what Portolan wrote before it is written again at longer and longer intervals only.
const QUICK_REASSERTIONS: u32 = 5;
/// So long what a write returned counts more than an older word of the watch.
const WATCH_LAG: Duration = Duration::from_secs(30);
/// So many statuses are compared at a time: whoever brings news waits for that.
const AT_A_TIME: usize = 64;

/// The statuses of all objects.
#[derive(Default)]
pub struct Book {
    entries: BTreeMap<ObjectKey, Entry>,
    ready: VecDeque<ObjectKey>,
    waiting: BTreeSet<(Instant, ObjectKey)>,
}

#[derive(Default)]
struct Entry {
    meta: Option<Meta>,
    wanted: Option<Status>,
    /// By UID, what was last written
    said: Option<(Arc<str>, Digest)>,
    is_queued: bool,
    is_in_flight: bool,
    hold: Hold,
    failures: u32,
    reassertions: u32,
    reassert_after: Option<Instant>,
    written_at: Option<Instant>,
}

#[derive(Default, PartialEq)]
enum Hold {
    #[default]
    None,
    /// The API server knows a newer one than this: the watch will tell
    Stale(Arc<str>),
    Until(Instant),
}

/// One write to make.
#[derive(Clone, Debug)]
pub struct Job {
    pub key: ObjectKey,
    pub meta: Meta,
    pub write: Write,
    said: Digest,
    /// What was known when the write was made up, for the conditions that arise with it
    pub wanted: Option<Status>,
}

/// How a write went.
#[derive(Debug)]
pub enum Outcome {
    Written {
        resource_version: Arc<str>,
        status: Arc<Value>,
    },
    /// The object has changed, or is another one, or is gone: wait for the watch and compute again
    Conflict,
    Failed,
}

/// What to do next.
#[derive(Debug)]
pub enum Next {
    Write(Box<Job>),
    /// Nothing before this
    At(Instant),
    Idle,
}

impl Book {
    /// Takes note of what the API server keeps beside an object's value; `None`: it is gone.
    pub fn observe(&mut self, key: &ObjectKey, meta: Option<Meta>, now: Instant) {
        if !has_status(key.kind) {
            return;
        }
        let Some(meta) = meta else {
            if let Some(entry) = self.entries.get_mut(key) {
                entry.meta = None;
                self.forget_if_gone(key);
            }
            return;
        };
        let entry = self.entries.entry(key.clone()).or_default();
        match &mut entry.meta {
            Some(known) if known.uid == meta.uid => {
                let lags = entry.written_at.is_some_and(|at| now.saturating_duration_since(at) < WATCH_LAG)
                    && is_older(&meta.resource_version, &known.resource_version);
                known.generation = meta.generation;
                known.api_version = meta.api_version;
                if !lags {
                    known.resource_version = meta.resource_version;
                    known.status = meta.status;
                }
            }
            known => {
                *known = Some(meta);
                entry.said = None;
                entry.hold = Hold::None;
                (entry.failures, entry.reassertions, entry.written_at) = (0, 0, None);
            }
        }
        self.queue(key);
    }

    /// Takes note of what an object's status should be; `None`: no concern of Portolan's.
    pub fn want(&mut self, key: &ObjectKey, wanted: Option<Status>) {
        if !has_status(key.kind) {
            return;
        }
        if wanted.is_none() && !self.entries.contains_key(key) {
            return;
        }
        let entry = self.entries.entry(key.clone()).or_default();
        if entry.wanted != wanted {
            entry.wanted = wanted;
            self.forget_if_gone(key);
            self.queue(key);
        }
    }

    /// Compares everything anew: what others wrote while this process did not lead is not known.
    pub fn reconsider(&mut self) {
        for entry in self.entries.values_mut() {
            entry.hold = Hold::None;
            entry.failures = 0;
        }
        self.waiting.clear();
        for key in self.entries.keys().cloned().collect::<Vec<_>>() {
            self.queue(&key);
        }
    }

    /// The next write, by who has waited longest; `time` as conditions write it.
    pub fn next(&mut self, now: Instant, time: &str) -> Next {
        while let Some((at, _)) = self.waiting.first()
            && *at <= now
        {
            if let Some((_, key)) = self.waiting.pop_first() {
                if let Some(entry) = self.entries.get_mut(&key)
                    && matches!(entry.hold, Hold::Until(_))
                {
                    entry.hold = Hold::None;
                }
                self.queue(&key);
            }
        }
        for _ in 0..AT_A_TIME {
            let Some(key) = self.ready.pop_front() else {
                return self.waiting.first().map_or(Next::Idle, |(at, _)| Next::At(*at));
            };
            let Some(entry) = self.entries.get_mut(&key) else { continue };
            entry.is_queued = false;
            if entry.is_in_flight {
                // It is queued again when that one is back.
                continue;
            }
            let Some(meta) = &entry.meta else { continue };
            match &entry.hold {
                Hold::Stale(version) if *version == meta.resource_version => continue,
                Hold::Until(at) if *at > now => continue,
                _ => entry.hold = Hold::None,
            }
            let said = entry.said.as_ref().filter(|(uid, _)| *uid == meta.uid).map(|(_, said)| *said);
            let Some(Desired { write, said: says }) = desired(&key, meta, entry.wanted.as_ref(), said, time) else {
                entry.failures = 0;
                continue;
            };
            if said == Some(says)
                && let Some(at) = entry.reassert_after.filter(|at| *at > now)
            {
                entry.hold = Hold::Until(at);
                self.waiting.insert((at, key));
                continue;
            }
            entry.is_in_flight = true;
            let (meta, wanted) = (meta.clone(), entry.wanted.clone());
            return Next::Write(Box::new(Job { key, meta, write, said: says, wanted }));
        }
        Next::At(now)
    }

    /// Takes note of how a write went.
    pub fn finish(&mut self, job: Job, outcome: Outcome, now: Instant) {
        let Some(entry) = self.entries.get_mut(&job.key) else { return };
        entry.is_in_flight = false;
        if let Some(meta) = entry.meta.as_mut().filter(|meta| meta.uid == job.meta.uid) {
            match outcome {
                Outcome::Written { resource_version, status } => {
                    if !is_older(&resource_version, &meta.resource_version) {
                        meta.resource_version = resource_version;
                        meta.status = status;
                    }
                    entry.failures = 0;
                    entry.written_at = Some(now);
                    let again = entry.said.as_ref().is_some_and(|(_, said)| *said == job.said);
                    entry.reassertions = if again { entry.reassertions.saturating_add(1) } else { 0 };
                    entry.reassert_after =
                        entry.reassertions.checked_sub(QUICK_REASSERTIONS).map(|many| now + growing(many));
                    entry.said = Some((job.meta.uid, job.said));
                }
                Outcome::Conflict => entry.hold = Hold::Stale(job.meta.resource_version),
                Outcome::Failed => {
                    let at = now + growing(entry.failures) / 2;
                    entry.failures = entry.failures.saturating_add(1);
                    entry.hold = Hold::Until(at);
                    self.waiting.insert((at, job.key.clone()));
                }
            }
        }
        self.forget_if_gone(&job.key);
        self.queue(&job.key);
    }

    fn forget_if_gone(&mut self, key: &ObjectKey) {
        let is_gone = |entry: &Entry| entry.meta.is_none() && entry.wanted.is_none() && !entry.is_in_flight;
        if self.entries.get(key).is_some_and(is_gone) {
            self.entries.remove(key);
        }
    }

    fn queue(&mut self, key: &ObjectKey) {
        if let Some(entry) = self.entries.get_mut(key)
            && !entry.is_queued
        {
            entry.is_queued = true;
            self.ready.push_back(key.clone());
        }
    }
}

#[cfg(test)]
mod tests;
