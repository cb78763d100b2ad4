//! No prefix of any push leaves a dangling reference, and the proxy ends with what the snapshot has: over random snapshots, orders of
//! delivery, refusals and reconnects, to this replica or another; one of two is cut off at times, and then changes nothing that a proxy has.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Instant;

use portolan_proto::ResourceType::{Cluster, Endpoints, Extension, Listener, Route, Scope, Secret};
use portolan_proto::envoy::discovery::DeltaDiscoveryRequest;
use portolan_proto::{Change, DeltaResponse, Resource, ResourceKey, ResourceType, Version};
use proptest::prelude::*;

use super::client::{Client, key, resource};
use crate::core::fleet::Fleet;
use crate::core::limits::Limits;
use crate::transition::StreamId;

/// A world: per resource an edition and which others it names, as far as these exist.
#[derive(Clone)]
struct World {
    clusters: Vec<Option<u8>>,
    endpoints: Vec<u8>,
    tables: Vec<Option<(u8, u8)>>,
    scopes: Vec<Option<(u8, u8)>>,
    extensions: Vec<Option<(u8, u8)>>,
    listeners: Vec<Option<(u8, u8, u8)>>,
}

/// In one line, to be read when a case fails.
impl std::fmt::Debug for World {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names = |keys: &[ResourceKey]| keys.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        for (key, resource) in self.resources() {
            write!(f, "{key}@{:02x} -> [{}]; ", resource.version.0 & 0xff, names(&resource.references))?;
        }
        Ok(())
    }
}

fn world() -> impl Strategy<Value = World> {
    let some = |edition: u8| prop::option::of(0..edition);
    (
        prop::collection::vec(some(3), 5),
        prop::collection::vec(0_u8..3, 5),
        prop::collection::vec(prop::option::of((0_u8..3, any::<u8>())), 3),
        prop::collection::vec(prop::option::of((0_u8..2, any::<u8>())), 2),
        prop::collection::vec(prop::option::of((0_u8..2, any::<u8>())), 2),
        prop::collection::vec(prop::option::of((0_u8..3, any::<u8>(), any::<u8>())), 3),
    )
        .prop_map(|(clusters, endpoints, tables, scopes, extensions, listeners)| World {
            clusters,
            endpoints,
            tables,
            scopes,
            extensions,
            listeners,
        })
}

impl World {
    /// The world's resources, closed under references.
    fn resources(&self) -> BTreeMap<ResourceKey, Arc<Resource>> {
        let mut all = BTreeMap::new();
        let picked = |kind, mask: u8, present: &[bool]| -> Vec<ResourceKey> {
            let is_picked = |index: &usize| mask & (1 << index) != 0 && present[*index];
            (0..present.len()).filter(is_picked).map(|index| key(kind, &index.to_string())).collect()
        };
        let mut add = |kind: ResourceType, index: usize, edition: u8, references: &[ResourceKey]| {
            let name = index.to_string();
            let version = Version::of(format!("{kind:?} {name} {edition} {references:?}").as_bytes());
            let resource = resource(kind, &name, version.0, references);
            all.insert(resource.key.clone(), resource);
        };
        let clusters: Vec<_> = self.clusters.iter().map(Option::is_some).collect();
        let tables: Vec<_> = self.tables.iter().map(Option::is_some).collect();
        let extensions: Vec<_> = self.extensions.iter().map(Option::is_some).collect();
        for (index, edition) in self.clusters.iter().enumerate() {
            if let Some(edition) = edition {
                let name = index.to_string();
                let secret = (index == 0).then(|| key(Secret, &name));
                let references: Vec<_> = [key(Endpoints, &name)].into_iter().chain(secret).collect();
                add(Cluster, index, *edition, &references);
                add(Endpoints, index, self.endpoints[index], &[]);
                if index == 0 {
                    add(Secret, index, self.endpoints[1], &[]);
                }
            }
        }
        for (kind, list) in [(Route, &self.tables), (Scope, &self.scopes), (Extension, &self.extensions)] {
            for (index, entry) in list.iter().enumerate() {
                if let Some((edition, mask)) = entry {
                    add(kind, index, *edition, &picked(Cluster, *mask, &clusters));
                }
            }
        }
        for (index, entry) in self.listeners.iter().enumerate() {
            if let Some((edition, mask, named)) = entry {
                let cluster = picked(Cluster, *named >> 5, &clusters);
                let all = [picked(Route, *named, &tables), picked(Extension, *named >> 3, &extensions), cluster];
                add(Listener, index, edition + 4 * (mask & 1), &all.concat());
            }
        }
        all
    }
}

