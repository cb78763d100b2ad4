//! A proxy whose replica of Portolan goes away, in every way in which it can: how late is what changes meanwhile?
//!
//! ```text
//! ControlPlane ──▶ one ◀─┐
//!              └─▶ two ◀─┴─ Service (forwarder) ◀─ Envoy, with the bootstrap of every proxy but for TLS
//! ```

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use portolan_fleet::Fleet;
use portolan_model::{Kind, NamespacedName, ObjectKey, read};
use portolan_proto::Change;
use portolan_proto::json::{Secrets, to_json};
use portolan_proto::prost::Message;
use portolan_standalone::binding::BindingOptions;
use portolan_standalone::control_plane::{ControlPlane, Happening};
use portolan_standalone::directory::Applied;
use portolan_testkit::client::{Endpoint, get};
use portolan_testkit::envoy::{Envoy, EnvoyOptions};
use portolan_testkit::{Dir, Echo, EchoOptions, Forwarder, ports};
use portolan_translate::{ServerTls, XdsServer, bootstrap};
use portolan_xds::{Options, Server};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::time::timeout;
use tokio_stream::wrappers::TcpListenerStream;

/// Longer than anything here may take.
const SOON: Duration = Duration::from_mins(1);

fn gateway() -> NamespacedName {
    NamespacedName::new("default", "web")
}

/// One replica of Portolan; its connections end with it.
struct Replica {
    server: Server,
    at: SocketAddr,
    task: tokio::task::JoinHandle<()>,
}

impl Replica {
    /// Knows this, and serves it.
    async fn start(changes: Vec<Change>) -> Self {
        let (server, _) = Server::new(Options::default(), &mut prometheus_client::registry::Registry::default());
        let fleet = Fleet::of(gateway()).server_name();
        server.publish(&fleet, changes);
        server.open();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let at = listener.local_addr().unwrap();
        let serving = server.clone();
        let task = tokio::spawn(async move {
            let incoming = TcpListenerStream::new(listener);
            serving
                .serve(
                    incoming,
                    move |_: &tonic::transport::server::TcpConnectInfo| Some(fleet.clone()),
                    std::future::pending(),
                )
                .await
                .unwrap();
        });
        Self { server, at, task }
    }
}

impl Drop for Replica {
    fn drop(&mut self) {
        self.server.remove_fleet(&Fleet::of(gateway()).server_name());
        self.task.abort();
    }
}

struct Stage {
    plane: ControlPlane,
    replicas: Vec<Replica>,
    service: Forwarder,
    envoy: Envoy,
    port: u16,
    _dir: Dir,
}

fn backend(name: &str, at: SocketAddr) -> String {
    format!(
        "---\napiVersion: portolan.dev/v1alpha1\nkind: Backend\nmetadata: {{name: {name}}}\nspec: {{endpoints: [{{ip: {{address: {}, port: {}}}}}]}}\n",
        at.ip(),
        at.port()
    )
}

fn route(name: &str, backend: &str) -> String {
    format!(
        "---\napiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\nmetadata: {{name: {name}}}\nspec:\n  parentRefs: [{{name: web}}]\n  hostnames: [{name}.test]\n  rules: [{{backendRefs: [{{group: portolan.dev, kind: Backend, name: {backend}}}]}}]\n"
    )
}

fn objects(manifests: &str) -> BTreeMap<ObjectKey, Option<Arc<Applied>>> {
    let read = read::manifests(&"scene.yaml".into(), manifests.as_bytes()).unwrap();
    let applied = |manifest: read::Manifest| {
        let object = manifest.object.clone().unwrap_or_else(|| panic!("{manifest:?}"));
        let read::Manifest { api_version, location, bookkeeping, key, .. } = manifest;
        (key.unwrap(), Some(Arc::new(Applied { object, api_version: api_version.into(), location, bookkeeping })))
    };
    read.into_iter().map(applied).collect()
}

