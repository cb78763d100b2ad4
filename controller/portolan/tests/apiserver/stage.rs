//! An API server, a Portolan, and a real Envoy of a fleet that serves while something is done.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use portolan_testkit::client::{self, Endpoint};
use portolan_testkit::envoy::{Envoy, EnvoyOptions};
use portolan_testkit::kube::{Kube, KubeOptions};
use portolan_testkit::ports;
use portolan_testkit::process::Process;
use serde_json::Value;

use crate::{PATIENCE, condition, get, own_crds, until};

/// What a proxy is asked for every time; no backend takes part in the answers.
const HOSTS: [&str; 2] = ["shop.example.com", "set.example.com"];

fn objects(port: u16) -> String {
    format!(
        "
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {{name: web, namespace: default}}
spec:
  gatewayClassName: portolan
  allowedListeners: {{namespaces: {{from: Same}}}}
  listeners: [{{name: http, port: {port}, protocol: HTTP, hostname: shop.example.com}}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: ListenerSet
metadata: {{name: set, namespace: default}}
spec:
  parentRef: {{name: web}}
  listeners: [{{name: own, port: {port}, protocol: HTTP, hostname: set.example.com}}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {{name: shop, namespace: default}}
spec:
  parentRefs: [{{name: web}}, {{name: set, kind: ListenerSet, group: gateway.networking.k8s.io}}]
  rules: [{{filters: [{{type: RequestRedirect, requestRedirect: {{hostname: elsewhere.example.com}}}}]}}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: GRPCRoute
metadata: {{name: shop, namespace: default}}
spec:
  parentRefs: [{{name: web}}]
  rules: [{{matches: [{{method: {{service: shop.Cart}}}}], backendRefs: [{{name: kubernetes, port: 443}}]}}]
"
    )
}

fn controller(kube: &Kube, xds: u16, metrics: u16, arguments: &[&str]) -> Process {
    let mut command = Command::new(env!("CARGO_BIN_EXE_portolan"));
    command
        .args(["controller", "--pod", "here", "--xds-port", &xds.to_string(), "--metrics-port", &metrics.to_string()])
        .args(arguments)
        .env("KUBECONFIG", kube.kubeconfig());
    Process::start(command).unwrap()
}

/// An Envoy with the identity that Portolan made for the fleet.
fn envoy(kube: &Kube, dir: &Path, xds: u16) -> Envoy {
    crate::write_identity(kube, "web", dir);
    let config = crate::bootstrap("web", &format!("127.0.0.1:{xds}"), dir);
    Envoy::start(&EnvoyOptions::new(config, dir.join("admin.sock").as_path())).unwrap()
}

/// Asks every few milliseconds; counts what is not as it should be.
struct Probe {
    asked: Arc<AtomicUsize>,
    wrong: Arc<AtomicUsize>,
    ends: Arc<AtomicBool>,
}

async fn is_served(endpoint: &Endpoint, host: &str) -> bool {
    client::get(endpoint, &format!("http://{host}/cart")).await.is_ok_and(|answer| {
        answer.status == http::StatusCode::FOUND && answer.header("location").is_some_and(|to| to.contains("elsewhere"))
    })
}

impl Probe {
    fn start(endpoint: Endpoint) -> Self {
        let probe = Self { asked: Arc::default(), wrong: Arc::default(), ends: Arc::default() };
        let (asked, wrong, ends) = (probe.asked.clone(), probe.wrong.clone(), probe.ends.clone());
        tokio::spawn(async move {
            while !ends.load(Ordering::Relaxed) {
                for host in HOSTS {
                    let is_good = is_served(&endpoint, host).await;
                    asked.fetch_add(1, Ordering::Relaxed);
                    wrong.fetch_add(usize::from(!is_good), Ordering::Relaxed);
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        });
        probe
    }

    /// How often it has asked since the last time.
    fn check(&self, what: &str) -> usize {
        assert_eq!(self.wrong.load(Ordering::Relaxed), 0, "requests that failed: {what}");
        self.asked.swap(0, Ordering::Relaxed)
    }
}

impl Drop for Probe {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
    }
}

/// What Envoy has been given that it need not have been.
async fn moved(envoy: &Envoy) -> Vec<String> {
    let stats = envoy.admin("/stats").await.unwrap();
    let names = [
        "listener_manager.listener_added: ",
        "listener_manager.listener_modified: ",
        "listener_manager.listener_removed: ",
        "cluster_manager.cluster_added: ",
        "cluster_manager.cluster_modified: ",
        "cluster_manager.cluster_removed: ",
        ".config_reload: ",
    ];
    let is_named = |line: &&str| names.iter().any(|name| line.contains(name)) && !line.contains("control_plane");
    stats.lines().filter(is_named).map(ToOwned::to_owned).collect()
}

/// The fleet's Deployment as far as a change of it makes other pods.
fn deployment(kube: &Kube) -> (Value, Value) {
    let deployment = get(kube, "deployment", "portolan-web").unwrap();
    (deployment["metadata"]["generation"].clone(), deployment["spec"]["template"].clone())
}

/// An API server with CRDs of a release, a Portolan, and an Envoy of a fleet that serves.
pub struct Stage {
    pub kube: Kube,
    pub portolan: Process,
    pub envoy: Envoy,
    /// Where the Envoy listens
    pub endpoint: Endpoint,
    probe: Probe,
    /// For proxies, for metrics
    pub ports: [u16; 2],
    /// As they were before anything was touched
    pods: (Value, Value),
    had: Vec<String>,
    since: Value,
    _dir: tempfile::TempDir,
}

impl Stage {
    /// `world`: the class and what belongs to it, such as [`crate::CLASS`].
    pub async fn new(options: &KubeOptions, world: &str) -> Self {
        let kube = Kube::start(options).await.unwrap();
        let port = ports::free_on(IpAddr::V4(Ipv4Addr::UNSPECIFIED)).unwrap();
        let [xds, metrics] = [ports::free().unwrap(), ports::free().unwrap()];
        own_crds(&kube);
        kube.apply(world).unwrap();
        kube.apply(&objects(port)).unwrap();
        let portolan = controller(&kube, xds, metrics, &[]);
        for kind in ["service", "secret", "deployment"] {
            until(&kube, &portolan, kind, "portolan-web", |_| true).await;
        }
        let address = r#"{"status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.7"}]}}}"#;
        let patch = ["patch", "service", "portolan-web", "--subresource=status", "--type=merge", "-p", address];
        kube.kubectl(&patch).unwrap();
        let dir = tempfile::tempdir().unwrap();
        let mut envoy = envoy(&kube, dir.path(), xds);
        envoy.ready(PATIENCE).await.unwrap();
        let programmed = |gateway: &Value| condition(gateway, "Programmed")["status"] == "True";
        let gateway = until(&kube, &portolan, "gateway", "web", programmed).await;
        let endpoint = Endpoint::http1(SocketAddr::from(([127, 0, 0, 1], port)));
        let end = Instant::now() + PATIENCE;
        while !(is_served(&endpoint, HOSTS[0]).await && is_served(&endpoint, HOSTS[1]).await) {
            assert!(Instant::now() < end, "not served:\n{}\n{}", portolan.log(), envoy.process.log());
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Self {
            pods: deployment(&kube),
            had: moved(&envoy).await,
            since: condition(&gateway, "Programmed")["lastTransitionTime"].clone(),
            probe: Probe::start(endpoint.clone()),
            endpoint,
            ports: [xds, metrics],
            kube,
            portolan,
            envoy,
            _dir: dir,
        }
    }

    pub async fn class(&self, good: impl Fn(&Value) -> bool) -> Value {
        until(&self.kube, &self.portolan, "gatewayclass", "portolan", good).await
    }

    /// Nothing was taken away, nothing rolled, every request was answered, and the Gateway says what it has said.
    pub async fn is_undisturbed(&self, what: &str) {
        self.is_served(what).await;
        let programmed = condition(&get(&self.kube, "gateway", "web").unwrap(), "Programmed");
        let stands = (&programmed["status"], &programmed["lastTransitionTime"]);
        assert_eq!(stands, (&Value::from("True"), &self.since), "{what}");
    }

    /// Nothing was taken away, nothing rolled, every request was answered.
    pub async fn is_served(&self, what: &str) {
        // Whatever comes later comes within this.
        tokio::time::sleep(Duration::from_secs(3)).await;
        assert_eq!(moved(&self.envoy).await, self.had, "{what}");
        assert_eq!(deployment(&self.kube), self.pods, "{what}");
        let asked = self.probe.check(what);
        assert!(asked > 100, "{what}: only {asked} requests");
        println!("{what}: {asked} requests, none failed");
    }

    /// Another Portolan in its place.
    pub async fn replace(&mut self, arguments: &[&str]) {
        self.portolan.terminate(PATIENCE).await.unwrap();
        let [xds, metrics] = self.ports;
        self.portolan = controller(&self.kube, xds, metrics, arguments);
    }

    /// The proxy has come back to Portolan.
    pub async fn is_connected(&self) {
        let end = Instant::now() + PATIENCE;
        while self.envoy.stat("control_plane.connected_state").await.unwrap() != Some(1) {
            assert!(Instant::now() < end, "the proxy has not come back:\n{}", self.envoy.process.log());
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}
