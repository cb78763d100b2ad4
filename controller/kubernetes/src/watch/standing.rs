//! How every kind stands, from how its watches do; and when all of them have been read once. Pure.

use std::collections::BTreeMap;
use std::sync::Arc;

use portolan_model::Kind;

use super::discovery::Availability;
use super::follow::Trouble;
use super::wire::Scope;
use crate::KindState;

/// How one watch stands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Standing {
    /// Once is enough: what it said last stands as long as nothing else is known
    listed: bool,
    trouble: Option<Trouble>,
}

/// The watches of all kinds.
#[derive(Debug, Default)]
pub(crate) struct Standings {
    /// Empty until discovery has answered
    available: BTreeMap<Kind, Availability>,
    scopes: BTreeMap<Scope, Standing>,
    told: BTreeMap<Kind, KindState>,
    synced: bool,
    /// Why discovery does not answer
    trouble: Option<Arc<str>>,
}

/// A kind without which the world may still be complete: it only adds, and what refers to it fails closed.
const fn only_adds(kind: Kind) -> bool {
    matches!(kind, Kind::Backend | Kind::EnvoyProxy)
}

impl Standings {
    /// Discovery has answered.
    pub fn discovered(&mut self, available: &BTreeMap<Kind, Availability>) {
        self.available.clone_from(available);
        self.trouble = None;
    }

    /// It has not.
    pub fn undiscovered(&mut self, trouble: &Trouble) {
        self.trouble = Some(text(trouble));
    }

    pub fn opened(&mut self, scope: &Scope) {
        self.scopes.entry(scope.clone()).or_default();
    }

    pub fn closed(&mut self, scope: &Scope) {
        self.scopes.remove(scope);
    }

    pub fn listed(&mut self, scope: &Scope) {
        if let Some(standing) = self.scopes.get_mut(scope) {
            *standing = Standing { listed: true, trouble: None };
        }
    }

    pub fn alive(&mut self, scope: &Scope) {
        if let Some(standing) = self.scopes.get_mut(scope) {
            standing.trouble = None;
        }
    }

    pub fn broken(&mut self, scope: &Scope, trouble: Trouble) {
        if let Some(standing) = self.scopes.get_mut(scope) {
            standing.trouble = Some(trouble);
        }
    }

    /// Whether the watch of an object by name has been read, or cannot be.
    pub fn is_settled(&self, scope: &Scope) -> bool {
        self.scopes.get(scope).is_some_and(|standing| standing.listed || standing.trouble.is_some())
    }

    /// The kinds whose state is another one than told before.
    pub fn news(&mut self) -> Vec<(Kind, KindState)> {
        let mut news = Vec::new();
        for kind in Kind::ALL {
            if let Some(state) = self.state(kind)
                && self.told.get(&kind) != Some(&state)
            {
                self.told.insert(kind, state.clone());
                news.push((kind, state));
            }
        }
        news
    }

    /// Whether now, for the first time, every kind has been read or need not be.
    pub fn becomes_synced(&mut self) -> bool {
        let becomes = !self.synced && Kind::ALL.into_iter().all(|kind| self.is_ready(kind));
        self.synced |= becomes;
        becomes
    }

    /// `None`: not known yet
    fn state(&self, kind: Kind) -> Option<KindState> {
        let version = match (self.available.get(&kind), &self.trouble) {
            (Some(Availability::Served(version)), _) => version,
            (Some(Availability::Absent), _) => return Some(KindState::Absent),
            (None, Some(trouble)) => return Some(KindState::Failing(trouble.clone())),
            (None, None) => return None,
        };
        let troubles = || self.of(kind).filter_map(|standing| standing.trouble.as_ref());
        if let Some(denied) = troubles().find(|trouble| matches!(trouble, Trouble::Denied(_))) {
            Some(KindState::Denied(text(denied)))
        } else if let Some(failing) = troubles().next() {
            Some(KindState::Failing(text(failing)))
        } else {
            self.of(kind).all(|standing| standing.listed).then(|| KindState::Served(version.clone()))
        }
    }

    fn is_ready(&self, kind: Kind) -> bool {
        match self.available.get(&kind) {
            None => false,
            Some(Availability::Absent) => true,
            Some(Availability::Served(_)) => {
                self.of(kind).all(|standing| standing.listed || only_adds(kind) && standing.trouble.is_some())
            }
        }
    }

    fn of(&self, kind: Kind) -> impl Iterator<Item = &Standing> {
        self.scopes.iter().filter(move |(scope, _)| scope.kind == kind).map(|(_, standing)| standing)
    }
}

fn text(trouble: &Trouble) -> Arc<str> {
    let (Trouble::Missing(text) | Trouble::Denied(text) | Trouble::Failed(text)) = trouble;
    Arc::from(text.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scope(kind: Kind) -> Scope {
        Scope { kind, namespace: None, name: None }
    }

    fn all_listed_but(missing: Kind) -> Standings {
        let mut standings = Standings::default();
        let served = |kind| (kind, Availability::Served("v1".into()));
        standings.discovered(&Kind::ALL.into_iter().map(served).collect());
        for kind in Kind::ALL {
            standings.opened(&scope(kind));
            if kind != missing {
                standings.listed(&scope(kind));
            }
        }
        standings
    }

    #[test]
    fn a_core_kind_that_is_denied_holds_everything_back_and_one_that_only_adds_does_not() {
        for kind in Kind::ALL {
            let mut standings = all_listed_but(kind);
            assert!(!standings.becomes_synced(), "{kind} is not listed");
            standings.broken(&scope(kind), Trouble::Denied("no".to_owned()));
            assert_eq!(standings.becomes_synced(), only_adds(kind), "{kind} is denied");
            assert!(standings.news().contains(&(kind, KindState::Denied("no".into()))));
        }
    }

    #[test]
    fn an_absent_kind_is_ready() {
        let mut standings = all_listed_but(Kind::TCPRoute);
        standings.closed(&scope(Kind::TCPRoute));
        let mut available = standings.available.clone();
        available.insert(Kind::TCPRoute, Availability::Absent);
        standings.discovered(&available);
        assert!(standings.becomes_synced());
        assert!(!standings.becomes_synced(), "once");
        assert!(standings.news().contains(&(Kind::TCPRoute, KindState::Absent)));
        assert!(standings.news().is_empty(), "what was told is not told again");
    }

    #[test]
    fn nothing_is_known_before_discovery_has_answered() {
        let mut standings = Standings::default();
        assert!(standings.news().is_empty() && !standings.becomes_synced());
        standings.undiscovered(&Trouble::Failed("connection refused".to_owned()));
        assert_eq!(standings.news().len(), Kind::ALL.len());
        assert!(!standings.becomes_synced());
    }
}
