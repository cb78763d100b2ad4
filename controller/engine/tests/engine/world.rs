//! Small worlds in which everything touches everything: few names, shared hosts, wildcards, grants, ListenerSets, invalid objects.
//!
//! An edit is two numbers: which object, and what it becomes. So proptest can shrink a failing history to the edits that matter.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use portolan_engine::{Engine, Event, Options, Refused};
use portolan_model::ir::{Binding, Installed};
use portolan_model::objects::*;
use portolan_model::{CONTROLLER_NAME, GATEWAY_GROUP, Kind, Name, NamespacedName, ObjectKey};
use portolan_proto::{Content, Part, ResourceKey, ResourceType};
use portolan_resolve::FleetState;

/// Which object changes, and the choices that make its new value.
#[derive(Clone, Debug)]
pub struct Edit {
    pub slot: usize,
    pub choices: u64,
}

/// Choices taken out of a number, the first from its lowest digits.
struct Choices(u64);

impl Choices {
    fn pick(&mut self, below: usize) -> usize {
        let choice = self.0 % below as u64;
        self.0 /= below as u64;
        choice as usize
    }

    fn one<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[self.pick(of.len())]
    }

    fn chance(&mut self, one_in: usize) -> bool {
        self.pick(one_in) == 1
    }
}

const NAMESPACES: [&str; 3] = ["a", "b", "c"];
const HOSTS: [&str; 6] = ["x.example.com", "y.example.com", "*.example.com", "*.com", "z.test", ""];
const GATEWAYS: [(&str, &str); 3] = [("a", "one"), ("a", "two"), ("b", "one")];

fn name(text: &str) -> Name {
    Name::from(text)
}

fn meta(namespace: &str, object: &str, created: i64) -> Meta {
    Meta { created, name: NamespacedName::new(namespace, object) }
}

/// Midnight at the first of January
const YEAR_2005: i64 = 1_104_537_600;
const YEAR_2015: i64 = 1_420_070_400;
const YEAR_2025: i64 = 1_735_689_600;
/// The last second of the first certificate
const LAST: i64 = 1_577_836_800;
/// The first second of the second one
const FIRST: i64 = 1_262_304_000;

/// Valid from 2000 and 2010 for twenty years each.
struct Pair {
    certificate: Arc<[u8]>,
    key: Arc<[u8]>,
}

static PAIRS: LazyLock<Vec<Pair>> = LazyLock::new(|| {
    [2000, 2010]
        .into_iter()
        .map(|year| {
            let names = vec!["x.example.com".to_owned(), "*.example.com".to_owned()];
            let mut params = rcgen::CertificateParams::new(names).unwrap();
            params.not_before = rcgen::date_time_ymd(year, 1, 1);
            params.not_after = rcgen::date_time_ymd(year + 20, 1, 1);
            let key = rcgen::KeyPair::generate().unwrap();
            let certificate = params.self_signed(&key).unwrap();
            Pair { certificate: certificate.pem().into_bytes().into(), key: key.serialize_pem().into_bytes().into() }
        })
        .collect()
});

fn selector(choices: &mut Choices) -> FromNamespaces {
    match choices.pick(4) {
        0 => FromNamespaces::All,
        1 => FromNamespaces::Same,
        2 => FromNamespaces::Selector(LabelSelector {
            match_labels: BTreeMap::from([(name("team"), name("red"))]),
            match_expressions: Vec::new(),
        }),
        _ => FromNamespaces::None,
    }
}

