//! A namespace with a Gateway, its fleet, and backends that this process serves.

use std::net::SocketAddr;

use portolan_testkit::client::Endpoint;
use portolan_testkit::load::{Expect, Kind, Load, Worker};
use portolan_testkit::{Echo, EchoOptions};
use serde_json::{Value, json};

use crate::bed::{Bed, GATEWAY, PATIENCE, ROUTE, SERVICE, SLICE, apply, kubectl};

pub const HOST: &str = "app.test";

/// What every test has. The namespace is the test's, and the Gateway is `web`.
pub struct Scene {
    pub bed: Bed,
    pub namespace: &'static str,
    /// The UID of the Gateway
    pub uid: String,
    /// Of the fleet's Service, without a port
    pub address: SocketAddr,
    /// Serves for as long as it lives
    _echo: Echo,
}

impl Scene {
    /// A Gateway with so many proxies and a listener on port 80, a Service `echo`, and a route `app` to it.
    pub async fn new(namespace: &'static str, proxies: u32) -> Self {
        Self::of_class("portolan", namespace, proxies, "", "").await
    }

    /// The same of some class, with further listeners, and with further objects, which have to name their namespace.
    pub async fn of_class(class: &str, namespace: &'static str, proxies: u32, listeners: &str, objects: &str) -> Self {
        let bed = Bed::new().await;
        kubectl(&["delete", "namespace", namespace, "--ignore-not-found"], "");
        apply(&format!("{{apiVersion: v1, kind: Namespace, metadata: {{name: {namespace}}}}}"));
        let (name, node) = bed.node().await;
        // Where an earlier test ended in the middle of a drain.
        kubectl(&["uncordon", &name], "");
        let listen = SocketAddr::new(node, 0);
        let echo = Echo::start(EchoOptions { listen, ..EchoOptions::named("echo") }).await.unwrap();
        for (kind, object) in [SERVICE, SLICE].into_iter().zip(service("echo", echo.address())) {
            bed.put(kind, namespace, "echo", &object).await;
        }
        apply(&format!("{}---\n{objects}", gateway(class, namespace, proxies, listeners)));
        bed.put(ROUTE, namespace, "app", &route("app", "echo")).await;
        let web = bed.until(GATEWAY, namespace, "web", PATIENCE, |web| condition(web, "Programmed") == "True").await;
        let address = web["status"]["addresses"][0]["value"].as_str().unwrap();
        let address = SocketAddr::new(address.parse().unwrap(), 80);
        let uid = web["metadata"]["uid"].as_str().unwrap().to_owned();
        bed.proxies(namespace, "web", proxies.try_into().unwrap()).await;
        let scene = Self { bed, namespace, uid, address, _echo: echo };
        scene.until_served().await;
        scene
    }

    async fn until_served(&self) {
        let end = std::time::Instant::now() + PATIENCE;
        let endpoint = Endpoint::http1(self.address);
        while !portolan_testkit::client::get(&endpoint, &format!("http://{HOST}/"))
            .await
            .is_ok_and(|one| one.status == 200)
        {
            assert!(std::time::Instant::now() < end, "{} is not served", self.address);
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    }

    /// 500 requests a second, of each of which enough are on their way at a time that a slow answer holds up no other: on connections that are kept, on
    /// streams of one connection, and each on a connection of its own.
    pub fn workers(&self, expect: &Expect) -> Vec<Worker> {
        let uri = format!("http://{HOST}/");
        let (h1, h2) = (Endpoint::http1(self.address), Endpoint::http2(self.address));
        let worker = |name, kind, endpoint: &Endpoint, rate| {
            Worker::get(name, kind, endpoint.clone(), &uri, rate, expect.clone()).unwrap()
        };
        let kept = worker("http1", Kind::KeepAlive, &h1, 20.0);
        let streams = worker("http2", Kind::Streams(10), &h2, 200.0);
        let new = worker("new connections", Kind::NewConnection, &h1, 10.0);
        [vec![kept; 10], vec![streams], vec![new; 10]].concat()
    }

    /// Takes the namespace away.
    pub fn finish(self) {
        kubectl(&["delete", "namespace", self.namespace, "--wait=false"], "");
    }
}

/// The end of a load: nothing has failed, and enough was sent.
pub async fn settle(load: Load) {
    let report = load.stop().await.unwrap();
    println!("{report}");
    assert_eq!(report.failed(), 0, "{report}");
    assert!(report.rate() > 450.0, "too little was asked: {report}");
}

/// Prints what the load has met since `before` (requests, failures), and returns where it is now.
pub fn phase(what: &str, load: &Load, before: (u64, u64)) -> (u64, u64) {
    let now = (load.sent(), load.failed());
    println!("{what}: {} requests, {} failed", now.0 - before.0, now.1 - before.1);
    now
}

pub fn gateway(class: &str, namespace: &str, proxies: u32, listeners: &str) -> String {
    format!(
        "apiVersion: portolan.dev/v1alpha1
kind: EnvoyProxy
metadata: {{name: web, namespace: {namespace}}}
spec: {{provider: {{type: Kubernetes, kubernetes: {{envoyDeployment: {{replicas: {proxies}}}}}}}}}
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {{name: web, namespace: {namespace}}}
spec:
  gatewayClassName: {class}
  infrastructure: {{parametersRef: {{group: portolan.dev, kind: EnvoyProxy, name: web}}}}
  listeners:
  - {{name: http, port: 80, protocol: HTTP}}
{listeners}"
    )
}

pub fn route(name: &str, service: &str) -> Value {
    json!({
        "apiVersion": ROUTE.0,
        "kind": ROUTE.1,
        "metadata": {"name": name},
        "spec": {"parentRefs": [{"name": "web"}], "rules": [{"backendRefs": [{"name": service, "port": 80}]}]},
    })
}

/// A Service and its EndpointSlice, of the same name.
pub fn service(name: &str, endpoint: SocketAddr) -> [Value; 2] {
    let service = json!({
        "apiVersion": SERVICE.0,
        "kind": SERVICE.1,
        "metadata": {"name": name},
        "spec": {"ports": [{"name": "http", "port": 80}]},
    });
    let slice = json!({
        "apiVersion": SLICE.0,
        "kind": SLICE.1,
        "metadata": {"name": name, "labels": {"kubernetes.io/service-name": name}},
        "addressType": "IPv4",
        "ports": [{"name": "http", "port": endpoint.port()}],
        "endpoints": [{"addresses": [endpoint.ip()]}],
    });
    [service, slice]
}

/// The status of a condition of a Gateway, of its generation; or of a route's first parent.
pub fn condition(object: &Value, kind: &str) -> String {
    let status = &object["status"];
    let conditions = status.get("conditions").unwrap_or(&status["parents"][0]["conditions"]);
    let all = conditions.as_array().into_iter().flatten();
    let mut current = all.filter(|one| one["observedGeneration"] == object["metadata"]["generation"]);
    current.find(|one| one["type"] == kind).and_then(|one| one["status"].as_str()).unwrap_or_default().to_owned()
}
