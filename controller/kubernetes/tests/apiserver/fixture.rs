//! One API server for all tests that do not take it away; each has namespaces of its own.

use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use kube::api::{Api, ApiResource, DynamicObject, Patch, PatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use portolan_kubernetes::{Meta, resource};
use portolan_testkit::kube::{Kube, KubeOptions};
use serde_json::{Value, json};
use tokio::sync::OnceCell;

pub const GATEWAY_API: &str = "gateway.networking.k8s.io/v1";

static KUBE: OnceCell<Kube> = OnceCell::const_new();

pub async fn kube() -> &'static Kube {
    let options = KubeOptions { controller_manager: true, ..KubeOptions::default() };
    KUBE.get_or_try_init(|| async move { Kube::start(&options).await }).await.unwrap()
}

pub async fn client() -> Client {
    client_of(&kube().await.kubeconfig()).await
}

pub async fn client_of(kubeconfig: &Path) -> Client {
    // Whoever is first installs it for the process.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let kubeconfig = Kubeconfig::read_from(kubeconfig).unwrap();
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    portolan_kubernetes::client(config).unwrap()
}

/// A namespace of the test's own.
pub async fn namespace(client: &Client) -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let name = format!("test-{}", COUNT.fetch_add(1, Ordering::Relaxed));
    apply(client, json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})).await;
    name
}

pub fn api(client: &Client, api_version: &str, kind: &str, namespace: &str) -> Api<DynamicObject> {
    let resource: ApiResource = resource(api_version, kind);
    if namespace.is_empty() {
        Api::all_with(client.clone(), &resource)
    } else {
        Api::namespaced_with(client.clone(), namespace, &resource)
    }
}

pub fn routes(client: &Client, namespace: &str) -> Api<DynamicObject> {
    api(client, GATEWAY_API, "HTTPRoute", namespace)
}

/// As somebody else does it.
pub async fn apply(client: &Client, manifest: Value) -> DynamicObject {
    let text = |field: &str| manifest["metadata"][field].as_str().unwrap_or_default().to_owned();
    let (api_version, kind) = (manifest["apiVersion"].as_str().unwrap(), manifest["kind"].as_str().unwrap());
    let api = api(client, api_version, kind, &text("namespace"));
    api.patch(&text("name"), &PatchParams::apply("somebody").force(), &Patch::Apply(&manifest)).await.unwrap()
}

pub fn route(namespace: &str, name: &str) -> Value {
    json!({
        "apiVersion": GATEWAY_API, "kind": "HTTPRoute", "metadata": {"namespace": namespace, "name": name},
        "spec": {"parentRefs": [{"name": "edge"}], "rules": [{"backendRefs": [{"name": "cart", "port": 80}]}]},
    })
}

pub fn meta(object: &DynamicObject) -> Meta {
    let metadata = &object.metadata;
    Meta {
        uid: metadata.uid.clone().unwrap().into(),
        resource_version: metadata.resource_version.clone().unwrap().into(),
        generation: metadata.generation.unwrap_or_default(),
        api_version: object.types.as_ref().map_or(GATEWAY_API, |types| &types.api_version).into(),
        status: object.data.get("status").cloned().unwrap_or_default().into(),
    }
}

/// Asks until the answer is there.
pub async fn eventually<T>(what: &str, mut ask: impl AsyncFnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(answer) = ask().await {
            return answer;
        }
        assert!(start.elapsed() < Duration::from_secs(60), "never: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