fn listener(choices: &mut Choices, number: usize) -> ListenerSpec {
    let hostname = choices.one(&HOSTS);
    let https = choices.chance(3);
    let protocol = if https {
        Protocol::Https
    } else if choices.chance(9) {
        Protocol::Tcp
    } else {
        Protocol::Http
    };
    ListenerSpec {
        name: format!("l{number}").into(),
        hostname: (!hostname.is_empty()).then(|| name(hostname)),
        port: if https { 443 } else { [80, 80, 8080][choices.pick(3)] },
        tls: https.then(|| ListenerTls {
            mode: TlsMode::Terminate,
            certificate_refs: vec![ObjectRef {
                group: name(""),
                kind: name("Secret"),
                namespace: choices.chance(3).then(|| name("b")),
                name: name(choices.one(&["cert-0", "cert-1"])),
            }],
            options: BTreeMap::new(),
        }),
        protocol,
        allowed_routes: AllowedRoutes {
            from: if choices.chance(3) { selector(choices) } else { FromNamespaces::All },
            kinds: if choices.chance(6) {
                vec![RouteGroupKind {
                    group: name(GATEWAY_GROUP),
                    kind: name(choices.one(&["GRPCRoute", "HTTPRoute", "Odd"])),
                }]
            } else {
                Vec::new()
            },
        },
    }
}

fn parent(choices: &mut Choices) -> ParentRef {
    let (kind, namespace, object) = match choices.pick(5) {
        0..=2 => {
            let (namespace, object) = GATEWAYS[choices.pick(GATEWAYS.len())];
            (None, namespace, object)
        }
        3 => (Some(name("ListenerSet")), choices.one(&["a", "b"]), choices.one(&["set-0", "set-1"])),
        _ => (None, "a", "one"),
    };
    ParentRef {
        group: None,
        kind,
        namespace: Some(name(namespace)),
        name: name(object),
        section_name: choices.chance(4).then(|| name(choices.one(&["l0", "l1", "l9"]))),
        port: choices.chance(6).then_some(80),
    }
}

fn backend_ref<F>(choices: &mut Choices, filters: Vec<F>) -> BackendRef<F> {
    let own = choices.chance(6);
    BackendRef {
        target: ObjectRef {
            group: name(if own { "portolan.dev" } else { "" }),
            kind: name(if own { "Backend" } else { choices.one(&["Service", "Service", "Service", "Odd"]) }),
            namespace: choices.chance(3).then(|| name("b")),
            name: name(if own { "out" } else { choices.one(&["s0", "s1", "s2"]) }),
        },
        port: Some([80, 80, 81][choices.pick(3)]),
        weight: [1, 1, 3, 0][choices.pick(4)],
        filters,
    }
}

fn modifier(choices: &mut Choices) -> HeaderModifier {
    HeaderModifier { set: vec![(name("x-set"), name(choices.one(&["1", "2"])))], ..HeaderModifier::default() }
}

fn hostnames(choices: &mut Choices) -> Vec<Name> {
    let hosts: BTreeSet<&str> = (0..choices.pick(3)).map(|_| choices.one(&HOSTS[..5])).collect();
    hosts.into_iter().map(name).collect()
}

fn http_match(choices: &mut Choices) -> HttpMatch {
    let path = match choices.pick(5) {
        0 => PathMatch::Exact(name(choices.one(&["/a", "/b"]))),
        1 | 2 => PathMatch::Prefix(name(choices.one(&["/", "/a", "/a/b"]))),
        3 => PathMatch::Regex(name(choices.one(&["/r.*", "(", "/[a-z]+"]))),
        _ => PathMatch::Prefix(name("/")),
    };
    HttpMatch {
        path,
        headers: if choices.chance(3) {
            vec![ValueMatch { name: name("x-h"), value: ValueMatcher::Exact(name(choices.one(&["1", "2"]))) }]
        } else {
            Vec::new()
        },
        query: Vec::new(),
        method: choices.chance(4).then(|| name("GET")),
    }
}

