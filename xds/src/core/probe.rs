//! Finds what a proxy refuses in a route table, without touching live traffic.
//!
//! Envoy refuses a table as a whole, and its text often names no place (envoy-l4-secrets-drain.md 5.1). So parts of the table are sent
//! under the name [`PROBE_TABLE`], which only a connection manager on a listener without a socket uses: first sets of hosts, then sets of
//! one host's routes. At the smallest part the text is whole.

use std::sync::Arc;

use bytes::Bytes;
use portolan_proto::{Content, HostTable, Origin, PROBE_TABLE, Part, Resource, Unit, VirtualHostBody};

use super::event::Event;
use super::search::Search;

/// What a proxy refused, as small as it could be found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Culprit {
    pub(crate) part: Part,
    pub(crate) origins: Vec<Origin>,
    /// Envoy's words for it
    pub(crate) text: String,
}

/// A search through one version of one table.
#[derive(Debug)]
pub(crate) struct Probe {
    resource: Arc<Resource>,
    /// What the proxy accepted before
    held: Option<Arc<Resource>>,
    table: HostTable,
    /// What Envoy said of the whole
    text: String,
    hosts: Search<Arc<VirtualHostBody>>,
    routes: Option<InHost>,
}

/// The search through the routes of a host that fails alone.
#[derive(Debug)]
struct InHost {
    host: Arc<VirtualHostBody>,
    text: String,
    /// Whether the host without any route has passed
    head_passed: bool,
    routes: Search<Unit>,
}

impl Culprit {
    /// As the world is told of it.
    pub(crate) fn told(self, resource: &Resource) -> Event {
        let Self { part, origins, text } = self;
        Event::Refused { key: resource.key.clone(), version: Some(resource.version), part, origins, text }
    }

    fn host(host: &VirtualHostBody, text: &str) -> Self {
        let mut origins: Vec<_> = host.routes.iter().map(|unit| unit.origin.clone()).collect();
        origins.sort_unstable();
        origins.dedup();
        Self { part: Part::Host(Arc::clone(&host.name), host.version), origins, text: text.into() }
    }
}

/// The culprits where no search can be made, or none finds any: the hosts of a table that the proxy has not accepted before, so that
/// those that it serves well are left alone; the resource as a whole where it has accepted none.
pub(crate) fn presumed(resource: &Resource, held: Option<&Arc<Resource>>, text: &str) -> Vec<Culprit> {
    let whole = || Culprit { part: Part::Whole, origins: resource.origins.to_vec(), text: text.into() };
    let (Content::Table(table), Some(held)) = (resource.body.content(), held) else { return vec![whole()] };
    let (_, changed) = by_acceptance(table, Some(held));
    if changed.is_empty() { vec![whole()] } else { changed.iter().map(|host| Culprit::host(host, text)).collect() }
}

/// The hosts that were in what the proxy accepted, and the others.
fn by_acceptance(
    table: &HostTable,
    held: Option<&Arc<Resource>>,
) -> (Vec<Arc<VirtualHostBody>>, Vec<Arc<VirtualHostBody>>) {
    let held = held.and_then(|held| match held.body.content() {
        Content::Table(table) => Some(table),
        _ => None,
    });
    let was_accepted = |host: &Arc<VirtualHostBody>| {
        held.and_then(|held| held.hosts.get(&host.name)).is_some_and(|old| old.version == host.version)
    };
    table.hosts.values().cloned().partition(was_accepted)
}

impl Probe {
    /// A search through `resource`, which was refused with `text`; `held` is what the proxy accepted before. `None` when it is not a
    /// table of hosts.
    pub(crate) fn new(resource: Arc<Resource>, held: Option<&Arc<Resource>>, text: String) -> Option<Self> {
        let Content::Table(table) = resource.body.content() else { return None };
        let table = table.clone();
        let (mut hosts, changed) = by_acceptance(&table, held);
        let known = hosts.len();
        hosts.extend(changed);
        let held = held.cloned();
        Some(Self { resource, held, table, text, hosts: Search::new(hosts, known), routes: None })
    }

    pub(crate) const fn resource(&self) -> &Arc<Resource> {
        &self.resource
    }

    /// The table to send next; `None` when the search has ended.
    pub(crate) fn trial(&self) -> Option<Bytes> {
        let part = |hosts: &[&VirtualHostBody]| self.table.encode_part(PROBE_TABLE, hosts);
        if let Some(InHost { host, head_passed, routes, .. }) = &self.routes {
            let tried = if *head_passed { routes.trial().unwrap_or_default() } else { &[] };
            let host = VirtualHostBody { routes: tried.to_vec().into(), ..VirtualHostBody::clone(host) };
            return Some(part(&[&host]));
        }
        let hosts: Vec<_> = self.hosts.trial()?.iter().map(Arc::as_ref).collect();
        Some(part(&hosts))
    }

    /// What came of the last trial: the text of the refusal, if it was refused. Returns what has been found out by it.
    pub(crate) fn answer(&mut self, failure: Option<String>) -> Vec<Culprit> {
        if let Some(mut inner) = self.routes.take() {
            let (culprit, ended) = inner.answer(failure);
            if !ended {
                self.routes = Some(inner);
            }
            return culprit.map_or_else(|| self.without_culprit(), |culprit| vec![culprit]);
        }
        if let Some((host, text)) = self.hosts.answer(failure) {
            let routes = Search::new(host.routes.to_vec(), 0);
            self.routes = Some(InHost { host: Arc::clone(host), text: text.clone(), head_passed: false, routes });
            return Vec::new();
        }
        self.without_culprit()
    }

    /// When the search ends without a culprit, it is presumed.
    fn without_culprit(&self) -> Vec<Culprit> {
        let ended = self.routes.is_none() && self.hosts.trial().is_none();
        if ended && !self.hosts.has_found() {
            return presumed(&self.resource, self.held.as_ref(), &self.text);
        }
        Vec::new()
    }
}

impl InHost {
    /// The culprit found by this trial, and whether the search through the host has ended.
    fn answer(&mut self, failure: Option<String>) -> (Option<Culprit>, bool) {
        if !self.head_passed {
            if failure.is_some() {
                return (Some(self.host_itself()), true);
            }
            self.head_passed = true;
            return (None, false);
        }
        let culprit = self.routes.answer(failure).map(|(unit, text)| Culprit {
            part: Part::Unit(unit.version),
            origins: vec![unit.origin.clone()],
            text: text.clone(),
        });
        let ended = self.routes.trial().is_none();
        if ended && culprit.is_none() && !self.routes.has_found() {
            return (Some(self.host_itself()), true);
        }
        (culprit, ended)
    }

    fn host_itself(&self) -> Culprit {
        Culprit::host(&self.host, &self.text)
    }
}