#[derive(Clone, Debug)]
enum Step {
    Publish(World),
    /// The proxy reads the next response
    Response,
    /// The server reads the next request
    Request,
    Reconnect,
    /// The proxy connects to the other replica
    Move,
    /// The first replica hears of nothing any more, or of everything again
    Cut(bool),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        3 => world().prop_map(Step::Publish),
        8 => Just(Step::Response),
        8 => Just(Step::Request),
        1 => Just(Step::Reconnect),
        1 => Just(Step::Move),
        1 => any::<bool>().prop_map(Step::Cut),
    ];
    prop::collection::vec(step, 1..80)
}

struct Run {
    /// Of two replicas. The first one is the one that may be cut off
    fleets: [Fleet; 2],
    /// Which one the proxy is connected to
    at: usize,
    is_cut_off: bool,
    client: Client,
    stream: u64,
    current: BTreeMap<ResourceKey, Arc<Resource>>,
    history: BTreeMap<(ResourceKey, Version), Arc<Resource>>,
    /// With whether a replica sent it that was cut off
    to_client: VecDeque<(DeltaResponse, bool)>,
    to_server: VecDeque<DeltaDiscoveryRequest>,
    now: Instant,
    refuses: bool,
    /// Names of which some content is refused, which excuses references to them
    bad: BTreeSet<ResourceKey>,
}

impl Run {
    fn new(refuses: bool) -> Self {
        let limits = Limits { response_bytes: 40, ..Limits::default() };
        let mut run = Self {
            fleets: [Fleet::new(Arc::new(limits.clone()), 0), Fleet::new(Arc::new(limits), 0)],
            at: 0,
            is_cut_off: false,
            client: Client::default(),
            stream: 0,
            current: BTreeMap::new(),
            history: BTreeMap::new(),
            to_client: VecDeque::new(),
            to_server: VecDeque::new(),
            now: Instant::now(),
            refuses,
            bad: BTreeSet::new(),
        };
        run.reconnect(0);
        run
    }

    fn is_bad(&self, resource: &Resource) -> bool {
        self.refuses && resource.version.0.is_multiple_of(5)
    }

    fn reconnect(&mut self, to: usize) {
        self.fleets[self.at].close(StreamId(self.stream));
        self.stream += 1;
        self.at = to;
        self.fleets[self.at].open(StreamId(self.stream));
        self.to_client.clear();
        self.to_server.clear();
        self.client.connect();
        self.to_server.extend(self.client.requests.drain(..));
    }

    fn publish(&mut self, world: &World) {
        let next = world.resources();
        let gone = self.current.keys().filter(|key| !next.contains_key(*key));
        let mut changes: Vec<_> = gone.map(|key| Change { key: key.clone(), resource: None }).collect();
        changes.extend(next.values().map(|new| Change { key: new.key.clone(), resource: Some(Arc::clone(new)) }));
        for resource in next.values() {
            self.history.insert((resource.key.clone(), resource.version), Arc::clone(resource));
            if self.is_bad(resource) {
                self.bad.insert(resource.key.clone());
            }
        }
        self.current = next;
        if !self.is_cut_off {
            self.fleets[0].publish(changes.clone());
        }
        self.fleets[1].publish(changes);
        self.poll();
    }

    fn poll(&mut self) {
        let responses = self.fleets[self.at].poll(StreamId(self.stream), self.now).unwrap();
        self.send(responses);
    }

    fn send(&mut self, responses: Vec<DeltaResponse>) {
        let is_cut_off = self.is_cut_off && self.at == 0;
        self.to_client.extend(responses.into_iter().map(|response| (response, is_cut_off)));
    }

    fn cut(&mut self, is_cut_off: bool) {
        if self.is_cut_off && !is_cut_off {
            let known = self.fleets[0].snapshot().iter().map(|resource| resource.key.clone());
            let gone = known.filter(|key| !self.current.contains_key(key));
            let mut changes: Vec<_> = gone.map(|key| Change { key, resource: None }).collect();
            changes.extend(
                self.current.values().map(|new| Change { key: new.key.clone(), resource: Some(Arc::clone(new)) }),
            );
            self.fleets[0].publish(changes);
        }
        self.is_cut_off = is_cut_off;
        self.fleets[0].set_cut_off(is_cut_off);
        self.poll();
    }

