//! Design invariant 17 with real Envoys under load: a replica that is cut off from the API server, and an API server that is away.
//!
//! ```text
//! API server ◀────────────── good ◀─┐
//!      ▲                            ├─ xds (forwarder) ◀─ Envoy of `web` ◀─ load
//!      └─ api (forwarder) ◀── cut ◀─┘                  ◀─ Envoy of `again`, which is restarted
//! ```

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use portolan_testkit::client::{Address, Cause, Endpoint, Failure, get};
use portolan_testkit::envoy::{Envoy, EnvoyOptions};
use portolan_testkit::kube::{Kube, KubeOptions};
use portolan_testkit::load::{Expect, Kind, Load, Worker, backend, backends};
use portolan_testkit::portolan::Metrics;
use portolan_testkit::process::Process;
use portolan_testkit::{Echo, EchoOptions, Forwarder, ports};
use serde_json::Value;
use tempfile::{NamedTempFile, TempDir};

use crate::{CLASS, PATIENCE, until};

/// How long the API server is away, in seconds: more than the 30 after which a replica only helps.
const AWAY: &str = "PORTOLAN_AWAY_SECONDS";
/// From the moment of being cut off until a replica has noticed and counts as stale.
const NOTICED: Duration = Duration::from_mins(2);

pub struct Replica {
    pub process: Process,
    pub xds: SocketAddr,
    pub admin: SocketAddr,
    _kubeconfig: Option<NamedTempFile>,
}

impl Replica {
    pub fn start(kubeconfig: &Path, pod: &str) -> Self {
        let (xds, admin) = (ports::address().unwrap(), ports::address().unwrap());
        let mut command = Command::new(env!("CARGO_BIN_EXE_portolan"));
        command
            .args(["controller", "--pod", pod, "--xds-port", &xds.port().to_string()])
            .args(["--metrics-port", &admin.port().to_string()])
            .env("KUBECONFIG", kubeconfig)
            .env("PORTOLAN_LOG", "info");
        Self { process: Process::start(command).unwrap(), xds, admin, _kubeconfig: None }
    }

    /// One that reaches the API server by a forwarder.
    pub fn behind(kube: &Kube, api: &Forwarder, pod: &str) -> Self {
        let kubeconfig = NamedTempFile::new().unwrap();
        let text = std::fs::read_to_string(kube.kubeconfig()).unwrap();
        let text = text.replace(&kube.address().to_string(), &api.address().to_string());
        std::fs::write(kubeconfig.path(), text).unwrap();
        let started = Self::start(kubeconfig.path(), pod);
        Self { _kubeconfig: Some(kubeconfig), ..started }
    }

    async fn ask(&self, path: &str) -> String {
        let answer = get(&Endpoint::http1(self.admin), &format!("http://portolan{path}")).await.unwrap();
        assert_eq!(answer.status, 200, "{path}");
        String::from_utf8_lossy(&answer.body).into_owned()
    }

    /// Waits until a metric has this value.
    async fn until(&self, metric: &str, value: f64, limit: Duration) {
        let end = Instant::now() + limit;
        loop {
            let metrics = self.ask("/metrics").await;
            let is = Metrics::read(&metrics).sum(metric, &[]);
            if (is - value).abs() < f64::EPSILON {
                return;
            }
            assert!(Instant::now() < end, "{metric} is {is}, not {value}\n{metrics}\n{}", self.process.log());
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }

    async fn until_cut_off(&self, is_cut_off: bool) {
        self.until("portolan_xds_cut_off", f64::from(u8::from(is_cut_off)), NOTICED).await;
        assert_eq!(self.ask("/readyz?verbose").await.contains("[-] cut off"), is_cut_off);
    }
}

/// An Envoy of a Gateway, with the identity that Portolan has made for it.
struct Proxy {
    gateway: &'static str,
    at: SocketAddr,
    dir: TempDir,
    config: String,
    envoy: Option<Envoy>,
}

impl Proxy {
    fn new(kube: &Kube, gateway: &'static str, port: u16, xds: SocketAddr) -> Self {
        let dir = tempfile::tempdir().unwrap();
        crate::write_identity(kube, gateway, dir.path());
        let config = crate::bootstrap(gateway, &xds.to_string(), dir.path());
        Self { gateway, at: SocketAddr::from(([127, 0, 0, 1], port)), dir, config, envoy: None }
    }