fn http_filter(choices: &mut Choices) -> HttpFilter {
    match choices.pick(6) {
        0 => HttpFilter::RequestHeaderModifier(modifier(choices)),
        1 => HttpFilter::RequestMirror(Mirror {
            backend: backend_ref::<()>(choices, Vec::new()).target,
            port: Some(80),
            fraction: Fraction { numerator: 1, denominator: 2 },
        }),
        2 => HttpFilter::UrlRewrite(UrlRewrite { hostname: Some(name("other.test")), path: None }),
        3 => HttpFilter::RequestRedirect(Redirect {
            scheme: Some(name("https")),
            hostname: None,
            path: None,
            port: None,
            status: 301,
        }),
        4 => {
            HttpFilter::ExtensionRef(ObjectRef { group: name("x"), kind: name("Y"), namespace: None, name: name("z") })
        }
        _ => HttpFilter::Unknown(name("Newer")),
    }
}

fn http_rule(choices: &mut Choices) -> HttpRule {
    HttpRule {
        name: None,
        matches: (0..=choices.pick(2)).map(|_| http_match(choices)).collect(),
        filters: if choices.chance(3) { vec![http_filter(choices)] } else { Vec::new() },
        backends: (0..choices.pick(3))
            .map(|_| {
                let filters = if choices.chance(5) {
                    vec![HttpFilter::RequestHeaderModifier(modifier(choices))]
                } else {
                    Vec::new()
                };
                backend_ref(choices, filters)
            })
            .collect(),
        timeouts: Timeouts { request: choices.chance(5).then_some(Duration::from_secs(3)), backend_request: None },
        retry: None,
        session_persistence: None,
    }
}

fn service(choices: &mut Choices, namespace: &str, object: &str) -> Service {
    Service {
        meta: meta(namespace, object, 0),
        external_name: choices.chance(8).then(|| name("ext.test")),
        ip_families: if choices.chance(4) { vec![IpFamily::V6, IpFamily::V4] } else { Vec::new() },
        ports: vec![ServicePort {
            name: name("http"),
            port: [80, 80, 80, 80, 80, 81][choices.pick(6)],
            protocol: TransportProtocol::Tcp,
            app_protocol: choices
                .chance(3)
                .then(|| name(choices.one(&["kubernetes.io/h2c", "kubernetes.io/ws", "odd"]))),
        }],
    }
}

fn slice(choices: &mut Choices, namespace: &str, object: &str) -> EndpointSlice {
    let v6 = choices.chance(4);
    EndpointSlice {
        meta: meta(namespace, object, 0),
        service: Some(NamespacedName::new(namespace, choices.one(&["s0", "s1", "s2"]))),
        address_type: if v6 { AddressType::V6 } else { AddressType::V4 },
        ports: vec![EndpointPort {
            name: name("http"),
            port: Some([8080, 9090][choices.pick(2)]),
            protocol: TransportProtocol::Tcp,
        }],
        endpoints: (0..choices.pick(3))
            .map(|number| Endpoint {
                addresses: vec![if v6 { "fd00::1".parse().unwrap() } else { [10, 0, 0, number as u8 + 1].into() }],
                ready: !choices.chance(4),
                serving: !choices.chance(6),
                terminating: choices.chance(5),
                zone: choices.chance(3).then(|| name("z1")),
            })
            .collect(),
    }
}

fn secret(choices: &mut Choices, namespace: &str, object: &str) -> Secret {
    let (certificate, key) = match choices.pick(5) {
        0 => (&PAIRS[1].certificate, &PAIRS[1].key),
        1 => (&PAIRS[0].certificate, &PAIRS[1].key),
        _ => (&PAIRS[0].certificate, &PAIRS[0].key),
    };
    let certificate = if choices.chance(8) { Arc::from(*b"garbage") } else { Arc::clone(certificate) };
    Secret {
        meta: meta(namespace, object, 0),
        kind: name("kubernetes.io/tls"),
        data: BTreeMap::from([(name("tls.crt"), certificate), (name("tls.key"), Arc::clone(key))]),
    }
}

fn parameters(namespace: Option<&str>, object: &str) -> ParametersRef {
    ParametersRef {
        group: name("portolan.dev"),
        kind: name("EnvoyProxy"),
        namespace: namespace.map(name),
        name: name(object),
    }
}