    fn response(&mut self) -> Result<bool, TestCaseError> {
        let Some((response, is_cut_off)) = self.to_client.pop_front() else { return Ok(false) };
        let names: Vec<_> = response.resources.iter().map(|r| &r.name).chain(&response.removed).collect();
        prop_assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len(), "a name twice in one response");
        if is_cut_off && !self.refuses {
            self.check_harmless(&response)?;
        }
        let lookup = |key: &ResourceKey, version| self.history.get(&(key.clone(), version)).cloned();
        let refuses = self.refuses;
        self.client.apply(&response, &lookup, |resource| refuses && resource.version.0.is_multiple_of(5));
        let dangling = self.client.dangling();
        let unexcused: Vec<_> = dangling.iter().filter(|(_, cluster)| !self.bad.contains(cluster)).collect();
        prop_assert!(unexcused.is_empty(), "dangling after {response:?}: {unexcused:?}");
        self.to_server.extend(self.client.requests.drain(..));
        Ok(true)
    }

    fn request(&mut self) -> bool {
        let Some(request) = self.to_server.pop_front() else { return false };
        let responses = self.fleets[self.at].on_request(StreamId(self.stream), request, self.now).unwrap();
        self.send(responses);
        true
    }

    /// Changes nothing that the proxy holds.
    fn check_harmless(&self, response: &DeltaResponse) -> Result<(), TestCaseError> {
        let kind = super::client::kind(response);
        let held = |name: &Arc<str>| self.client.holds(&ResourceKey { kind, name: Arc::clone(name) });
        for resource in &response.resources {
            let sent = crate::core::wire_version::read(&resource.version);
            let held = held(&resource.name);
            prop_assert!(held.is_none() || held == sent, "{kind:?} {} is changed", resource.name);
        }
        for name in &response.removed {
            prop_assert_eq!(held(name), None, "{:?} {} is removed", kind, name);
        }
        Ok(())
    }

    fn step(&mut self, step: &Step) -> Result<(), TestCaseError> {
        match step {
            Step::Publish(world) => self.publish(world),
            Step::Response => _ = self.response()?,
            Step::Request => _ = self.request(),
            Step::Reconnect => self.reconnect(self.at),
            Step::Move => self.reconnect(1 - self.at),
            Step::Cut(is_cut_off) => self.cut(*is_cut_off),
        }
        Ok(())
    }

    /// Delivers everything that is on its way. Fails if that does not end.
    fn drain(&mut self) -> Result<(), TestCaseError> {
        for _ in 0..5_000 {
            if !self.request() && !self.response()? {
                return Ok(());
            }
        }
        Err(TestCaseError::fail("messages do not end"))
    }

    fn check_converged(&self) -> Result<(), TestCaseError> {
        let followed = |key: &ResourceKey| key.kind.is_wildcard() || self.client.subscribed().any(|name| name == key);
        for (key, wanted) in self.current.iter().filter(|(key, _)| followed(key)) {
            let has = self.client.has.get(key).map(|resource| resource.version);
            if self.is_bad(wanted) {
                prop_assert_ne!(has, Some(wanted.version), "{} was refused", key);
            } else {
                prop_assert_eq!(has, Some(wanted.version), "{} did not arrive", key);
            }
        }
        for key in self.client.subscribed().filter(|key| key.kind != Extension) {
            let is_bad = self.bad.contains(key);
            prop_assert!(is_bad || self.client.answered.contains(key), "{} was not answered", key);
        }
        if self.bad.is_empty() {
            let extra = self.client.has.keys().find(|key| key.kind != Secret && !self.current.contains_key(*key));
            prop_assert_eq!(extra, None, "a leftover");
        }
        Ok(())
    }
}

fn run(steps: &[Step], refuses: bool) -> Result<(), TestCaseError> {
    let mut run = Run::new(refuses);
    for step in steps {
        run.step(step)?;
    }
    run.cut(false);
    run.drain()?;
    run.check_converged()?;
    let again: Vec<_> =
        run.current.values().map(|old| Change { key: old.key.clone(), resource: Some(Arc::clone(old)) }).collect();
    run.fleets.iter_mut().for_each(|fleet| _ = fleet.publish(again.clone()));
    run.poll();
    prop_assert!(run.to_client.is_empty(), "sent although nothing changed: {:?}", run.to_client);
    // A new proxy is given everything even so.
    run.cut(true);
    run.client = Client::default();
    run.reconnect(0);
    run.drain()?;
    run.check_converged()
}

proptest! {
    // 256 cases, or PROPTEST_CASES; a failing one is kept in the test's output, not in a file.
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_prefix_dangles_and_the_proxy_converges(steps in steps()) {
        run(&steps, false)?;
    }

    #[test]
    fn refusals_hold_nothing_else_up(steps in steps()) {
        run(&steps, true)?;
    }
}
