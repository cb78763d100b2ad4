//! An API server, watches that lag behind it each in its own way, and reads that take their time: whatever the interleaving, nothing is lost,
//! nothing comes back, nothing that takes access away is delayed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use portolan_model::{Kind, NamespacedName, ObjectKey};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::super::follow::Heard;
use super::super::observe::{api_version, observe};
use super::super::wire::{Scope, Slim};
use super::{Answer, BRIEFLY, CONFIRM, Ingest, Item, LATEST, Order, What};
use crate::Observed;

const KINDS: [Kind; 4] = [Kind::HTTPRoute, Kind::Service, Kind::EndpointSlice, Kind::ReferenceGrant];

fn key(kind: Kind, namespace: &str, name: &str) -> ObjectKey {
    ObjectKey::new(kind, NamespacedName::new(namespace, name))
}

fn scope(kind: Kind) -> Scope {
    Scope { kind, namespace: None, name: None }
}

fn service(name: &str) -> ObjectKey {
    key(Kind::Service, "b", name)
}

fn route(name: &str) -> ObjectKey {
    key(Kind::HTTPRoute, "a", name)
}

fn grant() -> ObjectKey {
    key(Kind::ReferenceGrant, "b", "grant")
}

/// The `spec` and what stands beside it.
fn body(key: &ObjectKey, content: u8) -> Value {
    let name = &*key.name.name;
    match key.kind {
        // The hostname is what it does not share with a route that differs in its backends alone.
        Kind::HTTPRoute => {
            let (backend, hostname) = (format!("s{}", content % 3), format!("h{}.x", content / 3 % 2));
            json!({"spec": {"hostnames": [hostname], "rules": [{"backendRefs": [{"name": backend, "namespace": "b", "port": 80}]}]}})
        }
        Kind::Service => json!({"spec": {"ports": [{"port": 80 + u16::from(content)}]}}),
        Kind::EndpointSlice => {
            json!({"addressType": "IPv4", "ports": [{"port": 1000 + u16::from(content)}], "endpoints": [],
            "metadata": {"labels": {"kubernetes.io/service-name": name.trim_start_matches('e')}}})
        }
        _ => json!({"spec": {"from": [{"group": "gateway.networking.k8s.io", "kind": "HTTPRoute", "namespace": "a"}],
            "to": [{"group": "", "kind": "Service", "name": format!("s{}", content % 3)}]}}),
    }
}

/// The API server.
#[derive(Default)]
struct Server {
    version: u64,
    objects: BTreeMap<ObjectKey, Observed>,
    /// Everything that ever happened: `true` where the object is there
    log: Vec<(Item, bool)>,
}

impl Server {
    fn apply(&mut self, key: &ObjectKey, content: u8) {
        self.version += 1;
        let uid =
            self.objects.get(key).map_or_else(|| format!("u{}", self.version), |known| known.meta.uid.to_string());
        let mut object = body(key, content);
        let metadata = json!({"name": &*key.name.name, "namespace": &*key.name.namespace, "uid": uid,
            "resourceVersion": self.version.to_string(), "labels": object["metadata"]["labels"]});
        object["metadata"] = metadata;
        let (key, observed) = observe(key.kind, &api_version(key.kind, "v1"), Slim(object)).unwrap();
        assert!(observed.object.is_some(), "{:?}", observed.violations);
        self.objects.insert(key.clone(), observed.clone());
        self.log.push(((key, observed), true));
    }

    fn delete(&mut self, key: &ObjectKey) {
        if let Some(mut observed) = self.objects.remove(key) {
            self.version += 1;
            observed.meta.resource_version = Arc::from(self.version.to_string());
            self.log.push(((key.clone(), observed), false));
        }
    }

    fn read(&self, what: &What) -> Vec<Item> {
        let is_meant = |(key, observed): &(&ObjectKey, &Observed)| match what {
            What::Object(object) => object == *key,
            What::All(kind, namespace) => *kind == key.kind && *namespace == key.name.namespace,
            What::Slices(service) => match &observed.object {
                Some(portolan_model::objects::Object::EndpointSlice(slice)) => slice.service.as_ref() == Some(service),
                _ => false,
            },
        };
        self.objects.iter().filter(is_meant).map(|(key, observed)| (key.clone(), observed.clone())).collect()
    }
}

