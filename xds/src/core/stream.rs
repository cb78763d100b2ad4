//! One proxy's stream: what it subscribes to and how it differs from the snapshot.
//!
//! This file takes requests in; `plan` decides what goes out, and `cut_off` what of it may.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Instant;

use portolan_proto::envoy::discovery::DeltaDiscoveryRequest;
use portolan_proto::{PROBE_TABLE, Part, ResourceKey, ResourceType, Snapshot, Version};

use super::event::Event;
use super::exception::{Exception, Goal, Has, Refusal, Sent, placeholder_version};
use super::fleet::Shared;
use super::limits::Reset;
use super::names::{Names, Subscribed};
use super::per_type::PerType;
use super::probe::{self, Probe};
use super::retry::Retry;
use super::wire_version;
use crate::transition::StreamId;

/// The name that subscribes to every resource of a type (`xds_protocol`, "How the client specifies what resources to return").
const WILDCARD: &str = "*";

/// How far a stream is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum StreamState {
    /// Something is being sent or waits to be
    Syncing,
    /// The proxy has what the snapshot has
    InStep,
    /// The same but for what it refused
    Refusing,
}

/// One type on one stream.
#[derive(Debug, Default)]
pub(crate) struct TypeState {
    /// Whether the proxy has asked for the type on this stream
    pub(super) seen: bool,
    pub(super) wildcard: bool,
    pub(super) subscribed: Subscribed,
    pub(super) exceptions: BTreeMap<Arc<str>, Exception>,
    /// The responses that have not been answered
    pub(super) outstanding: Vec<Outstanding>,
    /// A first request for all resources is answered even when there are none
    pub(super) answer_due: bool,
    /// Parts of a refused response, to be sent part by part until the culprit stands alone; the next one last
    pub(super) suspects: Vec<Vec<Arc<str>>>,
}

#[derive(Debug)]
pub(crate) struct Outstanding {
    pub(super) nonce: u64,
    pub(super) sent: Instant,
    pub(super) names: Vec<Arc<str>>,
    /// The response carries a trial of the probe
    pub(super) is_trial: bool,
}

#[derive(Debug)]
pub(crate) struct Stream {
    pub(super) types: PerType<TypeState>,
    /// Position of the change log up to which changes are known to the stream
    pub(super) position: u64,
    pub(super) nonce: u64,
    /// Whether the proxy has answered anything. On reconnecting it says what it has in the first requests of all types, which it sends
    /// before its first answer: until then nothing that it may be using is removed
    pub(super) has_answered: bool,
    /// Counts forced re-sends
    pub(super) generation: u32,
    pub(super) probe: Option<Probe>,
    /// Whether the last route response was no trial, so that a trial is next
    pub(super) trial_next: bool,
    /// While cut off: the clusters that the proxy lacks and that something names which it is to be given
    pub(super) needed: BTreeSet<Arc<str>>,
}

impl TypeState {
    /// Whether the stream follows the name.
    pub(super) fn covers(&self, names: &Names, name: &str) -> bool {
        self.wildcard || self.subscribed.contains(names, name)
    }
}

pub(super) fn key(kind: ResourceType, name: &Arc<str>) -> ResourceKey {
    ResourceKey { kind, name: Arc::clone(name) }
}

/// What `exception` is heading for.
pub(super) fn goal(snapshot: &Snapshot, kind: ResourceType, name: &Arc<str>, exception: &Exception) -> Goal {
    let is_probe = kind == ResourceType::Route && name.as_ref() == PROBE_TABLE;
    exception.goal(kind, is_probe, snapshot.get(&key(kind, name)))
}

impl Stream {
    pub(crate) fn new(position: u64) -> Self {
        Self {
            types: PerType::default(),
            position,
            nonce: 0,
            has_answered: false,
            generation: 0,
            probe: None,
            trial_next: false,
            needed: BTreeSet::new(),
        }
    }

    pub(crate) const fn position(&self) -> u64 {
        self.position
    }

