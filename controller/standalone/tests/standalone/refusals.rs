//! What a real Envoy refuses, from its word to the answers of the next configuration and the statuses.
//!
//! Translation lets nothing through that Envoy is known to refuse, so the contents are spoilt on their way to it, as an Envoy would
//! see them that knows a rule more: the versions stay those of the engine, and only the very contents are spoilt that stood there first.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use portolan_fleet::Fleet;
use portolan_model::ir::Status;
use portolan_model::{Condition, ConditionType, Kind, NamespacedName, ObjectKey, read};
use portolan_proto::json::{Secrets, from_json, to_json};
use portolan_proto::prost::Message;
use portolan_proto::{Body, Change, Content, HostTable, Resource, ResourceType, Version, VirtualHostBody};
use portolan_standalone::binding::BindingOptions;
use portolan_standalone::control_plane::{ControlPlane, Effects, Happening};
use portolan_standalone::directory::Applied;
use portolan_testkit::certs::Authority;
use portolan_testkit::client::{Endpoint, get};
use portolan_testkit::envoy::{Envoy, EnvoyOptions};
use portolan_testkit::{Dir, Echo, EchoOptions, ports};
use portolan_translate::{XdsServer, bootstrap};
use portolan_xds::{Options, Server, Transition};
use serde_json::json;
use tokio::sync::mpsc::UnboundedReceiver;

const SOON: Duration = Duration::from_secs(20);

/// Spoils the contents that it sees first.
#[derive(Default)]
struct Spoiler {
    /// By name, the version that is spoilt
    seen: BTreeMap<String, Version>,
}

impl Spoiler {
    fn is_spoilt(&mut self, name: &str, version: Version) -> bool {
        const BAD: [&str; 5] = [
            "Cluster backend/default/cluster/0/http1",
            "Endpoints backend/default/endpoints/0/http1",
            "Secret default/cert",
            "host.test",
            "httproute/default/match/0/0",
        ];
        BAD.contains(&name) && *self.seen.entry(name.to_owned()).or_insert(version) == version
    }

    fn spoil(&mut self, change: Change) -> Change {
        let Some(resource) = &change.resource else { return change };
        let content = match resource.body.content() {
            Content::Table(table) => Content::Table(self.table(table)),
            Content::Message(_) if self.is_spoilt(&change.key.to_string(), resource.version) => {
                let kind = change.key.kind;
                let bad = match kind {
                    ResourceType::Cluster => {
                        json!({"name": change.key.name, "type": "STATIC", "connect_timeout": "-1s"})
                    }
                    ResourceType::Endpoints => {
                        json!({"cluster_name": change.key.name, "endpoints": [{"priority": 200}]})
                    }
                    _ => {
                        let garbage = json!({"inline_string": "garbage"});
                        json!({"name": change.key.name, "tls_certificate": {"certificate_chain": garbage, "private_key": garbage}})
                    }
                };
                Content::Message(from_json(kind.type_url(), &bad).unwrap().into())
            }
            other => other.clone(),
        };
        let Resource { key, version, references, origins, .. } = &**resource;
        let (key, version) = (key.clone(), *version);
        let (references, origins) = (Arc::clone(references), Arc::clone(origins));
        let spoilt = Resource { key, version, body: Body::new(content), references, origins };
        Change { resource: Some(Arc::new(spoilt)), ..change }
    }

    fn table(&mut self, table: &HostTable) -> HostTable {
        let mut spoilt = table.clone();
        for (name, host) in &table.hosts {
            let mut body = VirtualHostBody::clone(host);
            if self.is_spoilt(name, host.version) {
                // Without domains.
                body.head = from_json("envoy.config.route.v3.VirtualHost", &json!({"name": **name})).unwrap().into();
            }
            body.routes = host.routes.iter().cloned().map(|unit| self.unit(unit)).collect();
            spoilt.set(name, Some(Arc::new(body)));
        }
        spoilt
    }

    fn unit(&mut self, mut unit: portolan_proto::Unit) -> portolan_proto::Unit {
        use portolan_proto::envoy::route::Route;
        let name = Route::decode(unit.bytes.clone()).unwrap().name;
        if self.is_spoilt(&name, unit.version) {
            let regex = json!({"safe_regex": {"regex": "("}});
            let bad = json!({"name": name, "match": regex, "direct_response": {"status": 200}});
            unit.bytes = from_json("envoy.config.route.v3.Route", &bad).unwrap().into();
        }
        unit
    }
}

