//! Other CRDs, another Portolan: a real Envoy goes on serving, nothing is taken from it, no fleet is rolled, and the class says what is there.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use portolan_testkit::client::{self, Endpoint};
use portolan_testkit::envoy::{Envoy, EnvoyOptions};
use portolan_testkit::kube::{Channel, Kube, KubeOptions};
use portolan_testkit::ports;
use portolan_testkit::process::Process;
use serde_json::Value;

use crate::{CLASS, PATIENCE, condition, get, until};

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
    let file = |name: &str| {
        let template = format!(r#"go-template={{{{index .data "{name}" | base64decode}}}}"#);
        let path = dir.join(name);
        std::fs::write(&path, kube.kubectl(&["get", "secret", "portolan-web", "-o", &template]).unwrap()).unwrap();
        path.display().to_string()
    };
    let admin = dir.join("admin.sock");
    let output = Command::new(env!("CARGO_BIN_EXE_portolan"))
        .args(["bootstrap", "default/web", "--xds", &format!("127.0.0.1:{xds}")])
        .args(["--certificate", &file("tls.crt"), "--key", &file("tls.key"), "--ca", &file("ca.crt")])
        .args(["--server-name", "portolan.portolan-system.svc", "--admin-socket", &admin.display().to_string()])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Envoy::start(&EnvoyOptions::new(String::from_utf8(output.stdout).unwrap(), admin.as_path())).unwrap()
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

/// Does what upstream guards against, such as experimental CRDs over standard ones: whoever wants that takes the guard away.
async fn unguarded(kube: &Kube, mut act: impl FnMut() -> anyhow::Result<()>) {
    for kind in ["validatingadmissionpolicybinding", "validatingadmissionpolicy"] {
        kube.kubectl(&["delete", kind, "--ignore-not-found", "safe-upgrades.gateway.networking.k8s.io"]).unwrap();
    }
    // It stands for a moment longer.
    let end = Instant::now() + PATIENCE;
    while let Err(error) = act() {
        assert!(Instant::now() < end && error.to_string().contains("safe-upgrades"), "{error}");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

fn claims(class: &Value) -> Vec<&str> {
    let features = class["status"]["supportedFeatures"].as_array().into_iter().flatten();
    features.filter_map(|feature| feature["name"].as_str()).collect()
}

/// The fleet's Deployment as far as a change of it makes other pods.
fn deployment(kube: &Kube) -> (Value, Value) {
    let deployment = get(kube, "deployment", "portolan-web").unwrap();
    (deployment["metadata"]["generation"].clone(), deployment["spec"]["template"].clone())
}

/// An API server with CRDs of a release, a Portolan, and an Envoy of a fleet that serves.
struct Stage {
    kube: Kube,
    portolan: Process,
    envoy: Envoy,
    probe: Probe,
    ports: [u16; 2],
    /// As they were before anything was touched
    pods: (Value, Value),
    had: Vec<String>,
    since: Value,
    _dir: tempfile::TempDir,
}

impl Stage {
    async fn new(version: &str, channel: Channel) -> Self {
        let options = KubeOptions { crds: Some((version.to_owned(), channel)), ..KubeOptions::default() };
        let kube = Kube::start(&options).await.unwrap();
        let port = ports::free_on(IpAddr::V4(Ipv4Addr::UNSPECIFIED)).unwrap();
        let [xds, metrics] = [ports::free().unwrap(), ports::free().unwrap()];
        kube.apply(CLASS).unwrap();
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
            probe: Probe::start(endpoint),
            ports: [xds, metrics],
            kube,
            portolan,
            envoy,
            _dir: dir,
        }
    }

    async fn class(&self, good: impl Fn(&Value) -> bool) -> Value {
        until(&self.kube, &self.portolan, "gatewayclass", "portolan", good).await
    }

    /// Nothing was taken away, nothing rolled, every request was answered.
    async fn is_undisturbed(&self, what: &str) {
        // Whatever comes later comes within this.
        tokio::time::sleep(Duration::from_secs(3)).await;
        assert_eq!(moved(&self.envoy).await, self.had, "{what}");
        assert_eq!(deployment(&self.kube), self.pods, "{what}");
        let programmed = condition(&get(&self.kube, "gateway", "web").unwrap(), "Programmed");
        let stands = (&programmed["status"], &programmed["lastTransitionTime"]);
        assert_eq!(stands, (&Value::from("True"), &self.since), "{what}");
        let asked = self.probe.check(what);
        assert!(asked > 100, "{what}: only {asked} requests");
        println!("{what}: {asked} requests, none failed");
    }

    /// What is installed decides what is claimed.
    async fn install(&self, version: &str, channel: Channel) {
        unguarded(&self.kube, || self.kube.install_crds(version, channel)).await;
        self.claims(version, channel).await;
    }

    async fn claims(&self, version: &str, channel: Channel) {
        let name = if channel == Channel::Standard { "standard" } else { "experimental" };
        let message = format!("The CRDs are of Gateway API {version} ({name} channel)");
        let class = self
            .class(|class| {
                condition(class, "SupportedVersion")["message"] == *message
                    && claims(class).contains(&"HTTPRouteDestinationPortMatching") == (channel == Channel::Experimental)
            })
            .await;
        let supported = condition(&class, "SupportedVersion");
        assert_eq!((&supported["status"], &supported["reason"]), (&"True".into(), &"SupportedVersion".into()));
        for feature in ["Gateway", "HTTPRoute", "GRPCRoute", "ListenerSet", "ReferenceGrant"] {
            assert!(claims(&class).contains(&feature), "{version} {name}: {feature}");
        }
        self.is_undisturbed(&format!("{version} {name}")).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn experimental_crds_are_upgraded_under_load() {
    let stage = Stage::new("v1.5.1", Channel::Experimental).await;
    stage.claims("v1.5.1", Channel::Experimental).await;
    stage.install("v1.6.3", Channel::Experimental).await;
    stage.install("v1.7.0", Channel::Experimental).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn crds_and_portolan_are_upgraded_under_load() {
    let mut stage = Stage::new("v1.5.1", Channel::Standard).await;
    stage.claims("v1.5.1", Channel::Standard).await;
    stage.install("v1.6.3", Channel::Standard).await;
    stage.install("v1.7.0", Channel::Standard).await;
    stage.install("v1.7.0", Channel::Experimental).await;

    // A release that nobody knows is told, and served as far as it is known.
    let annotate = async |kube: &Kube, version: &str| {
        let version = format!("gateway.networking.k8s.io/bundle-version={version}");
        let crd = "crd/httproutes.gateway.networking.k8s.io";
        unguarded(kube, || kube.kubectl(&["annotate", "--overwrite", crd, &version]).map(drop)).await;
    };
    annotate(&stage.kube, "v9.9.9").await;
    let class = stage.class(|class| condition(class, "SupportedVersion")["reason"] == "UnsupportedVersion").await;
    let (supported, accepted) = (condition(&class, "SupportedVersion"), condition(&class, "Accepted"));
    assert_eq!((&supported["status"], &accepted["status"]), (&"False".into(), &"True".into()));
    assert!(supported["message"].as_str().unwrap().contains("HTTPRoute is of v9.9.9"), "{supported}");
    stage.is_undisturbed("a release that nobody knows").await;
    annotate(&stage.kube, "v1.7.0").await;
    stage.class(|class| condition(class, "SupportedVersion")["status"] == "True").await;

    // A kind that goes takes its features with it, and comes back with them.
    for kind in ["backendtlspolicies", "tlsroutes", "referencegrants"] {
        stage.kube.kubectl(&["delete", "crd", &format!("{kind}.gateway.networking.k8s.io")]).unwrap();
    }
    stage.class(|class| !claims(class).contains(&"ReferenceGrant")).await;
    stage.is_undisturbed("without kinds that nothing uses").await;
    stage.install("v1.7.0", Channel::Experimental).await;

    // Another Portolan, with other images, goes on with the fleets that it finds.
    stage.portolan.terminate(PATIENCE).await.unwrap();
    let [xds, metrics] = stage.ports;
    let images = ["--proxy-image", "envoy:newer", "--portolan-image", "portolan:newer"];
    stage.portolan = controller(&stage.kube, xds, metrics, &images);
    // It writes: the new one leads.
    stage.kube.apply(&crate::gateway("later")).unwrap();
    let is_newer = |later: &Value| later.to_string().contains("envoy:newer");
    until(&stage.kube, &stage.portolan, "deployment", "portolan-later", is_newer).await;
    let end = Instant::now() + PATIENCE;
    while stage.envoy.stat("control_plane.connected_state").await.unwrap() != Some(1) {
        assert!(Instant::now() < end, "the proxy has not come back:\n{}", stage.envoy.process.log());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    stage.is_undisturbed("another Portolan").await;
}
