//! The probe on a stream: when it starts, and what becomes of its answers.

use std::sync::Arc;

use bytes::Bytes;
use portolan_proto::{Content, PROBE_TABLE, Resource, ResourceType};

use super::exception::Has;
use super::fleet::Shared;
use super::probe::Probe;
use super::stream::{Stream, key};
use crate::transition::StreamId;

impl Stream {
    /// Whether the culprit in `resource` can be searched for on this stream.
    pub(super) fn can_probe(&self, shared: &Shared, resource: &Resource) -> bool {
        let routes = &self.types[ResourceType::Route];
        matches!(resource.body.content(), Content::Table(_))
            && resource.key.name.as_ref() != PROBE_TABLE
            && routes.subscribed.contains(&shared.names[ResourceType::Route], PROBE_TABLE)
    }

    /// The table to try next, if there is a search on this stream or one that can be begun.
    pub(super) fn trial(&mut self, id: StreamId, shared: &mut Shared) -> Option<Bytes> {
        if self.probe.is_none() {
            self.probe = self.begin_probe(id, shared);
        }
        self.probe.as_ref()?.trial()
    }

    fn begin_probe(&self, id: StreamId, shared: &mut Shared) -> Option<Probe> {
        let routes = &self.types[ResourceType::Route];
        for (name, exception) in &routes.exceptions {
            let Some(refusal) = &exception.refused else { continue };
            let Some(resource) = &refusal.resource else { continue };
            let claimed = self.can_probe(shared, resource)
                && shared.claim_probe(&key(ResourceType::Route, name), resource.version, id);
            if claimed {
                return Probe::new(Arc::clone(resource), exception.has.content(), refusal.text.clone());
            }
        }
        None
    }

    pub(super) fn on_trial(&mut self, id: StreamId, shared: &mut Shared, refusal: Option<String>) {
        let Some(probe) = &mut self.probe else { return };
        let culprits = probe.answer(refusal);
        let resource = Arc::clone(probe.resource());
        shared.events.extend(culprits.into_iter().map(|culprit| culprit.told(&resource)));
        if probe.trial().is_none() {
            self.probe = None;
            shared.end_probe(&resource.key);
            // What was tried last still stands under the probe's name: emptied with the next response.
            let name = Arc::from(PROBE_TABLE);
            let exceptions = &mut self.types[ResourceType::Route].exceptions;
            let exception = super::exception::Exception::new(Has::Unknown(None), u64::MAX);
            exceptions.entry(Arc::clone(&name)).or_insert(exception).has = Has::Unknown(None);
            self.settle(id, shared, ResourceType::Route, &name);
        }
    }
}
