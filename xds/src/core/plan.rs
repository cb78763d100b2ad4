//! What is sent next: make before break, driven by the proxy's answers (design invariants 2 and 3).
//!
//! ```text
//! clusters ──(endpoints, secrets follow at once)──▶ scopes, tables, filter configurations ──▶ listeners ──▶ what these ask for
//!     removals: a cluster when nothing that the proxy has or is being sent names it; listeners with the last listener update;
//!               scopes when listeners are settled
//! ```
//!
//! What waits, waits for the very resources it names, not for a type: a resource that the proxy refused holds nothing back.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use portolan_proto::{Content, DeltaResource, DeltaResponse, PROBE_TABLE, Resource, ResourceKey, ResourceType};
use prost::Message;

use super::exception::{Exception, Goal, Has, Sent, placeholder_version};
use super::fleet::Shared;
use super::limits::Reset;
use super::stream::{Outstanding, Stream, key};
use crate::transition::StreamId;

impl Stream {
    /// What is to be sent now.
    pub(crate) fn poll(
        &mut self,
        id: StreamId,
        shared: &mut Shared,
        now: Instant,
    ) -> Result<Vec<DeltaResponse>, Reset> {
        if !self.fold(id, shared) {
            return Err(Reset::Behind);
        }
        self.look_for_needed(shared);
        let late = self.types.iter().find(|(_, state)| {
            let is_late = |outstanding: &Outstanding| {
                now.saturating_duration_since(outstanding.sent) >= shared.limits.answer_within
            };
            state.outstanding.iter().any(is_late)
        });
        if let Some((kind, _)) = late {
            return Err(Reset::NoAnswer(kind));
        }
        let refusals = self.types[ResourceType::Listener].exceptions.values_mut().filter_map(|it| it.refused.as_mut());
        refusals.filter_map(|refusal| refusal.retry.as_mut()).for_each(|retry| retry.look_at(now));
        let mut responses = Vec::new();
        // Secrets and scopes once more: those that follow a listener.
        for kind in ResourceType::ALL.into_iter().chain([ResourceType::Secret, ResourceType::Scope]) {
            if !self.types[kind].seen {
            } else if is_sent_singly(kind) {
                self.single_responses(shared, kind, now, &mut responses);
            } else {
                responses.extend(self.response(id, shared, kind, now));
            }
        }
        Ok(responses)
    }

    /// One response per resource, several at a time.
    fn single_responses(
        &mut self,
        shared: &Shared,
        kind: ResourceType,
        now: Instant,
        responses: &mut Vec<DeltaResponse>,
    ) {
        let room = SINGLES.saturating_sub(self.types[kind].outstanding.len());
        if room > 0 {
            let items = self.ready_singly(shared, kind, room);
            responses.extend(items.into_iter().map(|item| self.send(shared, kind, vec![item], now)));
        }
    }

    /// As [`Stream::ready`], but no more than `room`: each answer to one of thousands of secrets asks anew, and must not walk over all.
    fn ready_singly(&self, shared: &Shared, kind: ResourceType, room: usize) -> Vec<(Arc<str>, Goal)> {
        let exceptions = &self.types[kind].exceptions;
        if exceptions.is_empty() {
            return Vec::new();
        }
        let pending = |(name, exception): (&Arc<str>, &Exception)| {
            let goal = self.goal_now(shared, kind, name, exception);
            exception.is_pending(&goal).then(|| (Arc::clone(name), goal))
        };
        let may_update = self.update_gate(shared, kind);
        let may_go = |(_, goal): &(Arc<str>, Goal)| match goal {
            Goal::Content(resource) => may_update(resource),
            Goal::Placeholder | Goal::Keep => true,
            Goal::Absent => false,
        };
        let mut items: Vec<_> = exceptions.iter().filter_map(pending).filter(may_go).take(room).collect();
        if items.len() < room {
            let removals =
                exceptions.iter().filter_map(pending).filter(|(_, goal)| matches!(goal, Goal::Absent)).collect();
            let removable = self.removable(shared, kind, removals, true);
            items.extend(removable.into_iter().take(room - items.len()));
        }
        items
    }

