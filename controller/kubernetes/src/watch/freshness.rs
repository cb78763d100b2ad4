//! How fresh a replica's view is: since when a watch has been broken. Pure; [`Freshness`] is the shared form of it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use portolan_model::Kind;

use super::wire::Scope;

/// From then on a replica whose watch is broken only helps: it takes nothing away and changes nothing.
pub const LIMIT: Duration = Duration::from_secs(30);

/// What each watch was last known to be. Cheap to share and to ask.
#[derive(Clone, Debug, Default)]
pub struct Freshness(Arc<Mutex<Watches>>);

#[derive(Debug, Default)]
struct Watches {
    scopes: BTreeMap<Scope, Health>,
    /// Since when the API server has not answered at all
    unanswered: Option<Instant>,
}

#[derive(Debug)]
struct Health {
    /// Whether it ever worked: what was never known cannot become stale (readiness speaks of it)
    worked: bool,
    /// Since when it does not
    broken: Option<Instant>,
    /// The last event, bookmark, list or opening
    heard: Instant,
}

impl Freshness {
    /// The kinds of which a watch has been broken for more than [`LIMIT`], and for how long. Empty: this replica knows what is going on.
    #[must_use]
    pub fn stale(&self, now: Instant) -> BTreeMap<Kind, Duration> {
        let mut stale: BTreeMap<Kind, Duration> = BTreeMap::new();
        self.with(|watches| {
            for (scope, health) in watches.scopes.iter().filter(|(_, health)| health.worked) {
                let broken = match (health.broken, watches.unanswered) {
                    (Some(one), Some(other)) => Some(one.min(other)),
                    (one, other) => one.or(other),
                };
                let age = broken.map_or(Duration::ZERO, |since| now.saturating_duration_since(since));
                if age > LIMIT {
                    let longest = stale.entry(scope.kind).or_default();
                    *longest = age.max(*longest);
                }
            }
        });
        stale
    }

    /// By kind, how long ago the watch that was silent for longest has said something.
    #[must_use]
    pub fn ages(&self, now: Instant) -> BTreeMap<Kind, Duration> {
        let mut ages: BTreeMap<Kind, Duration> = BTreeMap::new();
        self.with(|watches| {
            for (scope, health) in &watches.scopes {
                let oldest = ages.entry(scope.kind).or_default();
                *oldest = now.saturating_duration_since(health.heard).max(*oldest);
            }
        });
        ages
    }

    /// A watch is about to start.
    pub(crate) fn opened(&self, scope: &Scope, now: Instant) {
        let health = || Health { worked: false, broken: None, heard: now };
        self.with(|watches| watches.scopes.entry(scope.clone()).or_insert_with(health).heard = now);
    }

    /// There is none any more.
    pub(crate) fn closed(&self, scope: &Scope) {
        self.with(|watches| watches.scopes.remove(scope));
    }

    pub(crate) fn alive(&self, scope: &Scope, now: Instant) {
        self.with(|watches| {
            if let Some(health) = watches.scopes.get_mut(scope) {
                *health = Health { worked: true, broken: None, heard: now };
            }
        });
    }

    pub(crate) fn broken(&self, scope: &Scope, now: Instant) {
        self.with(|watches| {
            if let Some(health) = watches.scopes.get_mut(scope).filter(|health| health.worked) {
                health.broken.get_or_insert(now);
            }
        });
    }

    /// The API server was asked something at `asked`, and answered or not: a connection that hangs says nothing by itself.
    pub(crate) fn probed(&self, answered: bool, asked: Instant) {
        self.with(|watches| {
            watches.unanswered = if answered { None } else { watches.unanswered.or(Some(asked)) };
        });
    }

    fn with<T>(&self, act: impl FnOnce(&mut Watches) -> T) -> T {
        // Every change is one assignment: whoever panicked left nothing half done.
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scope(kind: Kind) -> Scope {
        Scope { kind, namespace: None, name: None }
    }

    #[test]
    fn a_watch_is_stale_when_it_has_been_broken_for_more_than_the_limit() {
        let (freshness, start) = (Freshness::default(), Instant::now());
        let second = Duration::from_secs(1);
        for kind in [Kind::Service, Kind::Gateway] {
            freshness.opened(&scope(kind), start);
            freshness.alive(&scope(kind), start);
        }
        freshness.broken(&scope(Kind::Service), start);
        freshness.broken(&scope(Kind::Service), start + 20 * second);
        assert!(freshness.stale(start + LIMIT).is_empty());
        let stale = freshness.stale(start + LIMIT + second);
        assert_eq!(stale, BTreeMap::from([(Kind::Service, LIMIT + second)]), "since the first break, that kind alone");
        freshness.alive(&scope(Kind::Service), start + LIMIT + second);
        assert!(freshness.stale(start + 2 * LIMIT).is_empty());
        assert_eq!(freshness.ages(start + 2 * LIMIT)[&Kind::Gateway], 2 * LIMIT);
    }

    #[test]
    fn a_server_that_does_not_answer_makes_everything_stale_though_no_watch_has_broken() {
        let (freshness, start) = (Freshness::default(), Instant::now());
        let second = Duration::from_secs(1);
        freshness.opened(&scope(Kind::Service), start);
        freshness.alive(&scope(Kind::Service), start);
        freshness.probed(false, start + second);
        freshness.probed(false, start + 11 * second);
        assert!(!freshness.stale(start + LIMIT + 2 * second).is_empty());
        freshness.probed(true, start + LIMIT + 3 * second);
        assert!(freshness.stale(start + LIMIT + 4 * second).is_empty());
    }
}