/// The bootstrap of a proxy in a cluster, but for TLS.
fn config(dir: &Dir, service: SocketAddr) -> String {
    let none = String::new;
    let tls =
        ServerTls { certificate: none(), private_key: none(), authorities: none(), server_name: none(), secrets: None };
    let xds = XdsServer::Tcp { host: service.ip().to_string(), port: service.port(), tls };
    let mut message =
        bootstrap(&Fleet::of(gateway()).bootstrap_options(xds, dir.file("admin.sock").display().to_string()));
    message.static_resources.as_mut().unwrap().clusters[0].transport_socket = None;
    to_json("envoy.config.bootstrap.v3.Bootstrap", &message.encode_to_vec(), Secrets::Show).unwrap().to_string()
}

impl Stage {
    async fn new() -> Self {
        let (dir, port) = (Dir::new().unwrap(), ports::free().unwrap());
        let plane = ControlPlane::new(BindingOptions::default(), &BTreeMap::new());
        let replicas = vec![Replica::start(Vec::new()).await, Replica::start(Vec::new()).await];
        let service = Forwarder::start(replicas[0].at).await.unwrap();
        let config = config(&dir, service.address());
        let envoy = Envoy::start(&EnvoyOptions::new(config, dir.file("admin.sock").as_path())).unwrap();
        let mut stage = Self { plane, replicas, service, envoy, port, _dir: dir };
        stage.apply(&format!(
            "apiVersion: gateway.networking.k8s.io/v1\nkind: GatewayClass\nmetadata: {{name: portolan}}\nspec: {{controllerName: portolan.dev/gateway-controller}}\n---\napiVersion: gateway.networking.k8s.io/v1\nkind: Gateway\nmetadata: {{name: web}}\nspec:\n  gatewayClassName: portolan\n  listeners: [{{name: http, port: {port}, protocol: HTTP}}]\n"
        ));
        stage.envoy.ready(SOON).await.unwrap();
        stage
    }

    fn apply(&mut self, manifests: &str) {
        self.change(objects(manifests));
    }

    fn change(&mut self, objects: BTreeMap<ObjectKey, Option<Arc<Applied>>>) {
        let effects = self.plane.apply([Happening::Objects(objects)], 0, &|_| Ok(()));
        for (gateway, changes) in effects.changes {
            for replica in &self.replicas {
                replica.server.publish(&Fleet::of(gateway.clone()).server_name(), changes.clone());
            }
        }
    }

