//! The cluster and the Portolan in it.

use std::io::Write as _;
use std::net::{IpAddr, SocketAddr};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use kube::Client;
use kube::api::{Api, DeleteParams, DynamicObject, ListParams, Patch, PatchParams};
use kube::core::{ApiResource, GroupVersionKind};
use portolan_testkit::client::{Endpoint, get};
use portolan_testkit::portolan::Metrics;
use serde_json::Value;

use crate::process;

/// For what takes as long as it takes, such as the end of a pod.
pub const PATIENCE: Duration = Duration::from_mins(3);
const SYSTEM: &str = "portolan-system";
const METRICS: u16 = 9810;
pub const XDS: u16 = 18000;
const GATEWAY_API: &str = "gateway.networking.k8s.io/v1";

/// Kinds by the name of `apiVersion` and `kind`.
pub const GATEWAY: (&str, &str) = (GATEWAY_API, "Gateway");
pub const ROUTE: (&str, &str) = (GATEWAY_API, "HTTPRoute");
pub const POD: (&str, &str) = ("v1", "Pod");
pub const SECRET: (&str, &str) = ("v1", "Secret");
pub const SERVICE: (&str, &str) = ("v1", "Service");
pub const SLICE: (&str, &str) = ("discovery.k8s.io/v1", "EndpointSlice");

/// The cluster, with all rights.
pub struct Bed {
    client: Client,
}

/// A pod of Portolan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replica {
    pub pod: String,
    pub address: IpAddr,
}

impl Bed {
    pub async fn new() -> Self {
        // Another test of this process may have been first.
        _ = rustls::crypto::ring::default_provider().install_default();
        let client = Client::try_default().await.expect("a cluster: run `make test-live`, or conformance/live.sh");
        Self { client }
    }

    pub fn api(&self, (version, kind): (&str, &str), namespace: &str) -> Api<DynamicObject> {
        let (group, version) = version.split_once('/').unwrap_or(("", version));
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
        Api::namespaced_with(self.client.clone(), namespace, &resource)
    }

    pub async fn get(&self, kind: (&str, &str), namespace: &str, name: &str) -> Option<Value> {
        let object = self.api(kind, namespace).get_opt(name).await.unwrap();
        object.map(|object| serde_json::to_value(object).unwrap())
    }

    pub async fn delete(&self, kind: (&str, &str), namespace: &str, name: &str) {
        self.api(kind, namespace).delete(name, &DeleteParams::default()).await.unwrap();
    }

    /// Applies one object, which has to name its `apiVersion` and `kind`.
    pub async fn put(&self, kind: (&str, &str), namespace: &str, name: &str, object: &Value) {
        let parameters = PatchParams::apply("live").force();
        self.api(kind, namespace).patch(name, &parameters, &Patch::Apply(object)).await.unwrap();
    }

