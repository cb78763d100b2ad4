//! Who leads: the rules, without a clock or a network. All times are those of this process's monotonic clock, so that steps of wall clocks
//! do not matter, and a process that cannot reach the API server knows when it must stop.
//!
//! * A lease of somebody else has expired when it has not *changed* for its duration, as seen here: times in the lease are never compared
//!   with a clock of this machine (client-go's rule).
//! * A term ends the renew deadline after the last successful renewal was *sent*. The others wait for the whole duration from a later
//!   moment on, so that two lead at once only where clocks run apart by more than duration to deadline (15 to 10).
//! * A process takes over from an earlier one of its pod at once. That one is dead, since a pod has one at a time: whoever starts two with one
//!   name of a pod has two that take the lease from each other.
//! * Every write holds for one version of the lease only.

use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long things take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseOptions {
    /// So long others leave a lease alone that does not change
    pub duration: Duration,
    /// So long a leader leads without a renewal that succeeds
    pub renew_deadline: Duration,
    /// Between renewals, and between looks at another's lease
    pub retry: Duration,
}

impl Default for LeaseOptions {
    fn default() -> Self {
        Self {
            duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry: Duration::from_secs(2),
        }
    }
}

impl LeaseOptions {
    /// What is wrong with them.
    #[must_use]
    pub fn problem(&self) -> Option<String> {
        let Self { duration, renew_deadline, retry } = self;
        if self.renew_deadline >= self.duration {
            return Some(format!(
                "the renew deadline ({renew_deadline:?}) must be shorter than the lease ({duration:?})"
            ));
        }
        if self.retry * 2 > self.renew_deadline {
            return Some(format!(
                "the retry period ({retry:?}) must fit twice into the renew deadline ({renew_deadline:?})"
            ));
        }
        (self.duration < Duration::from_secs(1))
            .then(|| format!("the lease ({duration:?}) must last a second at least"))
    }
}

/// What a lease says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Empty: nobody
    pub holder: Arc<str>,
    pub duration: Duration,
    /// How often it has changed hands
    pub transitions: i32,
}

/// A lease that is there, with its resourceVersion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    pub record: Record,
    pub version: Arc<str>,
}

/// What to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Read the lease
    Read,
    Create(Record),
    /// Replace the lease of this version
    Replace(Record, Arc<str>),
    /// Nothing before this
    Wait(Instant),
}

/// How a write went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Written {
    /// It has this version now
    Done(Arc<str>),
    /// Not done, or nobody knows
    Failed,
}

/// One candidate.
#[derive(Clone, Debug)]
pub struct Elector {
    identity: Arc<str>,
    options: LeaseOptions,
    /// The lease, and since when it has been as it is
    seen: Option<(Option<Seen>, Instant)>,
    must_read: bool,
    /// Not before this: a look or a write has failed
    pause: Option<Instant>,
    next_renewal: Option<Instant>,
    until: Option<Instant>,
}

impl Elector {
    /// `identity` is `POD_PROCESS`, of this process and no other, not even of the next one in the same pod. That one takes over at once: a pod has
    /// one process at a time.
    #[must_use]
    pub fn new(identity: impl Into<Arc<str>>, options: LeaseOptions) -> Self {
        let identity = identity.into();
        Self { identity, options, seen: None, must_read: true, pause: None, next_renewal: None, until: None }
    }

    /// When the term ends, if there is one.
    #[must_use]
    pub fn until(&self, now: Instant) -> Option<Instant> {
        self.until.filter(|until| now < *until)
    }

    /// Something may have happened to the lease.
    pub fn look(&mut self, now: Instant) {
        if self.until(now).is_none() {
            self.must_read = true;
        }
    }

    /// The lease as the API server had it between the request and now.
    pub fn read(&mut self, lease: Option<Seen>, now: Instant) {
        (self.must_read, self.pause) = (false, None);
        if lease.as_ref().is_none_or(|lease| lease.record.holder != self.identity) {
            self.until = None;
        }
        if self.seen.as_ref().is_none_or(|(seen, _)| *seen != lease) {
            self.seen = Some((lease, now));
        }
    }

    /// It could not be read.
    pub fn unreadable(&mut self, now: Instant) {
        self.must_read = true;
        self.pause = Some(now + self.options.retry);
    }

    /// What to do.
    #[must_use]
    pub fn step(&self, now: Instant) -> Action {
        if let Some(pause) = self.pause.filter(|pause| now < *pause) {
            return Action::Wait(pause);
        }
        let Some((lease, since)) = self.seen.as_ref().filter(|_| !self.must_read) else { return Action::Read };
        let Some(Seen { record, version }) = lease else { return Action::Create(self.record(0)) };
        if record.holder == self.identity {
            return match self.next_renewal.filter(|at| now < *at) {
                Some(at) => Action::Wait(at),
                None => Action::Replace(self.record(record.transitions), Arc::clone(version)),
            };
        }
        let expiry = *since + record.duration.max(self.options.duration);
        if record.holder.is_empty() || self.succeeds(&record.holder) || now >= expiry {
            return Action::Replace(self.record(record.transitions.saturating_add(1)), Arc::clone(version));
        }
        Action::Wait(expiry)
    }

    /// Takes note of how the write of a record went that was sent at `sent`.
    pub fn wrote(&mut self, record: Record, written: Written, sent: Instant, now: Instant) {
        match written {
            Written::Done(version) => {
                self.until = Some(sent + self.options.renew_deadline);
                self.next_renewal = Some(sent + self.options.retry);
                self.seen = Some((Some(Seen { record, version }), now));
                self.pause = None;
            }
            Written::Failed => {
                self.must_read = true;
                self.next_renewal = None;
                // Not at once: candidates that fight over a lease would ask without pause.
                self.pause = Some(now + self.options.retry / 8);
            }
        }
    }

    /// Ends the term. What to write so that the next one takes over at once, if the lease is held.
    pub fn release(&mut self) -> Option<(Record, Arc<str>)> {
        self.until = None;
        let (Some(Seen { record, version }), _) = self.seen.take()? else { return None };
        (record.holder == self.identity).then(|| {
            let free = Record { holder: "".into(), duration: Duration::from_secs(1), transitions: record.transitions };
            (free, version)
        })
    }

    /// Whether the holder was an earlier process of this pod, which is dead then: killed, or out of memory.
    fn succeeds(&self, holder: &str) -> bool {
        pod(holder).is_some() && pod(holder) == pod(&self.identity)
    }

    fn record(&self, transitions: i32) -> Record {
        Record { holder: Arc::clone(&self.identity), duration: self.options.duration, transitions }
    }
}

fn pod(identity: &str) -> Option<&str> {
    identity.rsplit_once('_').map(|(pod, _)| pod)
}

#[cfg(test)]
mod tests;