    pub(crate) fn close(mut self, names: &mut PerType<Names>) {
        for kind in ResourceType::ALL {
            self.types[kind].subscribed.clear(&mut names[kind]);
        }
    }

    pub(crate) fn state(&self, snapshot: &Snapshot) -> StreamState {
        let is_busy = |(kind, state): (ResourceType, &TypeState)| {
            let mut exceptions = state.exceptions.iter();
            !state.outstanding.is_empty()
                || state.answer_due
                || exceptions.any(|(name, exception)| exception.is_pending(&goal(snapshot, kind, name, exception)))
        };
        let is_new = !self.types[ResourceType::Cluster].seen && !self.types[ResourceType::Listener].seen;
        if is_new || self.types.iter().any(is_busy) {
            StreamState::Syncing
        } else if self.types.iter().any(|(_, state)| state.exceptions.values().any(|e| e.refused.is_some())) {
            StreamState::Refusing
        } else {
            StreamState::InStep
        }
    }

    /// Takes over the changes since the last call: each name that the stream follows and that changed becomes an exception.
    pub(crate) fn fold(&mut self, id: StreamId, shared: &mut Shared) -> bool {
        let Some(entries) = shared.snapshot.since(self.position) else { return false };
        let mut touched = Vec::new();
        for (position, entry) in (self.position..).zip(entries) {
            let ResourceKey { kind, name } = &entry.key;
            let state = &mut self.types[*kind];
            if !state.covers(&shared.names[*kind], name) {
                continue;
            }
            match state.exceptions.get_mut(name) {
                Some(exception) if exception.sent.is_some() => _ = exception.newer.get_or_insert(position),
                Some(exception) => exception.since = exception.since.min(position),
                None => {
                    let exception = Exception::new(Has::in_step(entry.before.as_ref()), position);
                    state.exceptions.insert(Arc::clone(name), exception);
                }
            }
            touched.push((*kind, Arc::clone(name)));
        }
        self.position = shared.snapshot.position();
        for (kind, name) in touched {
            self.settle(id, shared, kind, &name);
        }
        true
    }

    pub(crate) fn on_request(
        &mut self,
        id: StreamId,
        shared: &mut Shared,
        request: DeltaDiscoveryRequest,
        now: Instant,
    ) -> Result<(), Reset> {
        let Some(kind) = ResourceType::from_type_url(&request.type_url) else {
            shared.events.push(Event::UnknownType { type_url: request.type_url });
            return Ok(());
        };
        self.check(shared, &request)?;
        if !self.fold(id, shared) {
            return Err(Reset::Behind);
        }
        // A stale nonce answers nothing, but its subscription changes count (xds_protocol, "When a stale nonce is received").
        if let Ok(nonce) = request.response_nonce.parse() {
            self.on_answer(id, shared, kind, nonce, request.error_detail.map(|status| status.message), now);
        }
        let state = &mut self.types[kind];
        let is_first = !std::mem::replace(&mut state.seen, true);
        let mut reported = if is_first { request.initial_resource_versions } else { HashMap::new() };
        // "For historical reasons": a first request for a type without names means all.
        let is_legacy_wildcard = is_first && kind.is_wildcard() && request.resource_names_subscribe.is_empty();
        if is_legacy_wildcard || request.resource_names_subscribe.iter().any(|name| name == WILDCARD) {
            self.subscribe_all(shared, kind, &mut reported);
        }
        for name in request.resource_names_subscribe.into_iter().filter(|name| name != WILDCARD) {
            let version = reported.remove(&name);
            self.subscribe(id, shared, kind, &name.into(), version.as_deref());
        }
        for name in request.resource_names_unsubscribe {
            self.unsubscribe(id, shared, kind, &Arc::from(name));
        }
        Ok(())
    }

