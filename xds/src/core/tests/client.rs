//! A proxy as far as the protocol shows it: subscribes as Envoy does, applies responses, accepts or refuses them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use portolan_proto::envoy::discovery::DeltaDiscoveryRequest;
use portolan_proto::envoy::rpc;
use portolan_proto::{Body, Change, Content, DeltaResponse, Resource, ResourceKey, ResourceType, Version};

use crate::core::event::Event;
use crate::core::fleet::Fleet;
use crate::core::limits::Limits;
use crate::core::wire_version;
use crate::transition::StreamId;

pub(super) const ID: StreamId = StreamId(1);

pub(super) fn key(kind: ResourceType, name: &str) -> ResourceKey {
    ResourceKey::new(kind, name)
}

/// A resource whose message is its version, which is all that the client needs to look it up.
pub(super) fn resource(kind: ResourceType, name: &str, version: u128, references: &[ResourceKey]) -> Arc<Resource> {
    let mut references = references.to_vec();
    references.sort();
    Arc::new(Resource {
        key: key(kind, name),
        version: Version(version),
        body: Body::new(Content::Message(version.to_be_bytes().to_vec().into())),
        references: references.into(),
        origins: Arc::from([]),
    })
}

pub(super) fn held(kind: ResourceType, name: &str, version: u128) -> Arc<Resource> {
    let Resource { key, version, references, origins, .. } =
        Arc::into_inner(resource(kind, name, version, &[])).unwrap();
    Arc::new(Resource { key, version, body: Body::new(Content::Held), references, origins })
}

pub(super) fn set(resource: Arc<Resource>) -> Change {
    Change { key: resource.key.clone(), resource: Some(resource) }
}

pub(super) fn gone(kind: ResourceType, name: &str) -> Change {
    Change { key: key(kind, name), resource: None }
}

/// What one response did.
pub(super) type Sent = (ResourceType, Vec<String>, Vec<String>);

/// A fleet with one proxy on it, for tests that say each message.
pub(super) struct Bench {
    pub(super) fleet: Fleet,
    pub(super) now: Instant,
}

impl Bench {
    pub(super) fn new(changes: Vec<Change>) -> Self {
        Self::with(Limits::default(), changes)
    }

    pub(super) fn with(limits: Limits, changes: Vec<Change>) -> Self {
        let mut fleet = Fleet::new(Arc::new(limits), 0);
        fleet.publish(changes);
        fleet.open(ID);
        Self { fleet, now: Instant::now() }
    }

    pub(super) fn request(&mut self, request: DeltaDiscoveryRequest) -> Vec<DeltaResponse> {
        self.fleet.on_request(ID, request, self.now).unwrap()
    }

    pub(super) fn publish(&mut self, changes: Vec<Change>) -> Vec<DeltaResponse> {
        self.fleet.publish(changes);
        self.poll()
    }

    pub(super) fn poll(&mut self) -> Vec<DeltaResponse> {
        self.fleet.poll(ID, self.now).unwrap()
    }

    pub(super) fn later(&mut self, by: Duration) {
        self.now += by;
    }

    /// Accepts a response; what that releases.
    pub(super) fn accept(&mut self, response: &DeltaResponse) -> Vec<DeltaResponse> {
        self.request(ack(response))
    }

    pub(super) fn refuse(&mut self, response: &DeltaResponse, text: &str) -> Vec<DeltaResponse> {
        self.request(nack(response, text))
    }

    /// Accepts responses, and what they release, until nothing comes any more; all of them in order.
    pub(super) fn accept_all(&mut self, responses: Vec<DeltaResponse>) -> Vec<DeltaResponse> {
        let mut queue = std::collections::VecDeque::from(responses);
        let mut seen = Vec::new();
        while let Some(response) = queue.pop_front() {
            queue.extend(self.accept(&response));
            seen.push(response);
            assert!(seen.len() < 1_000, "responses do not end");
        }
        seen
    }

    pub(super) fn events(&mut self) -> Vec<Event> {
        self.fleet.take_events()
    }
}