    /// How long until the host is answered so.
    async fn answers(&self, host: &str, status: u16, backend: Option<&str>) -> Duration {
        let endpoint = Endpoint::http1(SocketAddr::from(([127, 0, 0, 1], self.port)));
        let start = Instant::now();
        loop {
            let answer = get(&endpoint, &format!("http://{host}.test/")).await;
            let seen = answer.ok().map(|answer| (answer.status.as_u16(), answer.answer().map(|answer| answer.service)));
            if seen == Some((status, backend.map(Into::into))) {
                return start.elapsed();
            }
            assert!(
                start.elapsed() < SOON,
                "{host}: {seen:?} and not {status} {backend:?}\n{}",
                self.envoy.process.log()
            );
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

/// Two backends by name, and what they are as objects.
async fn backends() -> ([Echo; 2], String) {
    let [one, two] =
        [Echo::start(EchoOptions::named("one")).await.unwrap(), Echo::start(EchoOptions::named("two")).await.unwrap()];
    let objects = backend("one", one.address()) + &backend("two", two.address());
    ([one, two], objects)
}

/// As of a node that loses its power: no FIN, no RST. Envoy asks every 5 s and up to 15 % later, and waits 5 s for the answer.
#[tokio::test(flavor = "multi_thread")]
async fn a_replica_that_vanishes_is_noticed_within_eleven_seconds() {
    let mut stage = Stage::new().await;
    let (_backends, objects) = backends().await;
    stage.apply(&(objects + &route("a", "one")));
    stage.answers("a", 200, Some("one")).await;
    stage.service.vanish(stage.replicas[1].at);
    stage.apply(&route("a", "two"));
    let took = stage.answers("a", 200, Some("two")).await;
    println!("after {took:?}");
    assert!(took < Duration::from_millis(11_500), "{took:?}");
}

/// Longer than the back-off grows: all replicas are away, or a Service has no endpoints.
#[tokio::test(flavor = "multi_thread")]
async fn replicas_that_are_back_are_found_within_two_seconds() {
    let mut stage = Stage::new().await;
    let (_backends, objects) = backends().await;
    stage.apply(&(objects + &route("a", "one")));
    stage.answers("a", 200, Some("one")).await;
    for name in ["two", "one", "two"] {
        stage.service.cut();
        tokio::time::sleep(Duration::from_secs(5)).await;
        stage.apply(&route("a", name));
        stage.service.lead_to(stage.replicas[0].at);
        let took = stage.answers("a", 200, Some(name)).await;
        println!("after {took:?}");
        assert!(took < Duration::from_millis(2_500), "{took:?}");
    }
}

/// SYNs that are dropped, as on the way to the address of a node that is gone: the queue of a listener that nobody serves is full.
#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_nobody_answers_is_given_up_within_two_seconds() {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let deaf = socket.listen(0).unwrap();
    let at = deaf.local_addr().unwrap();
    let mut filling = Vec::new();
    while let Ok(connected) = timeout(Duration::from_millis(300), TcpStream::connect(at)).await {
        filling.push(connected.unwrap());
    }
    let dir = Dir::new().unwrap();
    let envoy = Envoy::start(&EnvoyOptions::new(config(&dir, at), dir.file("admin.sock").as_path())).unwrap();
    let start = Instant::now();
    while envoy.stat("cluster.portolan/xds.upstream_cx_connect_timeout").await.ok().flatten().unwrap_or(0) < 2 {
        assert!(start.elapsed() < Duration::from_secs(6), "{}", envoy.process.log());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    println!("two attempts in {:?}", start.elapsed());
}

/// Routes and backends come, change and go, in one batch or two, as watches speak; a moment before or after the proxy has to go to a replica, of
/// which both know the same.
#[tokio::test(flavor = "multi_thread")]
async fn no_moment_to_change_replicas_is_a_bad_one() {
    let mut stage = Stage::new().await;
    let ([one, two], _) = backends().await;
    // Xorshift (Marsaglia), so that each run is the same.
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let mut random = move |below: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) % below
    };
    let mut all = Vec::new();
    for round in 0..150 {
        let (echo, identity) = if random(2) == 0 { (&one, "one") } else { (&two, "two") };
        let (name, target) = (format!("r{}", random(12)), format!("b{}", random(6)));
        let mut changes = objects(&(backend(&target, echo.address()) + &route(&name, &target)));
        let (other_route, other_backend) = (format!("r{}", random(12)), format!("b{}", random(6)));
        let others = objects(&(backend(&other_backend, one.address()) + &route(&other_route, &target)));
        let goes = |key: &ObjectKey| *key.name.name != *name && *key.name.name != *target;
        changes.extend(others.into_keys().filter(|key| goes(key) && random(2) == 0).map(|key| (key, None)));
        let (routes, backends) =
            changes.into_iter().partition(|(key, _)| key.kind == Kind::HTTPRoute && random(3) == 0);
        let to = stage.replicas[usize::try_from(random(2)).unwrap()].at;
        stage.change(routes);
        if random(3) == 0 {
            stage.service.lead_to(to);
        }
        tokio::time::sleep(Duration::from_micros(random(8_000))).await;
        stage.change(backends);
        if random(3) > 0 {
            tokio::time::sleep(Duration::from_micros(random(30_000))).await;
            stage.service.lead_to(to);
        }
        let took = stage.answers(&name, 200, Some(identity)).await;
        assert!(took < Duration::from_secs(5), "round {round}: {took:?}\n{}", stage.envoy.process.log());
        all.push(took);
    }
    all.sort();
    println!("median {:?}, worst {:?}", all[all.len() / 2], all[all.len() - 1]);
}