type Build = fn(&mut Choices, usize) -> Object;

/// The kinds of a world, each with the number of objects and how one is made.
const KINDS: &[(Kind, usize, Build)] = &[
    (Kind::GatewayClass, 2, |choices, number| {
        Object::GatewayClass(Arc::new(GatewayClass {
            meta: meta("", ["ours", "other"][number], 0),
            controller_name: name(if number == 0 && !choices.chance(6) { CONTROLLER_NAME } else { "else.where/x" }),
            parameters_ref: choices.chance(12).then(|| parameters(Some("a"), "p0")),
        }))
    }),
    (Kind::Gateway, 3, |choices, number| {
        let (namespace, object) = GATEWAYS[number];
        Object::Gateway(Arc::new(Gateway {
            meta: meta(namespace, object, 0),
            class: name(if choices.chance(16) { "other" } else { "ours" }),
            listeners: (0..=choices.pick(3)).map(|number| listener(choices, number)).collect(),
            addresses: Vec::new(),
            infrastructure: choices.chance(8).then(|| Infrastructure {
                labels: BTreeMap::new(),
                annotations: BTreeMap::new(),
                parameters_ref: Some(parameters(None, choices.one(&["p0", "p1"]))),
            }),
            allowed_listeners: AllowedListeners { from: selector(choices) },
            tls: None,
            default_scope: None,
        }))
    }),
    (Kind::ListenerSet, 2, |choices, number| {
        let (namespace, object) = GATEWAYS[choices.pick(2)];
        Object::ListenerSet(Arc::new(ListenerSet {
            meta: meta(NAMESPACES[number], &format!("set-{number}"), choices.pick(2) as i64),
            parent: ParentRef {
                group: None,
                kind: None,
                namespace: Some(name(namespace)),
                name: name(object),
                section_name: None,
                port: None,
            },
            listeners: (0..=choices.pick(2)).map(|number| listener(choices, number)).collect(),
        }))
    }),
    (Kind::HTTPRoute, 5, |choices, number| {
        Object::HttpRoute(Arc::new(HttpRoute {
            meta: meta(NAMESPACES[number % 3], &format!("r{number}"), choices.pick(2) as i64),
            parents: (0..=choices.pick(2)).map(|_| parent(choices)).collect(),
            use_default_gateways: None,
            hostnames: hostnames(choices),
            rules: (0..=choices.pick(2)).map(|_| http_rule(choices)).collect(),
        }))
    }),
    (Kind::GRPCRoute, 2, |choices, number| {
        Object::GrpcRoute(Arc::new(GrpcRoute {
            meta: meta(NAMESPACES[number], &format!("g{number}"), 0),
            parents: vec![parent(choices)],
            use_default_gateways: None,
            hostnames: hostnames(choices),
            rules: vec![GrpcRule {
                name: None,
                matches: if choices.chance(2) {
                    vec![GrpcMatch {
                        method: Some(GrpcMethodMatch {
                            service: Some(ValueMatcher::Exact(name("s.S"))),
                            method: choices.chance(2).then(|| ValueMatcher::Exact(name("M"))),
                        }),
                        headers: Vec::new(),
                    }]
                } else {
                    Vec::new()
                },
                filters: Vec::new(),
                backends: vec![backend_ref(choices, Vec::new())],
                session_persistence: None,
            }],
        }))
    }),
    (Kind::TCPRoute, 1, |choices, _| {
        Object::L4Route(Arc::new(L4Route {
            kind: Kind::TCPRoute,
            meta: meta("a", "t0", 0),
            parents: vec![parent(choices)],
            use_default_gateways: None,
            hostnames: Vec::new(),
            rules: Vec::new(),
        }))
    }),
    (Kind::ReferenceGrant, 3, |choices, number| {
        Object::ReferenceGrant(Arc::new(ReferenceGrant {
            meta: meta(["b", "b", "a"][number], &format!("grant-{number}"), 0),
            from: vec![GrantFrom {
                group: name(GATEWAY_GROUP),
                kind: name(choices.one(&["HTTPRoute", "Gateway", "ListenerSet", "GRPCRoute"])),
                namespace: name(choices.one(&["a", "c"])),
            }],
            to: vec![GrantTo {
                group: name(if number == 2 { "portolan.dev" } else { "" }),
                kind: name(if number == 2 { "Backend" } else { choices.one(&["Service", "Secret"]) }),
                name: choices.chance(3).then(|| name(choices.one(&["s0", "cert-0"]))),
            }],
        }))
    }),
    (Kind::BackendTLSPolicy, 3, |choices, number| {
        Object::BackendTlsPolicy(Arc::new(BackendTlsPolicy {
            meta: meta("a", &format!("policy-{number}"), 0),
            targets: vec![PolicyTarget {
                group: name(""),
                kind: name("Service"),
                name: name(choices.one(&["s0", "s1", "s2"])),
                section_name: None,
            }],
            hostname: name("s.test"),
            ca_certificate_refs: Vec::new(),
            well_known_ca_certificates: Some(name("System")),
            subject_alt_names: Vec::new(),
            options: BTreeMap::new(),
        }))
    }),
    (Kind::Backend, 2, |choices, number| {
        Object::Backend(Arc::new(Backend {
            meta: meta(["a", "b"][number], "out", 0),
            endpoints: vec![match choices.pick(3) {
                0 => BackendEndpoint::Ip { address: [127, 0, 0, 1].into(), port: 9000 },
                1 => BackendEndpoint::Fqdn { hostname: name("out.test"), port: 443 },
                _ => BackendEndpoint::Unix { path: name("/run/x.sock") },
            }],
            app_protocols: Vec::new(),
        }))
    }),
    (Kind::EnvoyProxy, 2, |choices, number| {
        let mut spec = serde_json::json!({});
        if choices.chance(2) {
            spec["concurrency"] = serde_json::json!(1 + choices.pick(2));
        }
        let object = serde_json::json!({
            "apiVersion": "portolan.dev/v1alpha1",
            "kind": "EnvoyProxy",
            "metadata": {"namespace": "a", "name": format!("p{number}")},
            "spec": spec,
        });
        portolan_model::read::json(&object).object.unwrap()
    }),
    (Kind::Namespace, 3, |choices, number| {
        Object::Namespace(Arc::new(Namespace {
            meta: meta("", NAMESPACES[number], 0),
            labels: BTreeMap::from([(name("team"), name(choices.one(&["red", "blue"])))]),
        }))
    }),
    (Kind::Service, 6, |choices, number| {
        Object::Service(Arc::new(service(choices, NAMESPACES[number / 3], &format!("s{}", number % 3))))
    }),
    (Kind::EndpointSlice, 5, |choices, number| {
        Object::EndpointSlice(Arc::new(slice(choices, NAMESPACES[number % 2], &format!("slice-{number}"))))
    }),
    (Kind::Secret, 4, |choices, number| {
        Object::Secret(Arc::new(secret(choices, NAMESPACES[number / 2], &format!("cert-{}", number % 2))))
    }),
];

