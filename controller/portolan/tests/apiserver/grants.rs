//! A grant that is taken away stops requests at once, whatever else is going on.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, GroupVersionKind};
use kube::config::{KubeConfigOptions, Kubeconfig};
use portolan_testkit::client::{Endpoint, get};
use portolan_testkit::kube::{Kube, KubeOptions};

use crate::cut_off::{OTHERS, echo, service};
use crate::stage::Stage;
use crate::{CLASS, PATIENCE};

/// From when the API server is asked to delete it until requests are answered with 500.
const BAR: Duration = Duration::from_millis(100);

fn route(name: &str, namespace: &str) -> String {
    format!(
        "---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {{name: {name}, namespace: default}}
spec:
  parentRefs: [{{name: web}}]
  rules:
  - matches: [{{path: {{type: PathPrefix, value: /{name}}}}}]
    backendRefs: [{{name: {name}, namespace: {namespace}, port: 80}}]
"
    )
}

async fn api(kube: &Kube, group: &str, version: &str, kind: &str, namespace: &str) -> Api<DynamicObject> {
    // Whoever is first installs it for the process.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let kubeconfig = Kubeconfig::read_from(kube.kubeconfig()).unwrap();
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
    Api::namespaced_with(portolan_kubernetes::client(config).unwrap(), namespace, &resource)
}

async fn status(endpoint: &Endpoint, path: &str) -> Option<u16> {
    let answer = get(endpoint, &format!("http://shop.example.com{path}")).await;
    answer.ok().map(|answer| answer.status.as_u16())
}

async fn until_answered(endpoint: &Endpoint, path: &str, wanted: u16) {
    let end = Instant::now() + PATIENCE;
    while status(endpoint, path).await != Some(wanted) {
        assert!(Instant::now() < end, "{path} is not answered with {wanted}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Asks for what the grant is about, without a pause.
struct Asking {
    ends: Arc<AtomicBool>,
    last: tokio::task::JoinHandle<Instant>,
}

impl Asking {
    fn start(endpoint: &Endpoint) -> Self {
        let ends = Arc::new(AtomicBool::new(false));
        let (endpoint, end) = (endpoint.clone(), Arc::clone(&ends));
        let last = tokio::spawn(async move {
            let mut last = None;
            while !end.load(Ordering::Relaxed) {
                let asked = Instant::now();
                match status(&endpoint, "/vault").await {
                    Some(200) => last = Some(asked),
                    Some(500) => {}
                    other => panic!("answered with {other:?}"),
                }
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            last.unwrap()
        });
        Self { ends, last }
    }

    /// When the last request was sent that got through.
    async fn end(self) -> Instant {
        self.ends.store(true, Ordering::Relaxed);
        self.last.await.unwrap()
    }
}

/// While the absence of ten Services is being confirmed (design invariant 18); `confirming.rs` of portolan-kubernetes has that with an API server that is slow to
/// confirm.
#[tokio::test(flavor = "multi_thread")]
async fn a_grant_that_is_taken_away_stops_requests_at_once() {
    let stage = Stage::new(&KubeOptions::default(), CLASS).await;
    let echo = echo("shop").await;
    let names: Vec<String> = (0..10).map(|number| format!("s{number}")).collect();
    let own = names.iter().map(|name| service("default", name, &echo) + &route(name, "default"));
    let world: String =
        own.collect::<String>() + OTHERS + &service("others", "vault", &echo) + &route("vault", "others");
    let services = api(&stage.kube, "", "v1", "Service", "default").await;
    let grants = api(&stage.kube, "gateway.networking.k8s.io", "v1beta1", "ReferenceGrant", "others").await;
    let mut took = Vec::new();
    for _ in 0..5 {
        stage.kube.apply(&world).unwrap();
        for path in ["/vault", "/s0", "/s9"] {
            until_answered(&stage.endpoint, path, 200).await;
        }
        let asking = Asking::start(&stage.endpoint);
        for name in &names {
            services.delete(name, &DeleteParams::default()).await.unwrap();
        }
        let deleted = Instant::now();
        grants.delete("grant", &DeleteParams::default()).await.unwrap();
        for path in ["/vault", "/s0", "/s9"] {
            until_answered(&stage.endpoint, path, 500).await;
        }
        took.push(asking.end().await.saturating_duration_since(deleted));
    }
    took.sort();
    println!("the last request that got through was sent so long after the grant's deletion was asked for: {took:?}");
    // The machine may have other things to do now and then.
    assert!(took[2] < BAR, "{took:?}");
}
