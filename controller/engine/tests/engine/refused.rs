//! What Envoy refuses of each kind of resource: what stands in for it, who is told, when it is forgotten.

use std::sync::Arc;

use portolan_engine::{Engine, Event, Options, Output, Refused};
use portolan_model::ir::{Binding, Status};
use portolan_model::{Condition, ConditionType, Kind, NamespacedName, ObjectKey, read};
use portolan_proto::{Content, HostTable, Part, Resource, ResourceKey, ResourceType, VirtualHostBody};
use portolan_resolve::FleetState;

const SCENE: &str = "
apiVersion: gateway.networking.k8s.io/v1
kind: GatewayClass
metadata: {name: portolan}
spec: {controllerName: portolan.dev/gateway-controller}
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: g, namespace: ns}
spec:
  gatewayClassName: portolan
  listeners:
  - {name: http, port: 80, protocol: HTTP}
  - {name: https, port: 443, protocol: HTTPS, tls: {certificateRefs: [{name: cert}]}}
---
apiVersion: v1
kind: Service
metadata: {name: good, namespace: ns}
spec: {ports: [{name: http, port: 80}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: good, namespace: ns, labels: {kubernetes.io/service-name: good}}
addressType: IPv4
ports: [{name: http, port: 8080}]
endpoints: [{addresses: [192.0.2.1]}]
---
apiVersion: portolan.dev/v1alpha1
kind: Backend
metadata: {name: out, namespace: ns}
spec: {endpoints: [{fqdn: {hostname: out.test, port: 80}}]}
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: r, namespace: ns}
spec:
  parentRefs: [{name: g, sectionName: http}]
  hostnames: [a.test]
  rules:
  - {matches: [{path: {value: /both}}], backendRefs: [{name: good, port: 80}, {name: out, group: portolan.dev, kind: Backend}]}
  - {matches: [{path: {value: /good}}], backendRefs: [{name: good, port: 80}]}
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: other, namespace: ns}
spec:
  parentRefs: [{name: g, sectionName: http}]
  hostnames: [b.test]
  rules: [{backendRefs: [{name: good, port: 80}]}]
---
";

struct Scene {
    engine: Engine,
}

fn gateway() -> NamespacedName {
    NamespacedName::new("ns", "g")
}

fn objects(manifests: &str) -> Vec<Event> {
    let read = read::manifests(&"scene.yaml".into(), manifests.as_bytes()).unwrap();
    let objects = read.into_iter().map(|manifest| manifest.object.clone().unwrap_or_else(|| panic!("{manifest:?}")));
    objects.map(|object| Event::Object { key: object.key(), object: Some(object) }).collect()
}

fn secret() -> String {
    let pair = rcgen::generate_simple_self_signed(vec!["a.test".to_owned()]).unwrap();
    let indented = |pem: &str| format!("    {}\n", pem.trim().replace('\n', "\n    "));
    format!(
        "apiVersion: v1\nkind: Secret\nmetadata: {{name: cert, namespace: ns}}\ntype: kubernetes.io/tls\nstringData:\n  tls.crt: |\n{}  tls.key: |\n{}",
        indented(&pair.cert.pem()),
        indented(&pair.signing_key.serialize_pem())
    )
}

impl Scene {
    fn new() -> Self {
        let mut engine = Engine::new(Options::default());
        // The certificates of the tests are valid from 1975 to 4096.
        engine.apply([Event::Time(1_800_000_000)]);
        engine.apply(objects(SCENE));
        engine.apply(objects(&secret()));
        engine.apply([
            Event::Binding { gateway: gateway(), binding: Some(bound()) },
            Event::Fleet { gateway: gateway(), state: FleetState { programmed: true } },
        ]);
        Self { engine }
    }

    fn get(&self, kind: ResourceType, name: &str) -> Option<&Arc<Resource>> {
        self.engine.snapshot(&gateway()).unwrap().get(&ResourceKey::new(kind, name))
    }

    fn table(&self) -> &HostTable {
        match self.get(ResourceType::Route, "http/80").unwrap().body.content() {
            Content::Table(table) => table,
            other => panic!("{other:?}"),
        }
    }

    fn host(&self, name: &str) -> Option<&Arc<VirtualHostBody>> {
        self.table().hosts.get(name)
    }

    /// Names and statuses of fixed answers of the routes under a hostname, in order.
    fn routes(&self, host: &str) -> Vec<String> {
        use portolan_proto::envoy::route;
        let Some(host) = self.host(host) else { return Vec::new() };
        let read = |unit: &portolan_proto::Unit| {
            let route: route::Route = prost::Message::decode(unit.bytes.clone()).unwrap();
            match route.action {
                Some(route::route::Action::DirectResponse(direct)) => format!("{} {}", route.name, direct.status),
                _ => route.name,
            }
        };
        host.routes.iter().map(read).collect()
    }