    /// Ends its Envoy, where there is one, and starts another. It is ready when it has got a configuration.
    async fn restart(&mut self) {
        self.envoy = None;
        let admin = Address::from(self.dir.path().join("admin.sock").as_path());
        let mut envoy = Envoy::start(&EnvoyOptions::new(self.config.clone(), admin)).unwrap();
        envoy.ready(PATIENCE).await.unwrap();
        self.envoy = Some(envoy);
    }

    /// Waits until a path is answered so.
    async fn answers(&self, path: &str, status: u16, service: Option<&str>) {
        let end = Instant::now() + PATIENCE;
        loop {
            let answer = get(&Endpoint::http1(self.at), &format!("http://app.test{path}")).await;
            let is = answer.map(|answer| {
                let by = answer.header(portolan_testkit::echo::IDENTITY).map(ToOwned::to_owned);
                (answer.status.as_u16(), by)
            });
            if is.as_ref().is_ok_and(|(is, by)| *is == status && (service.is_none() || by.as_deref() == service)) {
                return;
            }
            let log = self.envoy.as_ref().map(|envoy| envoy.process.log()).unwrap_or_default();
            assert!(Instant::now() < end, "{}{path} is {is:?}, not {status} by {service:?}\n{log}", self.gateway);
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

/// An address of this machine that an EndpointSlice may have: the API server takes none of loopback. Nothing is sent to find it.
fn own_address() -> IpAddr {
    let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
    // TEST-NET-2
    let connected = socket.connect("198.51.100.1:9");
    let address = socket.local_addr().unwrap().ip();
    assert!(
        connected.is_ok() && !address.is_loopback() && !address.is_unspecified(),
        "this machine has no IPv4 address but that of loopback, which no EndpointSlice may have"
    );
    address
}

pub async fn echo(name: &str) -> Echo {
    let listen = SocketAddr::new(own_address(), 0);
    Echo::start(EchoOptions { listen, ..EchoOptions::named(name) }).await.unwrap()
}

pub fn service(namespace: &str, name: &str, echo: &Echo) -> String {
    let (address, port) = (echo.address().ip(), echo.address().port());
    format!(
        "---
apiVersion: v1
kind: Service
metadata: {{name: {name}, namespace: {namespace}}}
spec: {{ports: [{{name: http, port: 80}}]}}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {{name: {name}-x, namespace: {namespace}, labels: {{kubernetes.io/service-name: {name}}}}}
addressType: IPv4
ports: [{{name: http, port: {port}}}]
endpoints: [{{addresses: [{address}]}}]
"
    )
}

fn gateway(name: &str, port: u16) -> String {
    format!(
        "---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {{name: {name}, namespace: default}}
spec: {{gatewayClassName: portolan, listeners: [{{name: http, port: {port}, protocol: HTTP}}]}}
"
    )
}

/// A route of both Gateways.
fn route(name: &str, namespace: &str, service: &str) -> String {
    format!(
        "---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {{name: {name}, namespace: default}}
spec:
  parentRefs: [{{name: web}}, {{name: again}}]
  rules:
  - matches: [{{path: {{type: PathPrefix, value: /{name}}}}}]
    backendRefs: [{{name: {service}, namespace: {namespace}, port: 80}}]
"
    )
}

fn pod(name: &str) -> String {
    format!(
        "---
apiVersion: v1
kind: Pod
metadata: {{name: {name}, namespace: portolan-system}}
spec: {{containers: [{{name: portolan, image: portolan}}]}}
"
    )
}

pub const OTHERS: &str = "
---
apiVersion: v1
kind: Namespace
metadata: {name: others}
---
apiVersion: gateway.networking.k8s.io/v1beta1
kind: ReferenceGrant
metadata: {name: grant, namespace: others}
spec:
  from: [{group: gateway.networking.k8s.io, kind: HTTPRoute, namespace: default}]
  to: [{group: '', kind: Service}]
";

fn refused() -> Expect {
    Arc::new(|request, exchange| {
        if exchange.status == 500 {
            return Ok(());
        }
        Err(Failure::new(Cause::Status, format!("{} for {}, whose grant is gone", exchange.status, request.uri())))
    })
}

fn worker(name: &'static str, kind: Kind, proxy: &Proxy, path: &str, rate: f64, expect: Expect) -> Worker {
    Worker::get(name, kind, Endpoint::http1(proxy.at), &format!("http://app.test{path}"), rate, expect).unwrap()
}

fn has(object: &Value, pointer: &str, kind: &str, status: &str) -> bool {
    let conditions = object.pointer(pointer).and_then(Value::as_array).into_iter().flatten();
    conditions.into_iter().any(|one| {
        one["type"] == kind && one["status"] == status && one["observedGeneration"] == object["metadata"]["generation"]
    })
}

fn is_programmed(gateway: &Value) -> bool {
    has(gateway, "/status/conditions", "Programmed", "True")
}

fn is_accepted(route: &Value) -> bool {
    has(route, "/status/parents/0/conditions", "Accepted", "True")
}

#[tokio::test(flavor = "multi_thread")]
#[expect(clippy::too_many_lines, reason = "one story")]
async fn proxies_keep_what_they_have_while_a_replica_or_all_are_cut_off() {
    let away = std::env::var(AWAY).map_or(45, |seconds| seconds.parse().unwrap());
    let mut kube = Kube::start(&KubeOptions::default()).await.unwrap();
    let (plain, moved, granted) = (echo("plain").await, echo("moved").await, echo("granted").await);
    let (web_port, again_port) = (ports::free().unwrap(), ports::free().unwrap());
    let services = service("default", "plain", &plain) + &service("others", "granted", &granted);
    let routes = route("plain", "default", "plain") + &route("granted", "others", "granted");
    let gateways = gateway("web", web_port) + &gateway("again", again_port);
    kube.apply(CLASS).unwrap();
    kube.apply(&[OTHERS, &services, &routes, &gateways, &pod("good"), &pod("cut")].concat()).unwrap();

    // The good one leads, since it is first.
    let good = Replica::start(&kube.kubeconfig(), "good");
    for name in ["web", "again"] {
        let made = format!("portolan-{name}");
        for kind in ["secret", "service"] {
            until(&kube, &good.process, kind, &made, |_| true).await;
        }
        let address = r#"{"status":{"loadBalancer":{"ingress":[{"ip":"127.0.0.1"}]}}}"#;
        kube.kubectl(&["patch", "service", &made, "--subresource=status", "--type=merge", "-p", address]).unwrap();
    }
    let api = Forwarder::start(kube.address()).await.unwrap();
    let cut = Replica::behind(&kube, &api, "cut");

    let xds = Forwarder::start(good.xds).await.unwrap();
    let mut web = Proxy::new(&kube, "web", web_port, xds.address());
    let mut again = Proxy::new(&kube, "again", again_port, xds.address());
    for proxy in [&mut web, &mut again] {
        proxy.restart().await;
        proxy.answers("/plain", 200, Some("plain")).await;
        proxy.answers("/granted", 200, Some("granted")).await;
        until(&kube, &good.process, "gateway", proxy.gateway, is_programmed).await;
    }
    until(&kube, &good.process, "httproute", "plain", is_accepted).await;
    let has_moved = Arc::new(AtomicBool::new(false));
    let expect: Expect = {
        let (has_moved, old, new) = (has_moved.clone(), backends(&["plain", "moved"]), backend("moved"));
        Arc::new(move |request, exchange| {
            // The request may have been on its way at the moment of the move, which comes well after the proxy has followed it.
            if has_moved.load(Ordering::Relaxed) { new(request, exchange) } else { old(request, exchange) }
        })
    };
    let load = Load::start(&[
        worker("kept open", Kind::KeepAlive, &web, "/plain", 100.0, expect.clone()),
        worker("kept open", Kind::KeepAlive, &web, "/plain", 100.0, expect.clone()),
        worker("new connections", Kind::NewConnection, &web, "/plain", 20.0, expect),
    ]);

    // A replica is in a part of the network that does not reach the API server. Meanwhile a grant is revoked, a backend moves, a route comes.
    cut.until("portolan_xds_cut_off", 0.0, PATIENCE).await;
    assert!(cut.ask("/readyz?verbose").await.ends_with("ok\n"));
    api.stall(true);
    kube.kubectl(&["delete", "referencegrant", "grant", "-n", "others"]).unwrap();
    kube.apply(&(service("default", "plain", &moved) + &route("new", "default", "plain"))).unwrap();
    for proxy in [&web, &again] {
        proxy.answers("/granted", 500, None).await;
        proxy.answers("/plain", 200, Some("moved")).await;
        proxy.answers("/new", 200, Some("moved")).await;
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    has_moved.store(true, Ordering::Relaxed);
    let revoked = Load::start(&[
        worker("revoked", Kind::KeepAlive, &web, "/granted", 50.0, refused()),
        worker("new", Kind::KeepAlive, &web, "/new", 50.0, backend("moved")),
    ]);
    cut.until_cut_off(true).await;
    assert!(cut.ask("/readyz?verbose").await.contains("ReferenceGrant not followed for"));

    // The proxies come to it.
    xds.lead_to(cut.xds);
    cut.until("portolan_xds_streams", 2.0, PATIENCE).await;
    revoked.further(500, PATIENCE).await.unwrap();
    assert_eq!((load.failed(), revoked.failed()), (0, 0));
    // One that starts there serves what was known last.
    again.restart().await;
    again.answers("/plain", 200, Some("plain")).await;
    again.answers("/granted", 200, Some("granted")).await;
    again.answers("/new", 404, None).await;

    let open = Instant::now();
    api.stall(false);
    cut.until_cut_off(false).await;
    eprintln!("known again {:?} after the network was", open.elapsed());
    assert!(open.elapsed() < Duration::from_secs(40), "no watch waits for a word that may come once a minute");
    again.answers("/granted", 500, None).await;
    again.answers("/plain", 200, Some("moved")).await;
    again.answers("/new", 200, Some("moved")).await;
    revoked.further(500, PATIENCE).await.unwrap();
    assert_eq!((load.failed(), revoked.failed()), (0, 0));

    // The API server is away. What is written at the last moment may have no status yet.
    kube.apply(&route("late", "default", "plain")).unwrap();
    let gone = Instant::now();
    kube.stop_api_server();
    for replica in [&good, &cut] {
        replica.until_cut_off(true).await;
    }
    for replica in [&cut, &good] {
        xds.lead_to(replica.xds);
        replica.until("portolan_xds_streams", 2.0, PATIENCE).await;
        again.restart().await;
        again.answers("/plain", 200, Some("moved")).await;
        again.answers("/granted", 500, None).await;
    }
    tokio::time::sleep_until((gone + Duration::from_secs(away)).into()).await;
    kube.start_api_server().await.unwrap();
    let back = Instant::now();
    for replica in [&good, &cut] {
        replica.until_cut_off(false).await;
    }
    eprintln!("known again {:?} after the API server was", back.elapsed());
    until(&kube, &good.process, "httproute", "late", is_accepted).await;
    kube.apply(&route("after", "default", "plain")).unwrap();
    web.answers("/after", 200, Some("moved")).await;
    again.answers("/late", 200, Some("moved")).await;
    until(&kube, &good.process, "httproute", "after", is_accepted).await;
    for proxy in [&web, &again] {
        let gateway = until(&kube, &good.process, "gateway", proxy.gateway, is_programmed).await;
        assert_eq!(gateway["metadata"]["generation"], 1);
    }
    eprintln!("all statuses {:?} after", back.elapsed());

    for (what, load) in [("plain", load), ("revoked and new", revoked)] {
        let report = load.stop().await.unwrap();
        eprintln!("{what}: {report}");
        assert_eq!(report.failed(), 0, "{what}: {report}");
        assert!(report.sent() > 50 * away, "{report}");
    }
}