#[derive(Clone, Debug)]
enum Step {
    Apply(ObjectKey, u8),
    Delete(ObjectKey),
    /// Deletes it and makes it again
    Replace(ObjectKey, u8),
    /// The watch of a kind hears its next event
    Hear(usize),
    /// It lists anew: begins, is served, has the answer
    List(usize, u8),
    /// A read is served
    Serve(u8),
    /// Its answer arrives
    Answer(u8),
    Fail(u8),
    Wait(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let objects = prop_oneof![
        3 => (0..2_u8).prop_map(|number| route(&format!("r{number}"))),
        3 => (0..3_u8).prop_map(|number| service(&format!("s{number}"))),
        2 => (0..3_u8).prop_map(|number| key(Kind::EndpointSlice, "b", &format!("es{number}"))),
        1 => Just(grant()),
    ];
    let objects = objects.boxed();
    prop_oneof![
        6 => (objects.clone(), 0..6_u8).prop_map(|(key, content)| Step::Apply(key, content)),
        3 => objects.clone().prop_map(Step::Delete),
        1 => (objects, 0..6_u8).prop_map(|(key, content)| Step::Replace(key, content)),
        14 => (0..KINDS.len()).prop_map(Step::Hear),
        2 => (0..KINDS.len(), 0..3_u8).prop_map(|(kind, stage)| Step::List(kind, stage)),
        4 => any::<u8>().prop_map(Step::Serve),
        4 => any::<u8>().prop_map(Step::Answer),
        1 => any::<u8>().prop_map(Step::Fail),
        4 => (0..400_u64).prop_map(Step::Wait),
    ]
}

/// A list that has been begun: once it is served, what it holds, its version, and how much of the log that is.
type List = Option<(Vec<Item>, u64, usize)>;

/// Everything together, and what has been told.
struct Simulation {
    server: Server,
    ingest: Ingest,
    now: Instant,
    /// By kind, how much of the log its watch has heard
    heard: [usize; KINDS.len()],
    /// By kind, a list under way
    lists: [Option<List>; KINDS.len()],
    ordered: Vec<Order>,
    served: Vec<(u64, Vec<Item>)>,
    told: BTreeMap<ObjectKey, Observed>,
    /// By key, the version that was told last; of a deletion, the version of what is gone
    versions: BTreeMap<ObjectKey, u64>,
    buried: BTreeSet<Arc<str>>,
    /// By key, since when the watch has known what is not told yet
    behind: BTreeMap<ObjectKey, (Instant, Duration)>,
}

impl Simulation {
    fn new() -> Self {
        let mut ingest = Ingest::new(false);
        let now = Instant::now();
        for kind in KINDS {
            ingest.hear(&scope(kind), Heard::Listing, now);
            ingest.hear(&scope(kind), Heard::Listed(Vec::new(), "0".to_owned()), now);
        }
        ingest.confirm();
        Self {
            server: Server::default(),
            ingest,
            now,
            heard: [0; KINDS.len()],
            lists: Default::default(),
            ordered: Vec::new(),
            served: Vec::new(),
            told: BTreeMap::new(),
            versions: BTreeMap::new(),
            buried: BTreeSet::new(),
            behind: BTreeMap::new(),
        }
    }

    fn act(&mut self, step: Step) {
        match step {
            Step::Apply(key, content) => self.server.apply(&key, content),
            Step::Delete(key) => self.server.delete(&key),
            Step::Replace(key, content) => {
                self.server.delete(&key);
                self.server.apply(&key, content);
            }
            Step::Hear(kind) => self.hear(kind),
            Step::List(kind, stage) => self.list(kind, stage),
            Step::Serve(which) => {
                if !self.ordered.is_empty() {
                    let order = self.ordered.remove(usize::from(which) % self.ordered.len());
                    self.served.push((order.id, self.server.read(&order.what)));
                }
            }
            Step::Answer(which) => {
                if !self.served.is_empty() {
                    let (id, found) = self.served.remove(usize::from(which) % self.served.len());
                    self.ingest.answered(id, Answer::Found(found), self.now);
                }
            }
            Step::Fail(which) => {
                if !self.ordered.is_empty() {
                    let order = self.ordered.remove(usize::from(which) % self.ordered.len());
                    self.ingest.answered(order.id, Answer::Failed, self.now);
                }
            }
            Step::Wait(milliseconds) => self.wait(Duration::from_millis(milliseconds)),
        }
        self.ordered.extend(self.ingest.orders());
    }