/// What is not an object but takes part: bindings, what proxies said, what Envoy refused, the time.
const OTHERS: usize = 3 + 3 + 3 + 3 + 1 + 12;

/// The number of slots that an edit can name.
pub fn slots() -> usize {
    KINDS.iter().map(|(_, count, _)| count).sum::<usize>() + OTHERS
}

/// The world as the edits so far made it.
#[derive(Clone)]
pub struct World {
    pub now: i64,
    pub objects: BTreeMap<ObjectKey, Object>,
    pub bindings: BTreeMap<NamespacedName, Binding>,
    pub fleets: BTreeMap<NamespacedName, FleetState>,
    pub problems: BTreeMap<NamespacedName, Vec<Name>>,
    pub installed: Option<Arc<Installed>>,
    pub refused: BTreeSet<Refused>,
}

impl Default for World {
    fn default() -> Self {
        Self {
            now: YEAR_2015,
            objects: BTreeMap::new(),
            bindings: BTreeMap::new(),
            fleets: BTreeMap::new(),
            problems: BTreeMap::new(),
            installed: None,
            refused: BTreeSet::new(),
        }
    }
}

impl World {
    /// An engine that knows the time of this world and nothing else.
    pub fn engine(&self, options: Options) -> Engine {
        let mut engine = Engine::new(options);
        engine.apply([Event::Time(self.now)]);
        engine
    }

