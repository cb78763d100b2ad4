//! How fresh a replica's view is: since when a watch has been broken. Pure; [`Freshness`] is the shared form of it.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use portolan_model::{Kind, Name};
use tokio::sync::watch;

use super::wire::Scope;

/// From then on a replica whose watch is broken only helps: it takes nothing away and changes nothing.
pub const LIMIT: Duration = Duration::from_secs(30);

/// What is followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Followed {
    /// A kind that is read
    Kind(Kind),
    /// A kind of what Portolan has made
    Made(&'static str),
}

impl fmt::Display for Followed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kind(kind) => f.write_str(kind.as_str()),
            Self::Made(kind) => write!(f, "{kind} of fleets"),
        }
    }
}

/// One watch.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum One {
    Scope(Scope),
    /// A kind, and in which namespace
    Made(&'static str, Option<Name>),
}

impl One {
    const fn followed(&self) -> Followed {
        match self {
            Self::Scope(scope) => Followed::Kind(scope.kind),
            Self::Made(kind, _) => Followed::Made(kind),
        }
    }
}

/// What each watch was last known to be. Cheap to share and to ask.
#[derive(Clone, Debug, Default)]
pub struct Freshness(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    watches: Mutex<Watches>,
    /// Rings when watches are to be opened anew
    again: watch::Sender<()>,
}

#[derive(Debug, Default)]
struct Watches {
    all: BTreeMap<One, Health>,
    /// The first and the last question that the API server has not answered
    unanswered: Option<(Instant, Instant)>,
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
    /// That of which a watch has been broken for more than [`LIMIT`], and for how long. Empty: this replica knows what is going on.
    #[must_use]
    pub fn stale(&self, now: Instant) -> BTreeMap<Followed, Duration> {
        let mut stale: BTreeMap<Followed, Duration> = BTreeMap::new();
        self.with(|watches| {
            for (one, health) in watches.all.iter().filter(|(_, health)| health.worked) {
                let unanswered = watches.unanswered.map(|(first, _)| first);
                let broken = match (health.broken, unanswered) {
                    (Some(one), Some(other)) => Some(one.min(other)),
                    (one, other) => one.or(other),
                };
                let age = broken.map_or(Duration::ZERO, |since| now.saturating_duration_since(since));
                if age > LIMIT {
                    let longest = stale.entry(one.followed()).or_default();
                    *longest = age.max(*longest);
                }
            }
        });
        stale
    }

    /// How long ago the watch that was silent for longest has said something.
    #[must_use]
    pub fn ages(&self, now: Instant) -> BTreeMap<Followed, Duration> {
        let mut ages: BTreeMap<Followed, Duration> = BTreeMap::new();
        self.with(|watches| {
            for (one, health) in &watches.all {
                let oldest = ages.entry(one.followed()).or_default();
                *oldest = now.saturating_duration_since(health.heard).max(*oldest);
            }
        });
        ages
    }

    /// A watch is about to start.
    pub(crate) fn opened(&self, scope: &Scope, now: Instant) {
        self.begin(One::Scope(scope.clone()), now);
    }

    /// There is none any more.
    pub(crate) fn closed(&self, scope: &Scope) {
        self.with(|watches| watches.all.remove(&One::Scope(scope.clone())));
    }

    pub(crate) fn alive(&self, scope: &Scope, now: Instant) {
        self.works(&One::Scope(scope.clone()), now);
    }

    pub(crate) fn broken(&self, scope: &Scope, now: Instant) {
        self.breaks(&One::Scope(scope.clone()), now);
    }

    /// The watch of a kind of what Portolan has made.
    pub(crate) fn made(&self, kind: &'static str, namespace: Option<Name>) -> OfMade {
        let one = One::Made(kind, namespace);
        self.begin(one.clone(), Instant::now());
        OfMade { freshness: self.clone(), one }
    }

    /// The API server was asked something at `asked`, and answered or not: a connection that hangs says nothing by itself.
    ///
    /// When it answers again after it did not for longer than the limit, a watch is not yet as fresh as that answer: what the server had to say
    /// meanwhile may still be on its way. It counts once the watch has said something, or been opened anew, since the last question without
    /// an answer; those that have not are opened anew.
    pub(crate) fn probed(&self, answered: bool, asked: Instant) {
        let are_silent = self.with(|watches| {
            if !answered {
                watches.unanswered.get_or_insert((asked, asked)).1 = asked;
            } else if let Some((first, last)) = watches.unanswered.take()
                && asked.saturating_duration_since(first) > LIMIT
            {
                let mut are_silent = false;
                for health in watches.all.values_mut().filter(|health| health.worked && health.heard < last) {
                    health.broken.get_or_insert(first);
                    are_silent = true;
                }
                return are_silent;
            }
            false
        });
        if are_silent {
            self.0.again.send_replace(());
        }
    }