    /// The next response of a type. One is outstanding at most; meanwhile newer states replace each other in the snapshot.
    fn response(
        &mut self,
        id: StreamId,
        shared: &mut Shared,
        kind: ResourceType,
        now: Instant,
    ) -> Option<DeltaResponse> {
        if !self.types[kind].outstanding.is_empty() {
            return None;
        }
        if kind == ResourceType::Route && self.trial_next {
            self.trial_next = false;
            if let Some(response) = self.send_trial(id, shared, now) {
                return Some(response);
            }
        }
        let (items, waiting) = match self.next_suspects(shared, kind) {
            Some(items) => (items, true),
            None => {
                let (items, waiting) = self.ready(shared, kind);
                (self.apart(kind, items), waiting)
            }
        };
        if items.is_empty() {
            if !waiting && std::mem::take(&mut self.types[kind].answer_due) {
                return Some(self.send(shared, kind, Vec::new(), now));
            }
            return if kind == ResourceType::Route { self.send_trial(id, shared, now) } else { None };
        }
        self.trial_next = kind == ResourceType::Route;
        Some(self.send(shared, kind, items, now))
    }

    /// The next part of a refused response of which something is still to be sent as it was. What has changed since waits for its turn
    /// like everything new.
    fn next_suspects(&mut self, shared: &Shared, kind: ResourceType) -> Option<Vec<(Arc<str>, Goal)>> {
        while let Some(part) = self.types[kind].suspects.pop() {
            let pending: Vec<_> = part
                .into_iter()
                .filter_map(|name| {
                    let exception = self.types[kind].exceptions.get(&name)?;
                    let goal = self.goal_now(shared, kind, &name, exception);
                    let was = exception.unsure.last()?.version;
                    let is_same = matches!(&goal, Goal::Content(resource) if resource.version == was);
                    (is_same && exception.is_pending(&goal)).then_some((name, goal))
                })
                .collect();
            if !pending.is_empty() {
                return Some(pending);
            }
        }
        None
    }

    /// Keeps names that were in a refused response apart from the others, and from each other: if they are refused again, it is known
    /// what the proxy holds under them. What is tried again after it was refused goes alone too.
    fn apart(&self, kind: ResourceType, items: Vec<(Arc<str>, Goal)>) -> Vec<(Arc<str>, Goal)> {
        let exceptions = &self.types[kind].exceptions;
        let is_doubtful =
            |name: &Arc<str>| exceptions.get(name).is_some_and(|it| !it.unsure.is_empty() || it.is_retried());
        let (mut doubtful, others): (Vec<_>, Vec<_>) = items.into_iter().partition(|(name, _)| is_doubtful(name));
        doubtful.truncate(1);
        if others.is_empty() { doubtful } else { others }
    }

    /// What of a type may be sent now, up to the size of one response, and whether new content has to wait.
    fn ready(&self, shared: &Shared, kind: ResourceType) -> (Vec<(Arc<str>, Goal)>, bool) {
        let state = &self.types[kind];
        let (mut updates, mut removals) = (Vec::new(), Vec::new());
        for (name, exception) in &state.exceptions {
            let goal = self.goal_now(shared, kind, name, exception);
            if exception.is_pending(&goal) {
                let list = if matches!(goal, Goal::Absent) { &mut removals } else { &mut updates };
                list.push((Arc::clone(name), goal));
            }
        }
        let pending = updates.len() + removals.len();
        if pending == 0 {
            return (Vec::new(), false);
        }
        let may_update = self.update_gate(shared, kind);
        let mut size = 0;
        let mut items = Vec::new();
        for (name, goal) in updates {
            if size >= shared.limits.response_bytes {
                break;
            }
            if let Goal::Content(resource) = &goal {
                if !may_update(resource) {
                    continue;
                }
                size += resource.body.message().map_or(0, |message| message.len());
            }
            items.push((name, goal));
        }
        let updates_wait = items.len() + removals.len() < pending;
        let removable = self.removable(shared, kind, removals, !updates_wait);
        items.extend(removable);
        (items, updates_wait)
    }