    fn check(&self, shared: &Shared, request: &DeltaDiscoveryRequest) -> Result<(), Reset> {
        let held: usize = self.types.iter().map(|(_, state)| state.subscribed.len()).sum();
        let names = request.resource_names_subscribe.iter().chain(request.initial_resource_versions.keys());
        let count = held + request.resource_names_subscribe.len();
        let is_long = |name: &String| name.len() > shared.limits.name_bytes;
        let too_many = count.max(request.initial_resource_versions.len()) > shared.limits.subscriptions;
        if too_many || names.into_iter().any(is_long) { Err(Reset::TooManyNames) } else { Ok(()) }
    }

    /// Follows every resource of the type. What the proxy reports to have and what the snapshot has make the exceptions.
    fn subscribe_all(&mut self, shared: &mut Shared, kind: ResourceType, reported: &mut HashMap<String, String>) {
        let state = &mut self.types[kind];
        if std::mem::replace(&mut state.wildcard, true) {
            return;
        }
        state.answer_due = true;
        let has_none = reported.is_empty();
        for resource in shared.snapshot.of_kind(kind) {
            let name = &resource.key.name;
            let reported = reported.remove(name.as_ref());
            if state.subscribed.contains(&shared.names[kind], name) {
                continue;
            }
            let has = match reported {
                Some(version) => Has::reported(wire_version::read(&version), Some(resource)),
                None => Has::Nothing,
            };
            let mut exception = Exception::new(has, 0);
            exception.first = has_none;
            if !exception.is_settled(&exception.goal(kind, false, Some(resource))) {
                state.exceptions.insert(Arc::clone(name), exception);
            }
        }
        // The rest vanished while the proxy was away. In order, so that equal histories give equal responses.
        let mut vanished: Vec<_> = reported.drain().collect();
        vanished.sort_unstable();
        for (name, version) in vanished {
            state.exceptions.insert(name.into(), Exception::new(Has::Unknown(wire_version::read(&version)), 0));
        }
    }

    fn subscribe(
        &mut self,
        id: StreamId,
        shared: &mut Shared,
        kind: ResourceType,
        name: &Arc<str>,
        version: Option<&str>,
    ) {
        let wanted = shared.snapshot.get(&key(kind, name));
        let state = &mut self.types[kind];
        let was_covered = state.covers(&shared.names[kind], name);
        state.subscribed.insert(&mut shared.names[kind], name);
        if was_covered {
            // "The server must send the resource even if the client has it": discovery.proto, resource_names_subscribe
            let position = self.position;
            let in_step = || Exception::new(Has::in_step(wanted), position);
            state.exceptions.entry(Arc::clone(name)).or_insert_with(in_step).force = true;
        } else {
            let has = version.map_or(Has::Nothing, |version| Has::reported(wire_version::read(version), wanted));
            let mut exception = Exception::new(has, 0);
            // A reconnecting proxy may have lost a warming, so endpoints and secrets are answered once in any case (invariant 1);
            // a name without a resource is answered too, or the proxy waits for 15 s.
            exception.force =
                exception.has.is_nothing() || matches!(kind, ResourceType::Endpoints | ResourceType::Secret);
            state.exceptions.insert(Arc::clone(name), exception);
        }
        let is_table = matches!(kind, ResourceType::Route | ResourceType::Extension);
        if is_table && wanted.is_none() && name.as_ref() != PROBE_TABLE {
            shared.events.push(Event::Missing { key: key(kind, name) });
        }
        self.settle(id, shared, kind, name);
    }

    fn unsubscribe(&mut self, id: StreamId, shared: &mut Shared, kind: ResourceType, name: &Arc<str>) {
        let state = &mut self.types[kind];
        if name.as_ref() == WILDCARD {
            state.wildcard = false;
            state.answer_due = false;
            let names = &shared.names[kind];
            let dropped: Vec<_> =
                state.exceptions.keys().filter(|name| !state.subscribed.contains(names, name)).cloned().collect();
            for name in dropped {
                self.drop_exception(id, shared, kind, &name);
            }
        } else if !state.subscribed.remove(&mut shared.names[kind], name) {
            // Never subscribed to: ignored.
        } else if state.wildcard {
            // Still followed, but the proxy may have dropped it: answered with the resource or its removal.
            let wanted = shared.snapshot.get(&key(kind, name));
            let position = self.position;
            let in_step = || Exception::new(Has::in_step(wanted), position);
            state.exceptions.entry(Arc::clone(name)).or_insert_with(in_step).force = true;
        } else {
            self.drop_exception(id, shared, kind, name);
        }
    }