    /// Rings when watches are to be opened anew.
    pub(crate) fn again(&self) -> watch::Receiver<()> {
        self.0.again.subscribe()
    }

    fn begin(&self, one: One, now: Instant) {
        let health = || Health { worked: false, broken: None, heard: now };
        self.with(|watches| watches.all.entry(one).or_insert_with(health).heard = now);
    }

    fn works(&self, one: &One, now: Instant) {
        self.with(|watches| {
            if let Some(health) = watches.all.get_mut(one) {
                *health = Health { worked: true, broken: None, heard: now };
            }
        });
    }

    fn breaks(&self, one: &One, now: Instant) {
        self.with(|watches| {
            if let Some(health) = watches.all.get_mut(one).filter(|health| health.worked) {
                health.broken.get_or_insert(now);
            }
        });
    }

    fn with<T>(&self, act: impl FnOnce(&mut Watches) -> T) -> T {
        // Every change is one assignment: whoever panicked left nothing half done.
        act(&mut self.0.watches.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The freshness of one kind of what Portolan has made.
pub(crate) struct OfMade {
    freshness: Freshness,
    one: One,
}

impl OfMade {
    pub fn alive(&self) {
        self.freshness.works(&self.one, Instant::now());
    }

    pub fn broken(&self) {
        self.freshness.breaks(&self.one, Instant::now());
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
        assert_eq!(
            stale,
            BTreeMap::from([(Followed::Kind(Kind::Service), LIMIT + second)]),
            "since the first break, that kind alone"
        );
        freshness.alive(&scope(Kind::Service), start + LIMIT + second);
        assert!(freshness.stale(start + 2 * LIMIT).is_empty());
        assert_eq!(freshness.ages(start + 2 * LIMIT)[&Followed::Kind(Kind::Gateway)], 2 * LIMIT);
    }

    #[test]
    fn a_server_that_does_not_answer_makes_everything_stale_though_no_watch_has_broken() {
        let (freshness, start) = (Freshness::default(), Instant::now());
        let second = Duration::from_secs(1);
        freshness.opened(&scope(Kind::Service), start);
        freshness.alive(&scope(Kind::Service), start);
        let again = freshness.again();
        freshness.probed(false, start + second);
        freshness.probed(false, start + 11 * second);
        assert!(!freshness.stale(start + LIMIT + 2 * second).is_empty());
        let back = start + LIMIT + 3 * second;
        freshness.probed(true, back);
        assert!(!freshness.stale(back).is_empty(), "what it had to say meanwhile has not arrived");
        assert!(again.has_changed().unwrap(), "so it is opened anew");
        freshness.alive(&scope(Kind::Service), back + second);
        assert!(freshness.stale(back + 2 * second).is_empty());
    }

    /// As after a restart of the API server: connections end, so watches are opened anew, before the next question is asked.
    #[test]
    fn a_watch_that_is_back_before_the_answer_is_fresh() {
        let (freshness, start) = (Freshness::default(), Instant::now());
        let second = Duration::from_secs(1);
        freshness.opened(&scope(Kind::Service), start);
        freshness.alive(&scope(Kind::Service), start);
        freshness.broken(&scope(Kind::Service), start);
        for question in 0..5 {
            freshness.probed(false, start + 10 * question * second);
        }
        freshness.alive(&scope(Kind::Service), start + 45 * second);
        assert!(!freshness.stale(start + 46 * second).is_empty(), "for all that it has heard");
        freshness.probed(true, start + 50 * second);
        assert!(freshness.stale(start + 50 * second).is_empty());
    }

    #[test]
    fn an_answer_that_was_late_once_makes_nothing_stale() {
        let (freshness, start) = (Freshness::default(), Instant::now());
        freshness.opened(&scope(Kind::Service), start);
        freshness.alive(&scope(Kind::Service), start);
        freshness.probed(false, start + LIMIT);
        freshness.probed(true, start + LIMIT + Duration::from_secs(10));
        assert!(freshness.stale(start + 3 * LIMIT).is_empty());
    }

    #[test]
    fn what_portolan_has_made_is_followed_too() {
        let (freshness, start) = (Freshness::default(), Instant::now());
        let made = freshness.made("Service", None);
        made.broken();
        assert!(freshness.stale(start + 2 * LIMIT).is_empty(), "what was never known cannot become stale");
        made.alive();
        made.broken();
        let stale = freshness.stale(start + 2 * LIMIT);
        assert_eq!(stale.keys().map(ToString::to_string).collect::<Vec<_>>(), ["Service of fleets"]);
    }
}
