//! What this replica's own proxies have said, as a report.

use std::sync::Arc;

use portolan_engine::Refused;
use portolan_fleet::gateway_of;
use portolan_xds::Transition;

use super::{MOST_REFUSALS, Refusal, Report};

/// This replica's report while it is being kept.
#[derive(Debug, Default)]
pub struct Own {
    report: Report,
}

impl Own {
    /// The report as it stands.
    #[must_use]
    pub const fn report(&self) -> &Report {
        &self.report
    }

    /// A proxy of a Gateway has accepted its listeners, as `portolan_fleet::Heard` finds.
    pub fn programmed(&mut self, uid: &Arc<str>) {
        self.report.programmed.insert(Arc::clone(uid));
    }

    /// Takes note of what a proxy said; `uid` is that of the fleet's Gateway, if there is one.
    pub fn hear(&mut self, transition: &Transition, uid: Option<&Arc<str>>) {
        match (transition, uid) {
            (Transition::StreamOpened { .. }, Some(uid)) => {
                self.report.connected.insert(Arc::clone(uid));
            }
            (Transition::StreamClosed { remaining: 0, .. }, Some(uid)) => {
                self.report.connected.remove(uid);
            }
            (Transition::Refused { fleet, key, version: Some(version), part, origins, text }, _) => {
                let refusal = Refusal::new(&gateway_of(fleet), key, *version, part, origins, text);
                let is_known = self.report.refusals.iter().any(|known| known.is_same(&refusal));
                // Beyond so many nobody reads them; each replica's own proxies are told all the same.
                if !is_known && self.report.refusals.len() < MOST_REFUSALS {
                    self.report.refusals.insert(refusal);
                }
            }
            (Transition::RefusalCleared { fleet, key }, _) if key.kind == portolan_proto::ResourceType::Listener => {
                let gateway = gateway_of(fleet);
                self.report.refusals.retain(|one| one.gateway() != gateway || one.key().as_ref() != Some(key));
            }
            _ => {}
        }
    }

    /// Drops what the objects do not call for any more. To be asked after each batch of the engine that has been told of all refusals;
    /// `counts` is whether the engine still has one.
    pub fn keep(&mut self, mut counts: impl FnMut(&Refused) -> bool) {
        self.report.refusals.retain(|refusal| refusal.refused().iter().any(&mut counts));
    }

    /// Forgets Gateways that are gone.
    pub fn gone(&mut self, uid: &str) {
        self.report.programmed.remove(uid);
        self.report.connected.remove(uid);
    }
}