    /// Envoy refuses what stands there now.
    fn refuse(&mut self, kind: ResourceType, name: &str, part: &Part, origins: &[portolan_proto::Origin]) -> Output {
        let resource = Arc::clone(self.get(kind, name).unwrap());
        let refused = Refused::attribute(&gateway(), &resource.key, resource.version, part, origins, " Envoy's text\n");
        assert_eq!(refused.len(), 1, "{refused:?}");
        self.engine.apply(refused.into_iter().map(Event::Refused))
    }

    fn refuse_whole(&mut self, kind: ResourceType, name: &str) -> Output {
        self.refuse(kind, name, &Part::Whole, &[])
    }

    fn refuse_host(&mut self, name: &str) -> Output {
        let version = self.host(name).unwrap().version;
        self.refuse(ResourceType::Route, "http/80", &Part::Host(name.into(), version), &[])
    }

    fn refuse_first_match(&mut self, host: &str) -> Output {
        let unit = self.host(host).unwrap().routes[0].clone();
        self.refuse(ResourceType::Route, "http/80", &Part::Unit(unit.version), &[unit.origin])
    }

    fn apply(&mut self, manifests: &str) -> Output {
        self.engine.apply(objects(manifests))
    }

    /// The scene's object with this text in it replaced.
    fn edit(&mut self, from: &str, to: &str) -> Output {
        let manifest = SCENE.split("---\n").find(|manifest| manifest.contains(from)).unwrap();
        self.apply(&manifest.replace(from, to))
    }

    fn count(&self) -> usize {
        self.engine.refused().count()
    }

    fn route(&self, name: &str, kind: ConditionType) -> Option<Condition> {
        match self.engine.status(&ObjectKey::new(Kind::HTTPRoute, NamespacedName::new("ns", name))) {
            Some(Status::Route { parents }) => parents[0].conditions.iter().find(|it| it.kind == kind).cloned(),
            other => panic!("{other:?}"),
        }
    }

    /// Whether Gateway and listeners are programmed, and all messages.
    fn programmed(&self) -> (Vec<bool>, String) {
        let Some(Status::Gateway { conditions, listeners, .. }) =
            self.engine.status(&ObjectKey::new(Kind::Gateway, gateway()))
        else {
            panic!("no status")
        };
        let all = std::iter::once(conditions).chain(listeners.iter().map(|listener| &listener.conditions));
        let programmed: Vec<_> =
            all.map(|all| all.iter().find(|it| it.kind == ConditionType::Programmed).unwrap()).collect();
        (
            programmed.iter().map(|it| it.status).collect(),
            programmed.iter().map(|it| it.message.to_string()).collect::<Vec<_>>().join("\n"),
        )
    }
}

const MATCHES: [&str; 3] = ["httproute/ns/r/0/0", "httproute/ns/r/1/0", "portolan/otherwise 404"];

#[test]
fn a_refused_match_answers_500_then_is_left_out_and_is_forgotten_with_its_content() {
    let mut scene = Scene::new();
    assert_eq!(scene.routes("a.test"), MATCHES);
    let other = scene.host("b.test").unwrap().version;
    scene.refuse_first_match("a.test");
    assert_eq!(scene.routes("a.test"), ["httproute/ns/r/0/0/refused 500", MATCHES[1], MATCHES[2]]);
    assert_eq!(scene.host("b.test").unwrap().version, other, "nothing else changes");
    let partial = scene.route("r", ConditionType::PartiallyInvalid).unwrap();
    assert!(partial.status && partial.message.contains("spec.rules[0].matches[0]: Envoy's text"), "{partial:?}");
    assert!(scene.route("r", ConditionType::Accepted).unwrap().status, "design invariant 14");
    assert_eq!(scene.route("other", ConditionType::PartiallyInvalid), None);

    scene.refuse_first_match("a.test");
    assert_eq!((scene.routes("a.test"), scene.count()), (MATCHES[1..].iter().map(ToString::to_string).collect(), 2));

    scene.edit("value: /both", "value: /other");
    assert_eq!((scene.routes("a.test"), scene.count()), (MATCHES.iter().map(ToString::to_string).collect(), 0));
    assert_eq!(scene.route("r", ConditionType::PartiallyInvalid), None);
    scene.edit("value: /both", "value: /both");
    assert_eq!(scene.routes("a.test"), MATCHES, "what comes back is tried again");
}