    /// Says of new content whether what it names has arrived.
    fn update_gate<'a>(&'a self, shared: &'a Shared, kind: ResourceType) -> Box<dyn Fn(&Resource) -> bool + 'a> {
        match kind {
            ResourceType::Cluster | ResourceType::Endpoints | ResourceType::Secret => Box::new(|_| true),
            ResourceType::Scope | ResourceType::Route | ResourceType::Extension => {
                let missing = self.missing_clusters(shared);
                Box::new(move |resource| !refers_to_any(resource, &missing))
            }
            ResourceType::Listener => {
                let missing = self.missing_clusters(shared);
                let scopes_wait = self.has_updates(shared, ResourceType::Scope);
                Box::new(move |resource| {
                    let tables_wait = || {
                        let tables = resource.references.iter();
                        tables
                            .filter(|key| matches!(key.kind, ResourceType::Route | ResourceType::Extension))
                            .any(|key| self.is_moving(shared, key.kind, &key.name))
                    };
                    !scopes_wait && !refers_to_any(resource, &missing) && !tables_wait()
                })
            }
        }
    }

    /// Clusters of the snapshot that the proxy does not have yet, except those it refused.
    fn missing_clusters(&self, shared: &Shared) -> BTreeSet<ResourceKey> {
        let kind = ResourceType::Cluster;
        let is_missing = |name: &Arc<str>, exception: &Exception| {
            let goal = self.goal_now(shared, kind, name, exception);
            let is_moving = exception.sent.is_some() || exception.is_pending(&goal);
            let is_leaving = matches!(exception.sent, Some((_, Sent::Removal)));
            let is_there = !matches!(exception.has, Has::Nothing | Has::Unknown(None)) && !is_leaving;
            matches!(goal, Goal::Content(_)) && is_moving && !is_there
        };
        let exceptions = self.types[kind].exceptions.iter();
        exceptions.filter(|(name, exception)| is_missing(name, exception)).map(|(name, _)| key(kind, name)).collect()
    }

    /// Whether new content for the name is being sent or waits to be.
    fn is_moving(&self, shared: &Shared, kind: ResourceType, name: &Arc<str>) -> bool {
        self.types[kind].exceptions.get(name).is_some_and(|exception| {
            let goal = self.goal_now(shared, kind, name, exception);
            exception.sent.is_some() || exception.is_pending(&goal)
        })
    }

    fn has_updates(&self, shared: &Shared, kind: ResourceType) -> bool {
        self.types[kind].exceptions.iter().any(|(name, exception)| {
            let goal = self.goal_now(shared, kind, name, exception);
            let sending = matches!(exception.sent, Some((_, Sent::Content(_))));
            sending || matches!(goal, Goal::Content(_)) && exception.is_pending(&goal)
        })
    }

    /// Those of `removals` that may be sent now.
    fn removable(
        &self,
        shared: &Shared,
        kind: ResourceType,
        removals: Vec<(Arc<str>, Goal)>,
        all_updates: bool,
    ) -> Vec<(Arc<str>, Goal)> {
        if removals.is_empty() {
            return removals;
        }
        match kind {
            // With the updates, since a new listener may take over the address of one that goes.
            ResourceType::Listener => return if all_updates { removals } else { Vec::new() },
            ResourceType::Scope if self.any_moving(shared, ResourceType::Listener) => return Vec::new(),
            _ => {}
        }
        let users = Users::of(self, kind);
        let may_go = |name: &Arc<str>| {
            let exception = self.types[kind].exceptions.get(name);
            // A name that the proxy asked for in vain is answered at once, and so is a held one: Envoy keeps what it has.
            exception.is_none_or(|exception| exception.has.is_nothing() && exception.unsure.is_empty())
                || shared.snapshot.get(&key(kind, name)).is_some()
                || self.has_answered && !users.use_it(&key(kind, name))
        };
        removals.into_iter().filter(|(name, _)| may_go(name)).collect()
    }