    /// Applies an edit and returns the event it means. `engine` says what could be refused.
    pub fn edit(&mut self, edit: &Edit, engine: &Engine) -> Option<Event> {
        let mut choices = Choices(edit.choices);
        let mut slot = edit.slot;
        for (_, count, build) in KINDS {
            if slot < *count {
                let delete = choices.chance(8);
                let object = build(&mut choices, slot);
                let key = object.key();
                let object = (!delete).then_some(object);
                match &object {
                    Some(object) => _ = self.objects.insert(key.clone(), object.clone()),
                    None => _ = self.objects.remove(&key),
                }
                return Some(Event::Object { key, object });
            }
            slot -= count;
        }
        let gateway = || {
            let (namespace, object) = GATEWAYS[slot % 3];
            NamespacedName::new(namespace, object)
        };
        match slot {
            0..3 => {
                let binding = Binding {
                    addresses: vec![[127, 0, 0, choices.pick(3) as u8 + 1].into()],
                    // The last moves two of the three ports out of range.
                    port_offset: [0, 0, 65_100][choices.pick(3)],
                    status: vec![(name("IPAddress"), name("127.0.0.1"))],
                    unusable: Vec::new(),
                    logs: choices.pick(2) == 1,
                };
                self.bindings.insert(gateway(), binding.clone());
                Some(Event::Binding { gateway: gateway(), binding: Some(binding) })
            }
            3..6 => {
                let state = FleetState { programmed: choices.chance(2) };
                self.fleets.insert(gateway(), state.clone());
                Some(Event::Fleet { gateway: gateway(), state })
            }
            6..9 => {
                let times = [YEAR_2005, FIRST - 1, FIRST, YEAR_2015, LAST, LAST + 1, YEAR_2025];
                self.now = times[choices.pick(times.len())];
                Some(Event::Time(self.now))
            }
            9..12 => {
                let problems: Vec<Name> =
                    (0..choices.pick(3)).map(|number| name(&format!("problem {number}"))).collect();
                self.problems.insert(gateway(), problems.clone());
                Some(Event::Problems { gateway: gateway(), problems })
            }
            12 => {
                let absent = [Kind::HTTPRoute, Kind::ListenerSet].into_iter().filter(|_| choices.chance(2)).collect();
                let installed = Arc::new(Installed { absent, ..Installed::default() });
                self.installed = Some(Arc::clone(&installed));
                Some(Event::Installed(installed))
            }
            13 => {
                let listener = ResourceKey::new(ResourceType::Listener, choices.one(&["http/80", "https/443"]));
                Some(Event::Taken { gateway: gateway(), listener })
            }
            _ => {
                // First the kind, since there are more matches than all else together.
                let refusable = refusable(engine);
                let kinds: BTreeSet<&str> = refusable.iter().map(|(kind, _)| *kind).collect();
                let kind = *kinds.iter().nth(choices.pick(kinds.len().max(1)))?;
                let of_kind: Vec<_> = refusable.iter().filter(|(other, _)| *other == kind).collect();
                let (_, refused) = of_kind.get(choices.pick(of_kind.len().max(1)))?;
                self.refused.insert(refused.clone());
                Some(Event::Refused(refused.clone()))
            }
        }
    }