#[test]
fn a_refused_virtual_host_answers_500_then_is_left_out() {
    let mut scene = Scene::new();
    let before = scene.get(ResourceType::Route, "http/80").unwrap().version;
    scene.refuse_host("a.test");
    assert_eq!(scene.routes("a.test"), ["portolan/refused 500"]);
    assert_ne!(scene.get(ResourceType::Route, "http/80").unwrap().version, before, "the table moves on");
    assert_eq!(scene.routes("b.test").len(), 2);
    let partial = scene.route("r", ConditionType::PartiallyInvalid).unwrap();
    assert!(partial.message.contains("hostname a.test on port 80") && partial.message.contains("Envoy's text"));
    assert_eq!(scene.route("other", ConditionType::PartiallyInvalid), None);
    assert_eq!(scene.programmed().0, [true, true, true]);

    scene.refuse_host("a.test");
    assert!(scene.host("a.test").is_none());
    assert_eq!(scene.count(), 2);
    scene.edit("value: /both", "value: /other");
    assert_eq!((scene.routes("a.test").len(), scene.count()), (3, 0));
}

#[test]
fn a_refused_host_without_routes_is_told_of_at_its_gateway() {
    let mut scene = Scene::new();
    scene.refuse_host("*");
    assert_eq!(scene.routes("*"), ["portolan/refused 500"]);
    let (programmed, text) = scene.programmed();
    assert!(!programmed[0] && text.contains("hostname *") && text.contains("Envoy's text"), "{programmed:?} {text}");
}

#[test]
fn a_refused_table_answers_500_then_is_empty_and_is_tried_again_when_a_host_changes() {
    let mut scene = Scene::new();
    let output = scene.refuse_whole(ResourceType::Route, "http/80");
    for host in ["*", "a.test", "b.test"] {
        assert_eq!(scene.routes(host), ["portolan/refused 500"], "{host}");
    }
    assert!(scene.table().clusters.is_empty());
    let changed: Vec<_> = output.fleets[&gateway()].iter().map(|change| change.key.to_string()).collect();
    assert_eq!(changed, ["Route http/80"]);
    let (programmed, text) = scene.programmed();
    assert_eq!(programmed, [false, false, true], "the Gateway and its listener http");
    assert!(text.contains("routes on port 80") && text.contains("Envoy's text"), "{text}");
    // It says so once; a second proxy that refuses the same changes nothing.
    let again = scene.engine.apply(scene.engine.refused().map(Event::Refused).collect::<Vec<_>>());
    assert!(again.fleets.is_empty() && again.statuses.is_empty());

    scene.refuse_whole(ResourceType::Route, "http/80");
    assert_eq!((scene.table().hosts.size(), scene.count()), (0, 2));
    // Nothing is left that could stand in for it: no loop, no third content.
    let empty = scene.get(ResourceType::Route, "http/80").unwrap().version;
    scene.refuse_whole(ResourceType::Route, "http/80");
    assert_eq!((scene.get(ResourceType::Route, "http/80").unwrap().version, scene.count()), (empty, 2));

    scene.edit("value: /both", "value: /other");
    assert_eq!((scene.routes("a.test").len(), scene.count()), (3, 0));
    assert_eq!(scene.programmed().0, [true, true, true]);
}

const BACKEND: &str = "backend/ns/out/0/http1";
const SERVICE: &str = "service/ns/good/80/http1";

#[test]
fn a_refused_cluster_makes_its_backend_invalid_until_it_is_another() {
    let mut scene = Scene::new();
    let version = scene.host("a.test").unwrap().version;
    scene.refuse_whole(ResourceType::Cluster, BACKEND);
    assert!(scene.get(ResourceType::Cluster, BACKEND).is_none());
    assert!(!scene.table().clusters.contains_key(BACKEND) && scene.table().clusters.contains_key(SERVICE));
    assert_ne!(scene.host("a.test").unwrap().version, version);
    let resolved = scene.route("r", ConditionType::ResolvedRefs).unwrap();
    assert!(!resolved.status && resolved.message.contains("Backend ns/out: Envoy's text"), "{resolved:?}");
    assert!(scene.route("r", ConditionType::Accepted).unwrap().status);
    assert!(scene.route("other", ConditionType::ResolvedRefs).unwrap().status);

    scene.edit("hostname: out.test", "hostname: elsewhere.test");
    assert!(scene.get(ResourceType::Cluster, BACKEND).is_some());
    assert!(scene.route("r", ConditionType::ResolvedRefs).unwrap().status);
    assert_eq!((scene.host("a.test").unwrap().version, scene.count()), (version, 0));
}