    fn any_moving(&self, shared: &Shared, kind: ResourceType) -> bool {
        self.types[kind].exceptions.keys().any(|name| self.is_moving(shared, kind, name))
    }

    fn send(
        &mut self,
        shared: &Shared,
        kind: ResourceType,
        items: Vec<(Arc<str>, Goal)>,
        now: Instant,
    ) -> DeltaResponse {
        self.nonce += 1;
        let nonce = self.nonce;
        let mut response = DeltaResponse {
            type_url: kind.type_url(),
            nonce: nonce.to_string(),
            resources: Vec::with_capacity(items.len()),
            removed: Vec::new(),
        };
        let mut names = Vec::with_capacity(items.len());
        let mut followers = Vec::new();
        for (name, goal) in items {
            let Some(exception) = self.types[kind].exceptions.get_mut(&name) else { continue };
            exception.force = false;
            let has_it = |version| exception.has.is_version(version);
            let content = match &goal {
                Goal::Content(resource) => resource.body.message().map(|message| {
                    followers.extend(resource.references.iter().cloned());
                    (resource.version, has_it(resource.version), message, Sent::Content(Arc::clone(resource)))
                }),
                Goal::Placeholder => {
                    let version = placeholder_version();
                    let again = matches!(exception.has, Has::Placeholder);
                    Some((version, again, empty_table(&name), Sent::Placeholder))
                }
                Goal::Absent | Goal::Keep => None,
            };
            let sent = match content {
                Some((version, again, message, sent)) => {
                    let version = self.sent_version(again, version);
                    response.resources.push(DeltaResource { name: Arc::clone(&name), version, message });
                    sent
                }
                None => {
                    response.removed.push(Arc::clone(&name));
                    Sent::Removal
                }
            };
            if let Some(exception) = self.types[kind].exceptions.get_mut(&name) {
                exception.sent = Some((nonce, sent));
            }
            names.push(name);
        }
        let state = &mut self.types[kind];
        state.answer_due = false;
        state.outstanding.push(Outstanding { nonce, sent: now, names, is_trial: false });
        self.force_followers(shared, kind, &followers);
        response
    }

    /// Envoy does not ask again for endpoints and secrets that it already watches, yet waits up to 15 s for them when a cluster or
    /// listener that uses them comes anew (envoy.md 2 A to C): so they follow. Scopes likewise (srds.md 6.2).
    fn force_followers(&mut self, shared: &Shared, sent: ResourceType, references: &[ResourceKey]) {
        let position = self.position;
        for key in references {
            let follows = match sent {
                ResourceType::Cluster => matches!(key.kind, ResourceType::Endpoints | ResourceType::Secret),
                ResourceType::Listener => matches!(key.kind, ResourceType::Secret | ResourceType::Scope),
                _ => false,
            };
            let state = &mut self.types[key.kind];
            if follows && state.covers(&shared.names[key.kind], &key.name) {
                let in_step = || {
                    let mut exception = Exception::new(Has::in_step(shared.snapshot.get(key)), position);
                    exception.since = u64::MAX;
                    exception
                };
                state.exceptions.entry(Arc::clone(&key.name)).or_insert_with(in_step).force = true;
            }
        }
    }

    fn send_trial(&mut self, id: StreamId, shared: &mut Shared, now: Instant) -> Option<DeltaResponse> {
        let message = self.trial(id, shared)?;
        self.nonce += 1;
        let nonce = self.nonce;
        let version = format!("trial+g{}", self.next_generation());
        let outstanding = Outstanding { nonce, sent: now, names: Vec::new(), is_trial: true };
        self.types[ResourceType::Route].outstanding.push(outstanding);
        Some(DeltaResponse {
            type_url: ResourceType::Route.type_url(),
            nonce: nonce.to_string(),
            resources: vec![DeltaResource { name: PROBE_TABLE.into(), version, message }],
            removed: Vec::new(),
        })
    }
}