pub(super) fn subscribe(kind: ResourceType, names: &[&str]) -> DeltaDiscoveryRequest {
    DeltaDiscoveryRequest {
        type_url: kind.type_url().into(),
        resource_names_subscribe: names.iter().map(ToString::to_string).collect(),
        ..Default::default()
    }
}

pub(super) fn unsubscribe(kind: ResourceType, names: &[&str]) -> DeltaDiscoveryRequest {
    DeltaDiscoveryRequest {
        type_url: kind.type_url().into(),
        resource_names_unsubscribe: names.iter().map(ToString::to_string).collect(),
        ..Default::default()
    }
}

pub(super) fn resume(kind: ResourceType, names: &[&str], has: &[(&str, u128)]) -> DeltaDiscoveryRequest {
    let versions =
        has.iter().map(|(name, version)| ((*name).to_string(), wire_version::write(Version(*version), None)));
    DeltaDiscoveryRequest { initial_resource_versions: versions.collect(), ..subscribe(kind, names) }
}

pub(super) fn ack(response: &DeltaResponse) -> DeltaDiscoveryRequest {
    DeltaDiscoveryRequest {
        type_url: response.type_url.into(),
        response_nonce: response.nonce.clone(),
        ..Default::default()
    }
}

pub(super) fn nack(response: &DeltaResponse, text: &str) -> DeltaDiscoveryRequest {
    let error_detail = Some(rpc::Status { code: 3, message: text.into(), ..Default::default() });
    DeltaDiscoveryRequest { error_detail, ..ack(response) }
}

pub(super) fn kind(response: &DeltaResponse) -> ResourceType {
    ResourceType::from_type_url(response.type_url).unwrap()
}

pub(super) fn summary(responses: &[DeltaResponse]) -> Vec<Sent> {
    let text = |names: Vec<&Arc<str>>| names.into_iter().map(ToString::to_string).collect();
    responses
        .iter()
        .map(|response| {
            let names = response.resources.iter().map(|resource| &resource.name).collect();
            (kind(response), text(names), text(response.removed.iter().collect()))
        })
        .collect()
}

pub(super) fn sent(kind: ResourceType, names: &[&str], removed: &[&str]) -> Sent {
    let text = |names: &[&str]| names.iter().map(ToString::to_string).collect();
    (kind, text(names), text(removed))
}

/// The simulated proxy of the property test.
#[derive(Default)]
pub(super) struct Client {
    pub(super) has: BTreeMap<ResourceKey, Arc<Resource>>,
    wire_versions: BTreeMap<ResourceKey, String>,
    subscribed: BTreeSet<ResourceKey>,
    /// Tables and endpoints that were answered to be absent or stood in for
    pub(super) answered: BTreeSet<ResourceKey>,
    /// Requests on their way to the server
    pub(super) requests: Vec<DeltaDiscoveryRequest>,
}

/// Finds a resource by type, name and wire version.
pub(super) type Lookup<'a> = dyn Fn(&ResourceKey, Version) -> Option<Arc<Resource>> + 'a;

impl Client {
    /// The first requests on a new stream, in Envoy's order; everything by name is asked for again.
    pub(super) fn connect(&mut self) {
        self.requests.clear();
        for kind in ResourceType::ALL {
            let names: Vec<_> =
                self.subscribed.iter().filter(|key| key.kind == kind).map(|key| key.name.to_string()).collect();
            if kind.is_wildcard() || !names.is_empty() {
                let versions = self.wire_versions.iter().filter(|(key, _)| key.kind == kind);
                let initial = versions.map(|(key, version)| (key.name.to_string(), version.clone())).collect();
                self.requests.push(DeltaDiscoveryRequest {
                    type_url: kind.type_url().into(),
                    resource_names_subscribe: names,
                    initial_resource_versions: initial,
                    ..Default::default()
                });
            }
        }
    }

