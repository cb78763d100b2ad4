//! What of the kinds that are read is installed, as the watches tell it, for the status of classes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use portolan_kubernetes::watch::LIMIT;
use portolan_kubernetes::{Bundle, KindState};
use portolan_model::Kind;
use portolan_model::ir::Installed;

/// What has been told.
#[derive(Debug, Default)]
pub struct Installation {
    crds: Option<BTreeMap<Kind, Option<Bundle>>>,
    kinds: BTreeMap<Kind, KindState>,
    /// Since when kinds are failing. A watch that breaks is back in a moment, most of the time
    failing: BTreeMap<Kind, Instant>,
    /// As it was when it was asked for last
    told: Option<Arc<Installed>>,
}

impl Installation {
    pub fn crds(&mut self, crds: BTreeMap<Kind, Option<Bundle>>) {
        self.crds = Some(crds);
    }

    pub fn kind(&mut self, kind: Kind, state: KindState, now: Instant) {
        if matches!(state, KindState::Failing(_)) {
            self.failing.entry(kind).or_insert(now);
        } else {
            self.failing.remove(&kind);
        }
        self.kinds.insert(kind, state);
    }

    /// As it is now, where it differs from what it was.
    pub fn news(&mut self, now: Instant) -> Option<Arc<Installed>> {
        let installed = self.installed(now);
        if self.told.as_deref() == Some(&installed) {
            return None;
        }
        let installed = Arc::new(installed);
        self.told = Some(Arc::clone(&installed));
        Some(installed)
    }

    fn installed(&self, now: Instant) -> Installed {
        let mut installed = Installed { crds: self.crds.clone(), ..Installed::default() };
        for (kind, state) in &self.kinds {
            match state {
                KindState::Served(_) => {}
                KindState::Absent => _ = installed.absent.insert(*kind),
                KindState::Denied(words) => _ = installed.denied.insert(*kind, Arc::clone(words)),
                KindState::Failing(words) => {
                    if self.failing.get(kind).is_some_and(|since| now.duration_since(*since) >= LIMIT) {
                        installed.failing.insert(*kind, Arc::clone(words));
                    }
                }
            }
        }
        installed
    }

    /// How long until time alone makes it another.
    pub fn until_due(&self, now: Instant) -> Option<Duration> {
        let due = self.failing.values().map(|since| *since + LIMIT).filter(|due| *due > now).min();
        due.map(|due| due.duration_since(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_that_fails_is_told_after_a_while_and_one_that_is_denied_at_once() {
        let start = Instant::now();
        let mut installation = Installation::default();
        let fails = || KindState::Failing("refused".into());
        installation.kind(Kind::HTTPRoute, fails(), start);
        installation.kind(Kind::Backend, KindState::Absent, start);
        installation.kind(Kind::TCPRoute, KindState::Denied("no".into()), start);
        installation.kind(Kind::HTTPRoute, fails(), start + LIMIT / 2);
        let soon = installation.installed(start);
        assert!(soon.failing.is_empty() && soon.absent.contains(&Kind::Backend) && soon.crds.is_none());
        assert_eq!(&*soon.denied[&Kind::TCPRoute], "no");
        assert_eq!(installation.until_due(start + LIMIT / 2), Some(LIMIT / 2), "since it began");
        let later = start + LIMIT;
        assert_eq!(&*installation.installed(later).failing[&Kind::HTTPRoute], "refused");
        assert_eq!(installation.until_due(later), None);
        installation.kind(Kind::HTTPRoute, KindState::Served("v1".into()), later);
        assert!(installation.installed(later).failing.is_empty());
    }
}