/// Responses of one type that may be unanswered at a time, where each carries one resource.
const SINGLES: usize = 32;

/// Whether each resource of the type goes in a response of its own. Envoy remembers the hash of a secret before it has tried it: sent
/// again to find out which one of a response was bad, the bad one is acknowledged (measured on 1.40). The first answer has to be right.
const fn is_sent_singly(kind: ResourceType) -> bool {
    matches!(kind, ResourceType::Secret | ResourceType::Extension)
}

/// The clusters that a resource names.
pub(super) fn clusters_of(resource: &Resource) -> Box<dyn Iterator<Item = &Arc<str>> + '_> {
    match resource.body.content() {
        Content::Table(table) => Box::new(table.clusters.keys()),
        _ => {
            let references = resource.references.iter();
            Box::new(references.filter(|key| key.kind == ResourceType::Cluster).map(|key| &key.name))
        }
    }
}

/// A table that answers 404 to everything.
fn empty_table(name: &str) -> Bytes {
    let table = portolan_proto::envoy::route::RouteConfiguration { name: name.into(), ..Default::default() };
    table.encode_to_vec().into()
}

/// Walks the shorter of the two sides.
fn refers_to_any(resource: &Resource, keys: &BTreeSet<ResourceKey>) -> bool {
    let is_longer = match resource.body.content() {
        Content::Table(table) => table.clusters.size() > keys.len(),
        _ => resource.references.len() > keys.len(),
    };
    match resource.body.content() {
        _ if is_longer => keys.iter().any(|key| resource.refers_to(key)),
        Content::Table(table) => {
            let as_key = |name: &Arc<str>| key(ResourceType::Cluster, name);
            table.clusters.keys().any(|name| keys.contains(&as_key(name)))
        }
        _ => resource.references.iter().any(|key| keys.contains(key)),
    }
}

/// What the proxy has or is being sent that could name resources of a type, where it differs from the snapshot. The snapshot itself is
/// closed under references, so what is in step names nothing that is to be removed.
struct Users<'a> {
    named: BTreeSet<&'a ResourceKey>,
    tables: Vec<&'a Resource>,
    /// Something whose content is not known, which might name anything
    unknown: bool,
}

impl<'a> Users<'a> {
    fn of(stream: &'a Stream, kind: ResourceType) -> Self {
        let by: &[ResourceType] = match kind {
            ResourceType::Cluster => &[
                ResourceType::Cluster,
                ResourceType::Scope,
                ResourceType::Route,
                ResourceType::Extension,
                ResourceType::Listener,
            ],
            ResourceType::Endpoints => &[ResourceType::Cluster],
            ResourceType::Secret => &[ResourceType::Cluster, ResourceType::Listener],
            ResourceType::Scope => &[ResourceType::Listener],
            ResourceType::Route | ResourceType::Extension | ResourceType::Listener => &[],
        };
        let mut users = Self { named: BTreeSet::new(), tables: Vec::new(), unknown: false };
        for by in by {
            for (name, exception) in &stream.types[*by].exceptions {
                let is_probe = *by == ResourceType::Route && name.as_ref() == PROBE_TABLE;
                // Clusters that vanished while the proxy was away may name each other; waiting for one another they would never go.
                let counts = *by != kind && !is_probe;
                users.unknown |= counts && matches!(exception.has, Has::Unknown(_));
                for resource in exception.contents() {
                    match resource.body.content() {
                        Content::Table(_) => users.tables.push(resource),
                        _ => users.named.extend(resource.references.iter().filter(|key| key.kind == kind)),
                    }
                }
            }
        }
        users
    }

    fn use_it(&self, key: &ResourceKey) -> bool {
        self.unknown || self.named.contains(key) || self.tables.iter().any(|table| table.refers_to(key))
    }
}