    /// Applies a response. Like Envoy, takes the good ones of clusters, listeners and endpoints although it refuses the response for
    /// a bad one, and nothing of other types.
    pub(super) fn apply(&mut self, response: &DeltaResponse, lookup: &Lookup<'_>, is_bad: impl Fn(&Resource) -> bool) {
        let kind = kind(response);
        let found: Vec<_> = response
            .resources
            .iter()
            .map(|item| {
                let version = wire_version::read(&item.version).expect("a version of ours");
                (item, lookup(&ResourceKey { kind, name: Arc::clone(&item.name) }, version))
            })
            .collect();
        let bad: BTreeSet<_> = found
            .iter()
            .filter_map(|(item, resource)| resource.as_ref().filter(|r| is_bad(r)).map(|_| Arc::clone(&item.name)))
            .collect();
        let partly = matches!(kind, ResourceType::Cluster | ResourceType::Listener | ResourceType::Endpoints);
        if bad.is_empty() || partly {
            for (item, resource) in found.iter().filter(|(item, _)| !bad.contains(&item.name)) {
                let key = ResourceKey { kind, name: Arc::clone(&item.name) };
                // What comes after the proxy has unsubscribed is ignored.
                if !kind.is_wildcard() && !self.subscribed.contains(&key) {
                    continue;
                }
                self.answered.insert(key.clone());
                self.wire_versions.insert(key.clone(), item.version.clone());
                match resource {
                    Some(resource) => self.has.insert(key, Arc::clone(resource)),
                    None => self.has.remove(&key),
                };
            }
            for name in &response.removed {
                let key = ResourceKey { kind, name: Arc::clone(name) };
                assert!(!matches!(kind, ResourceType::Route | ResourceType::Extension), "{key} is never removed");
                self.answered.insert(key.clone());
                self.wire_versions.remove(&key);
                // A secret in use stays (envoy-l4-secrets-drain.md 4.2).
                if kind != ResourceType::Secret {
                    self.has.remove(&key);
                }
            }
        }
        let text = "bad";
        self.requests.push(if bad.is_empty() { ack(response) } else { nack(response, text) });
        self.follow();
    }

    /// Subscribes to what clusters and listeners name, and lets go of the rest.
    fn follow(&mut self) {
        let by_name = |key: &&ResourceKey| !key.kind.is_wildcard();
        let holders = self.has.values().filter(|resource| resource.key.kind.is_wildcard());
        let named: BTreeSet<_> = holders.flat_map(|r| r.references.iter()).filter(by_name).cloned().collect();
        for kind in ResourceType::ALL {
            let of_kind = |keys: Vec<&ResourceKey>| -> Vec<String> {
                keys.into_iter().filter(|key| key.kind == kind).map(|key| key.name.to_string()).collect()
            };
            let new = of_kind(named.difference(&self.subscribed).collect());
            let old = of_kind(self.subscribed.difference(&named).collect());
            if !new.is_empty() || !old.is_empty() {
                self.requests.push(DeltaDiscoveryRequest {
                    type_url: kind.type_url().into(),
                    resource_names_subscribe: new,
                    resource_names_unsubscribe: old,
                    ..Default::default()
                });
            }
        }
        for dropped in self.subscribed.difference(&named) {
            self.has.remove(dropped);
            self.wire_versions.remove(dropped);
            self.answered.remove(dropped);
        }
        self.subscribed = named;
    }

    /// References of what the proxy has to clusters that it does not have.
    pub(super) fn dangling(&self) -> Vec<(ResourceKey, ResourceKey)> {
        let of_cluster = |key: &&ResourceKey| key.kind == ResourceType::Cluster && !self.has.contains_key(*key);
        self.has
            .values()
            .flat_map(|user| user.references.iter().filter(of_cluster).map(|key| (user.key.clone(), key.clone())))
            .collect()
    }

    /// The version that it would report to have.
    pub(super) fn holds(&self, key: &ResourceKey) -> Option<Version> {
        self.wire_versions.get(key).and_then(|version| wire_version::read(version))
    }

    pub(super) fn subscribed(&self) -> impl Iterator<Item = &ResourceKey> {
        self.subscribed.iter()
    }
}
