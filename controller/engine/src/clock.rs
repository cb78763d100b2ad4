//! The time as it was told, and the instants that nodes wait for.

use std::collections::BTreeSet;
use std::ops::Bound::{Excluded, Included};

use crate::node::Read;

/// Nothing but an instant that somebody has asked about and that lies between the old time and the new one makes a difference, so a
/// tick costs nothing unless one has come (or, when a clock is set back, is yet to come again).
pub struct Clock {
    now: i64,
    instants: BTreeSet<i64>,
}

impl Clock {
    /// Before the time is told for the first time no instant has come.
    pub const fn new() -> Self {
        Self { now: i64::MIN, instants: BTreeSet::new() }
    }

    pub const fn has_come(&self, instant: i64) -> bool {
        instant <= self.now
    }

    /// Puts a time in force. Returns what reads differently now.
    pub fn set(&mut self, now: i64) -> Vec<Read> {
        let changed = self.between(now).map(Read::Instant).collect();
        self.now = now;
        changed
    }

    /// The instants that have come at one of the two times and not at the other.
    pub fn between(&self, now: i64) -> impl Iterator<Item = i64> {
        let (earlier, later) = (self.now.min(now), self.now.max(now));
        self.instants.range((Excluded(earlier), Included(later))).copied()
    }

    /// The next instant that makes a difference.
    pub fn due(&self) -> Option<i64> {
        self.instants.range((Excluded(self.now), Included(i64::MAX))).next().copied()
    }

    pub fn watch(&mut self, instant: i64) {
        self.instants.insert(instant);
    }

    pub fn unwatch(&mut self, instant: i64) {
        self.instants.remove(&instant);
    }

    pub fn watched(&self) -> usize {
        self.instants.len()
    }
}