    fn hear(&mut self, kind: usize) {
        // What was released is in the batch.
        self.behind.retain(|key, _| self.ingest.holds.contains_key(key));
        // While it lists there is no watch.
        if self.lists[kind].is_some() {
            return;
        }
        let next = self
            .server
            .log
            .iter()
            .enumerate()
            .skip(self.heard[kind])
            .find(|(_, ((key, _), _))| key.kind == KINDS[kind]);
        let Some((position, (item, is_there))) = next.map(|(position, event)| (position, event.clone())) else {
            return;
        };
        self.heard[kind] = position + 1;
        let key = item.0.clone();
        let told_before = self.pending(&key);
        let is_last = !self.server.log.iter().skip(position + 1).any(|((other, _), _)| *other == key);
        let new = item.1.clone();
        self.ingest.hear(
            &scope(key.kind),
            if is_there { Heard::Applied(item) } else { Heard::Deleted(item) },
            self.now,
        );
        if is_last {
            self.judge(&key, is_there.then_some(&new), told_before.as_ref());
        }
    }

    /// The watch has said the newest of an object: is it on its way?
    fn judge(&mut self, key: &ObjectKey, new: Option<&Observed>, before: Option<&Observed>) {
        let is_told = self.pending(key).map(|observed| observed.meta.resource_version)
            == new.map(|observed| observed.meta.resource_version.clone());
        let version = |observed: &Observed| observed.object.clone();
        let may_wait = match (key.kind, new, before) {
            (Kind::Service | Kind::EndpointSlice, None, _) => CONFIRM,
            (Kind::HTTPRoute, Some(new), before) => match (version(new), before.and_then(version)) {
                (Some(new), Some(before)) if !super::super::references::differ_in_backends_alone(&new, &before) => {
                    BRIEFLY
                }
                _ => CONFIRM,
            },
            _ => Duration::ZERO,
        };
        assert!(is_told || may_wait > Duration::ZERO, "{key} must be told at once: {new:?}");
        if is_told {
            self.behind.remove(key);
        } else {
            let (since, limit) = self.behind.get(key).copied().unwrap_or((self.now, may_wait));
            self.behind.insert(key.clone(), (since, limit.min(may_wait)));
        }
    }

    /// What has been told, or will be with the batch.
    fn pending(&self, key: &ObjectKey) -> Option<Observed> {
        match self.ingest.batch.get(key) {
            Some(value) => value.clone(),
            None => self.told.get(key).cloned(),
        }
    }

    fn list(&mut self, kind: usize, stage: u8) {
        match (stage, &self.lists[kind]) {
            (0, None) => {
                self.ingest.hear(&scope(KINDS[kind]), Heard::Listing, self.now);
                self.lists[kind] = Some(None);
            }
            (1, Some(None)) => {
                let all = self.server.objects.iter().filter(|(key, _)| key.kind == KINDS[kind]);
                let all = all.map(|(key, observed)| (key.clone(), observed.clone())).collect();
                self.lists[kind] = Some(Some((all, self.server.version, self.server.log.len())));
            }
            (2, Some(Some(_))) => {
                let Some(Some((all, version, heard))) = self.lists[kind].take() else { unreachable!() };
                self.heard[kind] = heard;
                self.ingest.hear(&scope(KINDS[kind]), Heard::Listed(all, version.to_string()), self.now);
            }
            _ => {}
        }
    }

    fn wait(&mut self, time: Duration) {
        let end = self.now + time;
        while let Some(due) = self.ingest.due().filter(|due| *due <= end) {
            self.now = due.max(self.now);
            self.ingest.tick(self.now);
            self.take();
        }
        self.now = end;
        self.behind_for_too_long();
    }

    fn take(&mut self) {
        if !self.ingest.is_ripe(self.now) {
            return;
        }
        for (key, value) in self.ingest.take() {
            let told = match &value {
                Some(observed) => {
                    assert!(!self.buried.contains(&observed.meta.uid), "{key} comes back");
                    if let Some(before) = self.told.get(&key)
                        && before.meta.uid != observed.meta.uid
                    {
                        self.buried.insert(before.meta.uid.clone());
                    }
                    observed.meta.resource_version.parse().unwrap()
                }
                None => {
                    self.buried.extend(self.told.get(&key).map(|observed| observed.meta.uid.clone()));
                    self.versions.get(&key).copied().unwrap_or(0)
                }
            };
            let before = self.versions.insert(key.clone(), told);
            assert!(before.is_none_or(|before| before <= told), "{key} goes back from {before:?} to {told}");
            match value {
                Some(observed) => self.told.insert(key, observed),
                None => self.told.remove(&key),
            };
        }
    }