    /// Drops the refusals that the engine has forgotten. Returns them.
    pub fn settle(&mut self, engine: &Engine) -> BTreeSet<Refused> {
        let counts: BTreeSet<Refused> = engine.refused().collect();
        let forgotten = self.refused.difference(&counts).cloned().collect();
        self.refused = counts;
        forgotten
    }

    /// The events that make this world out of nothing.
    pub fn events(&self) -> Vec<Event> {
        let objects =
            self.objects.iter().map(|(key, object)| Event::Object { key: key.clone(), object: Some(object.clone()) });
        let bindings = self
            .bindings
            .iter()
            .map(|(gateway, binding)| Event::Binding { gateway: gateway.clone(), binding: Some(binding.clone()) });
        let fleets =
            self.fleets.iter().map(|(gateway, state)| Event::Fleet { gateway: gateway.clone(), state: state.clone() });
        let problems = self
            .problems
            .iter()
            .map(|(gateway, problems)| Event::Problems { gateway: gateway.clone(), problems: problems.clone() });
        let installed = self.installed.iter().cloned().map(Event::Installed);
        let refused = self.refused.iter().cloned().map(Event::Refused);
        objects
            .chain(bindings)
            .chain(fleets)
            .chain(problems)
            .chain(installed)
            .chain(refused)
            .chain([Event::Time(self.now)])
            .collect()
    }

    /// A fresh engine in this world.
    pub fn fresh(&self) -> Engine {
        let mut engine = Engine::new(Options::default());
        engine.apply(self.events());
        engine
    }
}

/// Everything in force that Envoy could refuse, with a word for its kind.
pub fn refusable(engine: &Engine) -> Vec<(&'static str, Refused)> {
    let mut all = Vec::new();
    for gateway in engine.fleets() {
        for resource in engine.snapshot(gateway).into_iter().flat_map(portolan_proto::Snapshot::iter) {
            let mut part = |kind, part: Part, origins: &[portolan_proto::Origin]| {
                let refused = Refused::attribute(gateway, &resource.key, resource.version, &part, origins, "refused");
                all.extend(refused.into_iter().map(|refused| (kind, refused)));
            };
            if resource.is_held() {
                continue;
            }
            let kind = match resource.key.kind {
                ResourceType::Cluster => "cluster",
                ResourceType::Endpoints => "endpoints",
                ResourceType::Secret => "secret",
                ResourceType::Route => "table",
                _ => "listener",
            };
            part(kind, Part::Whole, &resource.origins);
            let Content::Table(table) = resource.body.content() else { continue };
            for host in table.hosts.values() {
                part("host", Part::Host(Arc::clone(&host.name), host.version), &[]);
                for unit in host.routes.iter().filter(|unit| &*unit.origin.kind != "Gateway") {
                    part("match", Part::Unit(unit.version), std::slice::from_ref(&unit.origin));
                }
            }
        }
    }
    all.sort_unstable();
    all.dedup();
    all
}

/// Everything that can be seen of an engine, as text.
pub fn state(engine: &Engine, world: &World) -> Vec<String> {
    let mut lines = Vec::new();
    for gateway in engine.fleets() {
        lines.push(format!("fleet {gateway} {:?}", engine.intent(gateway)));
        for resource in engine.snapshot(gateway).into_iter().flat_map(portolan_proto::Snapshot::iter) {
            lines.push(format!(
                "{} {} {:?} {:?} {:?}",
                resource.key,
                resource.version,
                resource.references,
                resource.origins,
                resource.body.message()
            ));
            if let Content::Table(table) = resource.body.content() {
                let origins = table.hosts.values().flat_map(|host| host.routes.iter()).map(|unit| &unit.origin);
                lines.extend(origins.map(|origin| format!("  from {origin:?}")));
            }
        }
    }
    lines.extend(engine.refused().map(|refused| format!("{refused:?}")));
    for key in world.objects.keys() {
        lines.push(format!("status {key} {:?}", engine.status(key)));
    }
    lines
}
