//! Finds what a proxy refuses in a route table, without touching live traffic.
//!
//! Envoy refuses a table as a whole, and its text often names no place (envoy-l4-secrets-drain.md 5.1). So parts of the table are sent
//! under the name [`PROBE_TABLE`], which only a connection manager on a listener without a socket uses: first sets of hosts, then sets of
//! one host's routes. At the smallest part the text is whole.

use std::sync::Arc;

use bytes::Bytes;
use portolan_proto::{Content, HostTable, Origin, PROBE_TABLE, Resource, Unit, Version, VirtualHostBody};

use super::search::Search;

/// What a proxy refused, as small as it could be found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Culprit {
    /// The route's version, or the virtual host's where none of its routes is to blame alone; `None`: the table as a whole
    pub(crate) unit: Option<Version>,
    pub(crate) origins: Vec<Origin>,
    /// Envoy's words for it
    pub(crate) text: String,
}

/// A search through one version of one table.
#[derive(Debug)]
pub(crate) struct Probe {
    resource: Arc<Resource>,
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

impl Probe {
    /// A search through `resource`, which was refused with `text`; `held` is what the proxy accepted before. `None` when it is not a
    /// table of hosts.
    pub(crate) fn new(resource: Arc<Resource>, held: Option<&Resource>, text: String) -> Option<Self> {
        let Content::Table(table) = resource.body.content() else { return None };
        let table = table.clone();
        let held = held.and_then(|held| match held.body.content() {
            Content::Table(table) => Some(table),
            _ => None,
        });
        let was_accepted = |host: &Arc<VirtualHostBody>, name: &Arc<str>| {
            held.and_then(|held| held.hosts.get(name)).is_some_and(|old| old.version == host.version)
        };
        let (mut hosts, changed): (Vec<_>, Vec<_>) =
            table.hosts.iter().partition(|(name, host)| was_accepted(host, name));
        let known = hosts.len();
        hosts.extend(changed);
        let hosts = hosts.into_iter().map(|(_, host)| Arc::clone(host)).collect();
        Some(Self { resource, table, text, hosts: Search::new(hosts, known), routes: None })
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
    pub(crate) fn answer(&mut self, failure: Option<String>) -> Option<Culprit> {
        if let Some(mut inner) = self.routes.take() {
            let (culprit, ended) = inner.answer(failure);
            if !ended {
                self.routes = Some(inner);
            }
            return culprit.or_else(|| self.as_a_whole());
        }
        if let Some((host, text)) = self.hosts.answer(failure) {
            let routes = Search::new(host.routes.to_vec(), 0);
            self.routes = Some(InHost { host: Arc::clone(host), text: text.clone(), head_passed: false, routes });
            return None;
        }
        self.as_a_whole()
    }

    /// When the search ends without a culprit, the table is reported as one.
    fn as_a_whole(&self) -> Option<Culprit> {
        let ended = self.routes.is_none() && self.hosts.trial().is_none();
        (ended && !self.hosts.has_found()).then(|| Culprit {
            unit: None,
            origins: self.resource.origins.to_vec(),
            text: self.text.clone(),
        })
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
            unit: Some(unit.version),
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
        let mut origins: Vec<_> = self.host.routes.iter().map(|unit| unit.origin.clone()).collect();
        origins.sort_unstable();
        origins.dedup();
        Culprit { unit: Some(self.host.version), origins, text: self.text.clone() }
    }
}
