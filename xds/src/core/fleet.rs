//! One fleet: its snapshot and the streams of its proxies.
//!
//! No I/O and no clock: requests, changes and the time come in, responses and events go out.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;

use portolan_proto::envoy::discovery::DeltaDiscoveryRequest;
use portolan_proto::{Change, DeltaResponse, ResourceKey, Snapshot, Version};

use super::event::Event;
use super::limits::{Limits, Reset};
use super::names::Names;
use super::per_type::PerType;
use super::stream::{Stream, StreamState};
use crate::transition::StreamId;

/// What the streams of a fleet share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) limits: Arc<Limits>,
    pub(crate) snapshot: Snapshot,
    pub(crate) names: PerType<Names>,
    pub(crate) events: Vec<Event>,
    /// Whether the snapshot may be out of date
    pub(crate) is_cut_off: bool,
    /// The streams that refuse what stands, or stood, under a key
    refusals: BTreeMap<ResourceKey, BTreeSet<StreamId>>,
    /// The version of each refused table that has been searched, or is being searched on a stream
    probes: BTreeMap<ResourceKey, (Version, Option<StreamId>)>,
    /// How far some proxy has accepted the log
    pub(crate) acked: u64,
    /// Where the log begins
    start: u64,
}

#[derive(Debug)]
pub(crate) struct Fleet {
    shared: Shared,
    /// Boxed: a tree keeps half of its room free
    streams: BTreeMap<StreamId, Box<Stream>>,
    /// Removed: what its proxies do is nobody's concern any more
    retired: bool,
}

impl Fleet {
    /// `start`: where its log begins.
    pub(crate) fn new(limits: Arc<Limits>, start: u64) -> Self {
        let shared = Shared {
            limits,
            snapshot: Snapshot::with_log_from(start),
            names: PerType::default(),
            events: Vec::new(),
            is_cut_off: false,
            refusals: BTreeMap::new(),
            probes: BTreeMap::new(),
            acked: start,
            start,
        };
        Self { shared, streams: BTreeMap::new(), retired: false }
    }

    pub(crate) const fn snapshot(&self) -> &Snapshot {
        &self.shared.snapshot
    }

    pub(crate) fn streams(&self) -> usize {
        self.streams.len()
    }

    /// Puts changes in force; streams send them when polled. Returns the position of the log behind them.
    pub(crate) fn publish(&mut self, changes: Vec<Change>) -> u64 {
        let mut changes = changes.into_iter().peekable();
        while changes.peek().is_some() {
            let part: Vec<_> = changes.by_ref().take(Snapshot::LOG_LIMIT / 2).collect();
            // A stream that has not been polled for long takes over the changes before the log drops them.
            let reach =
                (self.shared.snapshot.position() + part.len() as u64).saturating_sub(Snapshot::LOG_LIMIT as u64);
            for (id, stream) in &mut self.streams {
                if stream.position() < reach {
                    stream.fold(*id, &mut self.shared);
                }
            }
            let behind = self.streams.values().map(|stream| stream.position()).min();
            self.shared.snapshot.forget_before(behind.unwrap_or(u64::MAX));
            self.shared.snapshot.apply(part);
        }
        self.shared.snapshot.position()
    }

    /// Whether the snapshot may be out of date: then proxies are only helped (see `cut_off`). Streams send what they withheld when polled.
    pub(crate) const fn set_cut_off(&mut self, is_cut_off: bool) {
        self.shared.is_cut_off = is_cut_off;
    }

    pub(crate) fn open(&mut self, id: StreamId) {
        self.streams.insert(id, Box::new(Stream::new(self.shared.snapshot.position())));
    }

    pub(crate) fn close(&mut self, id: StreamId) {
        if let Some(stream) = self.streams.remove(&id) {
            stream.close(&mut self.shared.names);
        }
        let refused: Vec<_> =
            self.shared.refusals.iter().filter(|(_, by)| by.contains(&id)).map(|(key, _)| key.clone()).collect();
        for key in refused {
            self.shared.clear_refusal(&key, id);
        }
        self.shared.probes.retain(|_, (_, stream)| *stream != Some(id));
    }

    pub(crate) fn on_request(
        &mut self,
        id: StreamId,
        request: DeltaDiscoveryRequest,
        now: Instant,
    ) -> Result<Vec<DeltaResponse>, Reset> {
        if let Some(stream) = self.streams.get_mut(&id) {
            stream.on_request(id, &mut self.shared, request, now)?;
        }
        self.poll(id, now)
    }

    /// What is to be sent on the stream now. To be called after changes, and from time to time.
    pub(crate) fn poll(&mut self, id: StreamId, now: Instant) -> Result<Vec<DeltaResponse>, Reset> {
        match self.streams.get_mut(&id) {
            Some(stream) => stream.poll(id, &mut self.shared, now),
            None => Ok(Vec::new()),
        }
    }

    /// What has happened since the last call.
    pub(crate) fn take_events(&mut self) -> Vec<Event> {
        let events = std::mem::take(&mut self.shared.events);
        if self.retired { Vec::new() } else { events }
    }

    /// Has nothing to tell any more. Returns the position of the log behind everything.
    pub(crate) fn retire(&mut self) -> u64 {
        self.retired = true;
        self.shared.snapshot.position()
    }

    pub(crate) fn stream_state(&self, id: StreamId) -> Option<StreamState> {
        self.streams.get(&id).map(|stream| stream.state(&self.shared.snapshot))
    }

    #[cfg(test)]
    pub(crate) fn stream(&self, id: StreamId) -> Option<&Stream> {
        self.streams.get(&id).map(|stream| &**stream)
    }

    #[cfg(test)]
    pub(crate) fn known_names(&self, kind: portolan_proto::ResourceType) -> usize {
        self.shared.names[kind].len()
    }
}

impl Shared {
    pub(crate) fn note_refusal(&mut self, key: &ResourceKey, id: StreamId) {
        self.refusals.entry(key.clone()).or_default().insert(id);
    }

    pub(crate) fn clear_refusal(&mut self, key: &ResourceKey, id: StreamId) {
        let Some(streams) = self.refusals.get_mut(key) else { return };
        if streams.remove(&id) && streams.is_empty() {
            self.refusals.remove(key);
            if self.probes.get(key).is_some_and(|(_, stream)| stream.is_none()) {
                self.probes.remove(key);
            }
            self.events.push(Event::RefusalCleared { key: key.clone() });
        }
    }

    /// Claims the search through a version of a table for a stream: one stream of a fleet is enough. `false` when it has been done
    /// or is being done.
    pub(crate) fn claim_probe(&mut self, key: &ResourceKey, version: Version, id: StreamId) -> bool {
        match self.probes.get(key) {
            Some((claimed, _)) if *claimed == version => false,
            Some((_, Some(other))) if *other != id => false,
            _ => {
                self.probes.insert(key.clone(), (version, Some(id)));
                true
            }
        }
    }

    pub(crate) fn end_probe(&mut self, key: &ResourceKey) {
        if let Some((_, stream)) = self.probes.get_mut(key) {
            *stream = None;
        }
    }

    pub(crate) fn note_acked(&mut self, position: u64) {
        if self.acked < position {
            let first = std::mem::replace(&mut self.acked, position) == self.start;
            self.events.push(Event::Acked { position, first });
        }
    }
}