    /// Waits until an object is as it should be.
    pub async fn until(
        &self,
        kind: (&str, &str),
        namespace: &str,
        name: &str,
        limit: Duration,
        good: impl Fn(&Value) -> bool,
    ) -> Value {
        let end = Instant::now() + limit;
        loop {
            match self.get(kind, namespace, name).await {
                Some(object) if good(&object) => return object,
                other => assert!(Instant::now() < end, "{} {namespace}/{name} after {limit:?}: {other:#?}", kind.1),
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Names, addresses and UIDs of pods that are ready and not about to end.
    async fn ready(&self, namespace: &str, labels: &str) -> Vec<(String, IpAddr, String)> {
        let pods = self.api(POD, namespace).list(&ListParams::default().labels(labels)).await.unwrap();
        let pods = pods.items.into_iter().filter(|pod| pod.metadata.deletion_timestamp.is_none());
        let read = |pod: DynamicObject| {
            let conditions = pod.data["status"]["conditions"].as_array()?.clone();
            let ready = conditions.iter().any(|one| one["type"] == "Ready" && one["status"] == "True");
            let address = pod.data["status"]["podIP"].as_str()?.parse().ok()?;
            ready.then_some((pod.metadata.name?, address, pod.metadata.uid?))
        };
        pods.filter_map(read).collect()
    }

    /// The two pods of Portolan, once both are ready: the one that leads first.
    pub async fn replicas(&self) -> [Replica; 2] {
        let end = Instant::now() + PATIENCE;
        loop {
            let ready = self.ready(SYSTEM, "app.kubernetes.io/name=portolan").await;
            let lease =
                self.get(("coordination.k8s.io/v1", "Lease"), SYSTEM, "portolan-leader").await.unwrap_or_default();
            let holder = lease["spec"]["holderIdentity"].as_str().unwrap_or_default();
            let holder = holder.split('_').next().unwrap_or_default().to_owned();
            let mut all: Vec<Replica> = ready.into_iter().map(|(pod, address, _)| Replica { pod, address }).collect();
            // `false` comes first.
            all.sort_by_key(|replica| replica.pod != holder);
            if let Ok(both) = <[Replica; 2]>::try_from(all)
                && both[0].pod == holder
            {
                return both;
            }
            assert!(Instant::now() < end, "there are not two replicas of which one leads");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// The pods of a Gateway's fleet, once so many are ready: their names and UIDs.
    pub async fn proxies(&self, namespace: &str, gateway: &str, count: usize) -> Vec<(String, String)> {
        let labels = format!("gateway.networking.k8s.io/gateway-name={gateway}");
        let end = Instant::now() + PATIENCE;
        loop {
            let ready = self.ready(namespace, &labels).await;
            if ready.len() == count {
                return ready.into_iter().map(|(name, _, uid)| (name, uid)).collect();
            }
            assert!(Instant::now() < end, "not {count} proxies are ready but {ready:?}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// Waits until a pod is gone.
    pub async fn until_gone(&self, namespace: &str, pod: &str) {
        let end = Instant::now() + PATIENCE;
        while self.get(POD, namespace, pod).await.is_some() {
            assert!(Instant::now() < end, "the pod {pod} does not end");
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }

    /// The node's address.
    pub async fn node(&self) -> (String, IpAddr) {
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("", "v1", "Node"));
        let nodes: Api<DynamicObject> = Api::all_with(self.client.clone(), &resource);
        let node = nodes.list(&ListParams::default()).await.unwrap().items.remove(0);
        let addresses = node.data["status"]["addresses"].as_array().unwrap().clone();
        let address = addresses.iter().find(|one| one["type"] == "InternalIP").unwrap()["address"].as_str().unwrap();
        (node.metadata.name.unwrap(), address.parse().unwrap())
    }
}

impl Replica {
    pub fn xds(&self) -> SocketAddr {
        SocketAddr::new(self.address, XDS)
    }

    /// How many proxies of a fleet, named by the UID of its Gateway, are connected to it.
    pub async fn streams(&self, uid: &str) -> f64 {
        let endpoint = Endpoint::http1(SocketAddr::new(self.address, METRICS));
        // One that is about to end has none.
        let Ok(answer) = get(&endpoint, "http://portolan/metrics").await else { return 0.0 };
        Metrics::read(&String::from_utf8_lossy(&answer.body)).sum("portolan_xds_streams", &[uid])
    }

    /// Kills its process, as the kernel would for want of memory.
    pub fn kill(&self) {
        let pid = process::with_argument(&format!("--pod={}", self.pod)).expect("the process of a pod that is ready");
        let status = Command::new("kill").args(["-KILL", &pid.to_string()]).status().unwrap();
        assert!(status.success());
    }
}

/// Runs kubectl, with something on its standard input.
///
/// # Panics
/// When it fails.
pub fn kubectl(arguments: &[&str], input: &str) -> String {
    let mut child = Command::new("kubectl")
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "kubectl {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

pub fn apply(manifests: &str) {
    kubectl(&["apply", "--server-side", "--force-conflicts", "-f", "-"], manifests);
}

/// kubectl on a thread of its own, while the load goes on.
pub async fn kubectl_beside(arguments: &[&str]) -> String {
    let arguments: Vec<String> = arguments.iter().map(ToString::to_string).collect();
    let run = move || kubectl(&arguments.iter().map(String::as_str).collect::<Vec<_>>(), "");
    tokio::task::spawn_blocking(run).await.unwrap()
}