    fn on_answer(
        &mut self,
        id: StreamId,
        shared: &mut Shared,
        kind: ResourceType,
        nonce: u64,
        refusal: Option<String>,
        now: Instant,
    ) {
        let outstanding = &mut self.types[kind].outstanding;
        let Some(index) = outstanding.iter().position(|outstanding| outstanding.nonce == nonce) else { return };
        let outstanding = outstanding.remove(index);
        self.has_answered = true;
        let after = now.saturating_duration_since(outstanding.sent);
        if outstanding.is_trial {
            return self.on_trial(id, shared, refusal);
        }
        shared.events.push(Event::Answered { kind, after, refusal: refusal.clone() });
        match refusal {
            None => {
                for name in &outstanding.names {
                    self.accepted(id, shared, kind, name, nonce);
                }
            }
            Some(text) => self.refused(id, shared, kind, &outstanding.names, nonce, &text),
        }
        self.note_acked(shared);
    }

    fn accepted(&mut self, id: StreamId, shared: &mut Shared, kind: ResourceType, name: &Arc<str>, nonce: u64) {
        let Some(exception) = self.types[kind].exceptions.get_mut(name) else { return };
        let Some((_, sent)) = exception.sent.take_if(|(sent, _)| *sent == nonce) else { return };
        exception.has = match sent {
            Sent::Removal => Has::Nothing,
            Sent::Placeholder => Has::Placeholder,
            Sent::Content(resource) => Has::Content(resource),
        };
        exception.unsure.clear();
        exception.since = exception.newer.take().unwrap_or(u64::MAX);
        if exception.refused.take().is_some() {
            shared.clear_refusal(&key(kind, name), id);
        }
        self.settle(id, shared, kind, name);
    }

    /// A refused response of one resource names its culprit; of several, its halves are sent again. Delta removes nothing that a
    /// response leaves out.
    fn refused(
        &mut self,
        id: StreamId,
        shared: &mut Shared,
        kind: ResourceType,
        names: &[Arc<str>],
        nonce: u64,
        text: &str,
    ) {
        let state = &mut self.types[kind];
        let mut members = Vec::new();
        for name in names {
            let Some(exception) = state.exceptions.get_mut(name) else { continue };
            let Some((_, sent)) = exception.sent.take_if(|(sent, _)| *sent == nonce) else { continue };
            if let Some(position) = exception.newer.take() {
                exception.since = exception.since.min(position);
            }
            if names.len() > 1 {
                exception.unsure_of(&sent);
            }
            members.push((Arc::clone(name), sent));
        }
        if names.len() > 1 {
            let names: Vec<_> = members.into_iter().map(|(name, _)| name).collect();
            let (first, second) = names.split_at(names.len().div_ceil(2));
            state.suspects.extend([second, first].into_iter().filter(|part| !part.is_empty()).map(<[_]>::to_vec));
            return;
        }
        for (name, sent) in members {
            self.blame(id, shared, kind, &name, sent, text);
        }
    }