/// A control plane that publishes to a server what the spoiler makes of it, and an Envoy on that.
struct Stage {
    plane: ControlPlane,
    server: Server,
    transitions: UnboundedReceiver<Transition>,
    spoiler: Spoiler,
    refused: BTreeSet<String>,
    port: u16,
    dir: Dir,
    envoy: Option<Envoy>,
}

fn gateway() -> NamespacedName {
    NamespacedName::new("default", "web")
}

fn backend(name: &str, at: SocketAddr) -> String {
    format!(
        "---\napiVersion: portolan.dev/v1alpha1\nkind: Backend\nmetadata: {{name: {name}}}\nspec: {{endpoints: [{{ip: {{address: {}, port: {}}}}}]}}\n",
        at.ip(),
        at.port()
    )
}

/// A route of its own hostname to a backend; what begins with its path.
fn route(name: &str, path: &str, backend: &str) -> String {
    format!(
        "---\napiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\nmetadata: {{name: {name}}}\nspec:\n  parentRefs: [{{name: web, sectionName: http}}]\n  hostnames: [{name}.test]\n  rules: [{{matches: [{{path: {{value: {path}}}}}], backendRefs: [{{group: portolan.dev, kind: Backend, name: {backend}}}]}}]\n"
    )
}

impl Stage {
    fn apply(&mut self, manifests: &str) {
        let read = read::manifests(&"scene.yaml".into(), manifests.as_bytes()).unwrap();
        let applied = |manifest: read::Manifest| {
            let object = manifest.object.clone().unwrap_or_else(|| panic!("{manifest:?}"));
            let read::Manifest { api_version, location, bookkeeping, key, .. } = manifest;
            (key.unwrap(), Some(Arc::new(Applied { object, api_version: api_version.into(), location, bookkeeping })))
        };
        self.advance(Happening::Objects(read.into_iter().map(applied).collect()));
    }

    fn advance(&mut self, happening: Happening) {
        // The certificate is judged by its dates.
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
        let Effects { changes, .. } = self.plane.apply([happening], now.try_into().unwrap(), &|_| Ok(()));
        for (gateway, changes) in changes {
            let spoilt = changes.iter().cloned().map(|change| self.spoiler.spoil(change)).collect();
            let position = self.server.publish(&Fleet::of(gateway.clone()).server_name(), spoilt);
            self.plane.published(&gateway, &changes, position);
        }
    }

    /// Starts an Envoy with the bootstrap of every proxy.
    async fn start(&mut self) {
        let (xds, admin) = (self.dir.file("xds.sock"), self.dir.file("admin.sock"));
        let fleet = Fleet::of(gateway());
        let incoming = tokio_stream::wrappers::UnixListenerStream::new(tokio::net::UnixListener::bind(&xds).unwrap());
        let (server, name) = (self.server.clone(), fleet.server_name());
        tokio::spawn(async move { server.serve(incoming, move |_| Some(name.clone()), std::future::pending()).await });
        self.server.open();
        let options =
            fleet.bootstrap_options(XdsServer::Unix { path: xds.display().to_string() }, admin.display().to_string());
        let message = bootstrap(&options).encode_to_vec();
        let json = to_json("envoy.config.bootstrap.v3.Bootstrap", &message, Secrets::Show).unwrap().to_string();
        let mut envoy = Envoy::start(&EnvoyOptions::new(json, admin.as_path())).unwrap();
        envoy.ready(SOON).await.unwrap();
        self.envoy = Some(envoy);
    }

    fn hear(&mut self) {
        while let Ok(transition) = self.transitions.try_recv() {
            if let Transition::Refused { key, part, .. } = &transition {
                self.refused.insert(format!("{key} {part:?}"));
            }
            self.advance(Happening::Transition(transition));
        }
    }

