//! No prefix of any push leaves a dangling reference, and the proxy ends with what the snapshot has: over random snapshots, orders of
//! delivery, refusals and reconnects.

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
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        3 => world().prop_map(Step::Publish),
        8 => Just(Step::Response),
        8 => Just(Step::Request),
        1 => Just(Step::Reconnect),
    ];
    prop::collection::vec(step, 1..80)
}

struct Run {
    fleet: Fleet,
    client: Client,
    stream: u64,
    current: BTreeMap<ResourceKey, Arc<Resource>>,
    history: BTreeMap<(ResourceKey, Version), Arc<Resource>>,
    to_client: VecDeque<DeltaResponse>,
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
            fleet: Fleet::new(Arc::new(limits), 0),
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
        run.reconnect();
        run
    }

    fn is_bad(&self, resource: &Resource) -> bool {
        self.refuses && resource.version.0.is_multiple_of(5)
    }

    fn reconnect(&mut self) {
        self.fleet.close(StreamId(self.stream));
        self.stream += 1;
        self.fleet.open(StreamId(self.stream));
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
        self.fleet.publish(changes);
        let responses = self.fleet.poll(StreamId(self.stream), self.now).unwrap();
        self.to_client.extend(responses);
    }

    fn response(&mut self) -> Result<bool, TestCaseError> {
        let Some(response) = self.to_client.pop_front() else { return Ok(false) };
        let names: Vec<_> = response.resources.iter().map(|r| &r.name).chain(&response.removed).collect();
        prop_assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len(), "a name twice in one response");
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
        let responses = self.fleet.on_request(StreamId(self.stream), request, self.now).unwrap();
        self.to_client.extend(responses);
        true
    }

    fn step(&mut self, step: &Step) -> Result<(), TestCaseError> {
        match step {
            Step::Publish(world) => self.publish(world),
            Step::Response => _ = self.response()?,
            Step::Request => _ = self.request(),
            Step::Reconnect => self.reconnect(),
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
    run.drain()?;
    run.check_converged()?;
    let again = run.current.values().map(|old| Change { key: old.key.clone(), resource: Some(Arc::clone(old)) });
    run.fleet.publish(again.collect());
    let responses = run.fleet.poll(StreamId(run.stream), run.now).unwrap();
    prop_assert!(responses.is_empty(), "sent although nothing changed: {responses:?}");
    Ok(())
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