    fn behind_for_too_long(&mut self) {
        let newest = |server: &Server, key: &ObjectKey| {
            server.objects.get(key).map(|object| object.meta.resource_version.clone())
        };
        let behind = std::mem::take(&mut self.behind);
        for (key, (since, limit)) in behind {
            let told = self.told.get(&key).map(|object| object.meta.resource_version.clone());
            // Unless it has changed again meanwhile, which is judged anew.
            let is_last_heard = {
                let kind = KINDS.iter().position(|kind| *kind == key.kind).unwrap();
                !self.server.log.iter().skip(self.heard[kind]).any(|((other, _), _)| *other == key)
            };
            if told != newest(&self.server, &key) && is_last_heard {
                assert!(self.now <= since + limit + LATEST, "{key} is told {:?} late", self.now - since);
                self.behind.insert(key, (since, limit));
            }
        }
    }

    /// Everything that is under way arrives.
    fn finish(&mut self) {
        for kind in 0..KINDS.len() {
            for stage in 1..3 {
                self.list(kind, stage);
            }
            for _ in 0..=self.server.log.len() {
                self.hear(kind);
            }
        }
        self.ordered.extend(self.ingest.orders());
        self.wait(2 * CONFIRM);
        let versions = |objects: &BTreeMap<ObjectKey, Observed>| {
            let version =
                |(key, observed): (&ObjectKey, &Observed)| (key.clone(), observed.meta.resource_version.clone());
            objects.iter().map(version).collect::<BTreeMap<_, _>>()
        };
        assert_eq!(versions(&self.told), versions(&self.server.objects), "told, as against what is");
        assert!(self.ingest.holds.is_empty());
        assert!(self.ingest.entries.values().all(|entry| entry.ahead.is_none()), "every watch has come so far");
    }
}

proptest! {
    #[test]
    fn nothing_is_lost_comes_back_or_is_delayed(steps in proptest::collection::vec(step(), 1..80)) {
        let mut simulation = Simulation::new();
        for step in steps {
            simulation.act(step);
        }
        simulation.finish();
    }
}

/// A world at rest: a route with a Service that has a slice, and a grant.
fn at_rest(names: &[&str]) -> Simulation {
    let mut simulation = Simulation::new();
    simulation.server.apply(&grant(), 0);
    for name in names {
        simulation.server.apply(&service(name), 0);
        simulation.server.apply(&key(Kind::EndpointSlice, "b", &format!("e{name}")), 0);
    }
    for kind in [3, 1, 2, 0] {
        for _ in 0..10 {
            simulation.hear(kind);
        }
    }
    simulation.wait(Duration::from_millis(10));
    simulation
}

fn hear_all(simulation: &mut Simulation, kind: usize) {
    for _ in 0..10 {
        simulation.hear(kind);
    }
    simulation.ordered.extend(simulation.ingest.orders());
}

fn serve_and_answer(simulation: &mut Simulation) {
    while !simulation.ordered.is_empty() {
        simulation.act(Step::Serve(0));
        simulation.act(Step::Answer(0));
    }
}

const ROUTES: usize = 0;
const SERVICES: usize = 1;
const SLICES: usize = 2;

/// The route was moved to another Service and the old one deleted at once; the watch of Services is the quicker one.
#[test]
fn a_route_that_was_moved_never_meets_a_service_that_is_gone() {
    let mut simulation = at_rest(&["s0"]);
    simulation.server.apply(&route("r0"), 0);
    hear_all(&mut simulation, ROUTES);
    assert!(simulation.ordered.iter().all(|order| order.what.kind() != Kind::Service), "all of it has been seen");
    simulation.act(Step::Wait(2_000));
    // The grant names s0 only; what is not granted is asked for too.
    simulation.server.apply(&grant(), 1);
    simulation.server.apply(&service("s1"), 0);
    simulation.server.apply(&key(Kind::EndpointSlice, "b", "es1"), 0);
    simulation.server.apply(&route("r0"), 1);
    simulation.server.delete(&service("s0"));
    simulation.server.delete(&key(Kind::EndpointSlice, "b", "es0"));
    // Both deletions are heard before anything of the new Service's is: the watch of slices hears in order, too.
    hear_all(&mut simulation, SERVICES);
    assert!(simulation.pending(&service("s0")).is_some(), "not before the route has been read");
    serve_and_answer(&mut simulation);
    assert_eq!(
        simulation.pending(&route("r0")).unwrap().meta.resource_version,
        simulation.server.objects[&route("r0")].meta.resource_version
    );
    for key in [service("s1"), key(Kind::EndpointSlice, "b", "es1")] {
        assert!(simulation.pending(&key).is_some(), "{key} is there with the route");
    }
    assert!(simulation.pending(&service("s0")).is_none());
    let first_batch: BTreeSet<ObjectKey> = simulation.ingest.batch.keys().cloned().collect();
    assert!(first_batch.contains(&route("r0")) && first_batch.contains(&service("s0")), "one moment: {first_batch:?}");
    simulation.finish();
}

/// The watch of slices may be the quicker one as well.
#[test]
fn a_slice_that_is_gone_waits_for_the_route_that_used_it() {
    let mut simulation = at_rest(&["s0", "s1"]);
    simulation.server.apply(&route("r0"), 0);
    hear_all(&mut simulation, ROUTES);
    simulation.act(Step::Wait(2_000));
    simulation.server.apply(&route("r0"), 1);
    simulation.server.delete(&key(Kind::EndpointSlice, "b", "es0"));
    hear_all(&mut simulation, SLICES);
    assert!(simulation.pending(&key(Kind::EndpointSlice, "b", "es0")).is_some());
    serve_and_answer(&mut simulation);
    assert!(simulation.pending(&key(Kind::EndpointSlice, "b", "es0")).is_none());
    assert_eq!(
        simulation.pending(&route("r0")).unwrap().meta.resource_version.parse::<u64>().unwrap(),
        simulation.server.version - 1
    );
    simulation.finish();
}

/// A route comes before its Service does.
#[test]
fn a_route_waits_for_a_service_that_nobody_has_seen() {
    let mut simulation = at_rest(&[]);
    simulation.server.apply(&service("s0"), 0);
    simulation.server.apply(&key(Kind::EndpointSlice, "b", "es0"), 0);
    simulation.server.apply(&route("r0"), 0);
    hear_all(&mut simulation, ROUTES);
    assert!(simulation.pending(&route("r0")).is_none());
    serve_and_answer(&mut simulation);
    for key in [route("r0"), service("s0"), key(Kind::EndpointSlice, "b", "es0")] {
        assert!(simulation.pending(&key).is_some(), "{key}");
    }
    simulation.finish();
}

/// An API server that does not answer delays by the limit and no longer.
#[test]
fn a_doubt_ends_with_its_time() {
    let mut simulation = at_rest(&["s0"]);
    simulation.server.apply(&route("r0"), 0);
    hear_all(&mut simulation, ROUTES);
    simulation.act(Step::Wait(2_000));
    simulation.server.delete(&service("s0"));
    hear_all(&mut simulation, SERVICES);
    simulation.act(Step::Wait(990));
    assert!(simulation.told.contains_key(&service("s0")));
    simulation.act(Step::Wait(20));
    assert!(!simulation.told.contains_key(&service("s0")));
}

/// Ten Services are being asked about while a grant is taken away.
#[test]
fn taking_a_grant_away_waits_for_nothing() {
    let names: Vec<String> = (0..10).map(|number| format!("t{number}")).collect();
    let mut simulation = at_rest(&names.iter().map(String::as_str).collect::<Vec<_>>());
    simulation.server.apply(&service("s0"), 0);
    simulation.server.apply(&route("r0"), 0);
    hear_all(&mut simulation, SERVICES);
    hear_all(&mut simulation, ROUTES);
    simulation.act(Step::Wait(2_000));
    simulation.server.delete(&service("s0"));
    for name in &names {
        simulation.server.delete(&service(name));
    }
    simulation.server.delete(&grant());
    hear_all(&mut simulation, SERVICES);
    assert!(!simulation.ingest.holds.is_empty());
    hear_all(&mut simulation, 3);
    simulation.act(Step::Wait(u64::try_from(LATEST.as_millis()).unwrap()));
    assert!(!simulation.told.contains_key(&grant()));
    assert!(simulation.told.contains_key(&service("s0")), "which is still asked about");
}