    /// Lets everybody speak until the hostname is answered like this.
    async fn answers(&mut self, host: &str, status: u16, backend: Option<&str>) {
        let endpoint = Endpoint::http1(SocketAddr::from(([127, 0, 0, 1], self.port)));
        let end = Instant::now() + SOON;
        loop {
            self.hear();
            let answer = get(&endpoint, &format!("http://{host}/")).await;
            let seen = answer.ok().map(|answer| (answer.status.as_u16(), answer.answer().map(|answer| answer.service)));
            if seen == Some((status, backend.map(Into::into))) {
                return;
            }
            assert!(Instant::now() < end, "{host}: {seen:?} and not {status} {backend:?}; {:?}", self.refused);
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    fn condition(&self, route: &str, kind: ConditionType) -> Option<Condition> {
        let key = ObjectKey::new(Kind::HTTPRoute, NamespacedName::new("default", route));
        match self.plane.engine().status(&key) {
            Some(Status::Route { parents }) => parents[0].conditions.iter().find(|it| it.kind == kind).cloned(),
            other => panic!("{other:?}"),
        }
    }

    fn listener(&self, name: &str) -> Condition {
        match self.plane.engine().status(&ObjectKey::new(Kind::Gateway, gateway())) {
            Some(Status::Gateway { listeners, .. }) => {
                let listener = listeners.iter().find(|listener| &*listener.name == name).unwrap();
                listener.conditions.iter().find(|it| it.kind == ConditionType::Programmed).unwrap().clone()
            }
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_envoy_refuses_answers_500_says_so_and_holds_nothing_up() {
    let (one, two) =
        (Echo::start(EchoOptions::named("one")).await.unwrap(), Echo::start(EchoOptions::named("two")).await.unwrap());
    let (port, tls_port) = (ports::free().unwrap(), ports::free().unwrap());
    let (server, transitions) = Server::new(Options::default(), &mut prometheus_client::registry::Registry::default());
    let mut stage = Stage {
        plane: ControlPlane::new(BindingOptions::default(), &BTreeMap::new()),
        server,
        transitions,
        spoiler: Spoiler::default(),
        refused: BTreeSet::new(),
        port,
        dir: Dir::new().unwrap(),
        envoy: None,
    };
    let gateway = format!(
        "apiVersion: gateway.networking.k8s.io/v1\nkind: GatewayClass\nmetadata: {{name: portolan}}\nspec: {{controllerName: portolan.dev/gateway-controller}}\n---\napiVersion: gateway.networking.k8s.io/v1\nkind: Gateway\nmetadata: {{name: web}}\nspec:\n  gatewayClassName: portolan\n  listeners:\n  - {{name: http, port: {port}, protocol: HTTP}}\n  - {{name: https, port: {tls_port}, protocol: HTTPS, tls: {{certificateRefs: [{{name: cert}}]}}}}\n"
    );
    let certificate = Authority::new("test").unwrap().server(&["a.test"]).unwrap().secret("default", "cert");
    let mut objects = [gateway, "---\n".into(), certificate.trim_start_matches("---\n").into(), "\n".into()].concat();
    for name in ["cluster", "endpoints", "good"] {
        objects += &backend(name, one.address());
        objects += &route(name, "/", name);
    }
    objects += &route("host", "/", "good");
    objects += &route("match", "/", "good");
    stage.apply(&objects);
    stage.start().await;

    for host in ["cluster.test", "endpoints.test", "host.test", "match.test"] {
        stage.answers(host, 500, None).await;
    }
    stage.answers("good.test", 200, Some("one")).await;
    // Everything else goes on.
    stage.apply(&route("new", "/", "good"));
    stage.answers("new.test", 200, Some("one")).await;

    let message = |stage: &Stage, route: &str, kind| stage.condition(route, kind).map(|it| it.message.to_string());
    for route in ["cluster", "endpoints"] {
        let text = message(&stage, route, ConditionType::ResolvedRefs).unwrap();
        assert!(text.contains(&format!("Envoy refused the cluster of Backend default/{route}: ")), "{text}");
    }
    let host = message(&stage, "host", ConditionType::PartiallyInvalid).unwrap();
    assert!(host.contains("hostname host.test") && host.contains("omains"), "{host}");
    let matched = message(&stage, "match", ConditionType::PartiallyInvalid).unwrap();
    assert!(matched.contains("spec.rules[0].matches[0]") && matched.contains("missing )"), "{matched}");
    for route in ["cluster", "endpoints", "host", "match", "good", "new"] {
        assert!(stage.condition(route, ConditionType::Accepted).unwrap().status, "{route}");
    }
    assert_eq!(stage.condition("good", ConditionType::PartiallyInvalid), None);
    let (http, https) = (stage.listener("http"), stage.listener("https"));
    assert!(http.status && !https.status && https.message.contains("Secret default/cert: "), "{http:?} {https:?}");
    assert_eq!(stage.refused.len(), 5, "each culprit is told of once: {:#?}", stage.refused);

    // Objects that change are tried again, and what was refused is forgotten.
    stage.apply(&backend("endpoints", two.address()));
    stage.answers("endpoints.test", 200, Some("two")).await;
    stage.apply(&route("match", "/", "endpoints"));
    stage.answers("match.test", 200, Some("two")).await;
    assert!(stage.condition("endpoints", ConditionType::ResolvedRefs).unwrap().status);
    assert_eq!(stage.condition("match", ConditionType::PartiallyInvalid), None);
    assert_eq!(stage.plane.engine().refused().count(), 3);
}