#[test]
fn refused_endpoints_make_their_backend_invalid_until_they_are_others() {
    let mut scene = Scene::new();
    scene.refuse_whole(ResourceType::Endpoints, SERVICE);
    assert!(
        scene.get(ResourceType::Cluster, SERVICE).is_none() && scene.get(ResourceType::Endpoints, SERVICE).is_none()
    );
    assert_eq!(scene.routes("b.test")[0], "httproute/ns/other/0/0 500", "its only backend");
    assert!(!scene.route("other", ConditionType::ResolvedRefs).unwrap().status);
    // What of the Service does not concern the endpoints changes nothing.
    let output = scene.edit(
        "metadata: {name: good, namespace: ns}\nspec",
        "metadata: {name: good, namespace: ns, labels: {a: b}}\nspec",
    );
    assert!(output.fleets.is_empty());
    scene.edit("addresses: [192.0.2.1]", "addresses: [192.0.2.2]");
    assert!(
        scene.get(ResourceType::Cluster, SERVICE).is_some() && scene.get(ResourceType::Endpoints, SERVICE).is_some()
    );
    assert_eq!((scene.routes("b.test")[0].as_str(), scene.count()), ("httproute/ns/other/0/0", 0));
}

#[test]
fn a_refused_certificate_is_held_until_it_is_another() {
    let mut scene = Scene::new();
    assert!(!scene.get(ResourceType::Secret, "ns/cert").unwrap().is_held());
    let listener = scene.get(ResourceType::Listener, "https/443").unwrap().version;
    scene.refuse_whole(ResourceType::Secret, "ns/cert");
    assert!(scene.get(ResourceType::Secret, "ns/cert").unwrap().is_held());
    assert_eq!(scene.get(ResourceType::Listener, "https/443").unwrap().version, listener);
    let (programmed, text) = scene.programmed();
    assert_eq!(programmed, [true, true, false]);
    assert!(text.contains("Secret ns/cert: Envoy's text"), "{text}");
    scene.apply(&secret());
    assert!(!scene.get(ResourceType::Secret, "ns/cert").unwrap().is_held());
    assert_eq!((scene.programmed().0, scene.count()), (vec![true, true, true], 0));
}

#[test]
fn a_refused_listener_is_told_of_until_it_is_another_or_is_taken() {
    let mut scene = Scene::new();
    let output = scene.refuse_whole(ResourceType::Listener, "http/80");
    assert!(output.fleets.is_empty(), "proxies keep the one that they have");
    let (programmed, text) = scene.programmed();
    assert_eq!(programmed, [false, false, true]);
    assert!(text.contains("listener on port 80: Envoy's text"), "{text}");
    let taken =
        |name: &str| Event::Taken { gateway: gateway(), listener: ResourceKey::new(ResourceType::Listener, name) };
    scene.engine.apply([taken("https/443")]);
    assert_eq!(scene.count(), 1);
    scene.engine.apply([taken("http/80")]);
    assert_eq!((scene.programmed().0, scene.count()), (vec![true, true, true], 0));

    scene.refuse_whole(ResourceType::Listener, "http/80");
    let binding = Binding { addresses: vec![[127, 0, 0, 1].into()], ..bound() };
    scene.engine.apply([Event::Binding { gateway: gateway(), binding: Some(binding) }]);
    assert_eq!((scene.programmed().0, scene.count()), (vec![true, true, true], 0));
}

#[test]
fn everything_refused_is_forgotten_with_the_gateway() {
    let mut scene = Scene::new();
    scene.refuse_first_match("b.test");
    scene.refuse_host("*");
    scene.refuse_whole(ResourceType::Cluster, BACKEND);
    scene.refuse_whole(ResourceType::Secret, "ns/cert");
    scene.refuse_whole(ResourceType::Listener, "http/80");
    scene.refuse_whole(ResourceType::Route, "http/80");
    assert_eq!(scene.count(), 6);
    scene.engine.apply([Event::Object { key: ObjectKey::new(Kind::Gateway, gateway()), object: None }]);
    assert_eq!(scene.count(), 0, "{:?}", scene.engine.refused().collect::<Vec<_>>());
}

#[test]
fn what_is_refused_after_it_has_changed_does_not_count() {
    let mut scene = Scene::new();
    let old = Arc::clone(scene.get(ResourceType::Cluster, BACKEND).unwrap());
    scene.edit("hostname: out.test", "hostname: elsewhere.test");
    let late = Refused::attribute(&gateway(), &old.key, old.version, &Part::Whole, &[], "late");
    let output = scene.engine.apply(late.into_iter().map(Event::Refused));
    assert!(output.fleets.is_empty() && output.statuses.is_empty());
    assert_eq!(scene.count(), 0);
}

#[test]
fn what_is_no_objects_fault_concerns_nobody() {
    let scene = Scene::new();
    let snapshot = scene.engine.snapshot(&gateway()).unwrap();
    let own = snapshot.iter().filter(|resource| resource.origins.is_empty());
    let refused = own
        .flat_map(|resource| Refused::attribute(&gateway(), &resource.key, resource.version, &Part::Whole, &[], "no"));
    assert_eq!(refused.collect::<Vec<_>>(), []);
}

/// A binding with an address for the status.
fn bound() -> Binding {
    Binding { status: vec![("IPAddress".into(), "192.0.2.7".into())], ..Binding::default() }
}