    fn blame(
        &mut self,
        id: StreamId,
        shared: &mut Shared,
        kind: ResourceType,
        name: &Arc<str>,
        sent: Sent,
        text: &str,
    ) {
        let Some(exception) = self.types[kind].exceptions.get_mut(name) else { return };
        let (version, resource) = match sent {
            Sent::Removal => (None, None),
            Sent::Placeholder => (Some(placeholder_version()), None),
            Sent::Content(resource) => (Some(resource.version), Some(resource)),
        };
        exception.unsure.retain(|unsure| Some(unsure.version) != version);
        let before = exception.refused.take().filter(|before| before.version == version);
        let retry = Retry::after(kind, text, before.as_ref().and_then(|before| before.retry), &shared.limits);
        let is_known = retry.is_some() && before.is_some_and(|before| before.retry.is_some() && before.text == text);
        exception.refused = Some(Box::new(Refusal { version, resource: resource.clone(), text: text.into(), retry }));
        let key = key(kind, name);
        shared.note_refusal(&key, id);
        if is_known {
            // Tried again in vain: no news.
            return;
        }
        match resource {
            Some(resource) if self.can_probe(shared, &resource) => {}
            Some(resource) => {
                let held = self.types[kind].exceptions.get(name).and_then(|exception| exception.has.content());
                let culprits = probe::presumed(&resource, held, text);
                shared.events.extend(culprits.into_iter().map(|culprit| culprit.told(&resource)));
            }
            None => {
                let (part, origins) = (Part::Whole, Vec::new());
                shared.events.push(Event::Refused { key, version, part, origins, text: text.into() });
            }
        }
    }

    /// Forgets the exception under a name when the proxy holds what the snapshot has.
    pub(super) fn settle(&mut self, id: StreamId, shared: &mut Shared, kind: ResourceType, name: &Arc<str>) {
        let settled = self.types[kind]
            .exceptions
            .get(name)
            .is_some_and(|exception| exception.is_settled(&goal(&shared.snapshot, kind, name, exception)));
        if settled {
            self.drop_exception(id, shared, kind, name);
        }
    }

    fn drop_exception(&mut self, id: StreamId, shared: &mut Shared, kind: ResourceType, name: &Arc<str>) {
        let exceptions = &mut self.types[kind].exceptions;
        let dropped = exceptions.remove(name);
        if exceptions.is_empty() {
            // An emptied tree keeps its last node, two kilobytes for each type of each stream in step.
            *exceptions = BTreeMap::new();
        }
        if dropped.is_some_and(|exception| exception.refused.is_some()) {
            shared.clear_refusal(&key(kind, name), id);
        }
    }

    /// How far the proxy has accepted the log: up to the oldest change that is still on its way.
    fn note_acked(&self, shared: &mut Shared) {
        let follows = [ResourceType::Cluster, ResourceType::Listener].map(|kind| &self.types[kind]);
        if !follows.iter().all(|state| state.seen && !state.answer_due) {
            return;
        }
        let mut position = self.position;
        for (kind, state) in self.types.iter() {
            for (name, exception) in state.exceptions.iter().filter(|(_, exception)| exception.since < self.position) {
                let on_its_way =
                    exception.sent.is_some() || exception.is_pending(&goal(&shared.snapshot, kind, name, exception));
                if on_its_way {
                    position = position.min(exception.since);
                }
                if position <= shared.acked {
                    // Nothing new, as nearly always while a proxy takes in thousands of resources: no walk over all of them.
                    return;
                }
            }
        }
        shared.note_acked(position);
    }

    /// Bytes on the heap that the stream needs beside what the fleet shares.
    #[cfg(test)]
    pub(crate) fn heap(&self) -> usize {
        let of_type = |state: &TypeState| {
            state.subscribed.heap()
                + state.exceptions.len() * (size_of::<Exception>() + size_of::<Arc<str>>())
                + state.suspects.capacity() * size_of::<Vec<Arc<str>>>()
        };
        self.types.iter().map(|(_, state)| of_type(state)).sum()
    }

    /// The version under which the proxy will report the name's content next time.
    pub(super) fn next_generation(&mut self) -> u32 {
        self.generation = self.generation.wrapping_add(1);
        self.generation
    }

    pub(super) fn sent_version(&mut self, exception_matches: bool, version: Version) -> String {
        let generation = exception_matches.then(|| self.next_generation());
        wire_version::write(version, generation)
    }
}
