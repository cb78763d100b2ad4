//! Confirmation of absences, and what is never delayed.

use std::time::{Duration, Instant};

use futures::StreamExt as _;
use http_body_util::{BodyStream, StreamBody};
use kube::api::{Api, DeleteParams, DynamicObject, Patch, PatchParams};
use kube::client::Body;
use kube::core::{ApiResource, GroupVersionKind};
use portolan_kubernetes::watch::{self, Options};
use portolan_kubernetes::{Notice, Observed};
use portolan_model::objects::Object;
use portolan_model::{Kind, ObjectKey};
use portolan_testkit::{Kube, KubeOptions};
use serde_json::{Value, json};

use crate::watcher::{Watcher, client, key};

struct Writer {
    client: kube::Client,
}

impl Writer {
    fn api(&self, kind: Kind, namespace: &str) -> Api<DynamicObject> {
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(kind.group(), "v1", kind.as_str()));
        Api::namespaced_with(self.client.clone(), namespace, &resource)
    }

    async fn apply(&self, key: &ObjectKey, body: Value) {
        let group = key.kind.group();
        let mut object = body;
        object["apiVersion"] = if group.is_empty() { json!("v1") } else { json!(format!("{group}/v1")) };
        object["kind"] = json!(key.kind.as_str());
        object["metadata"]["name"] = json!(&*key.name.name);
        let api = self.api(key.kind, &key.name.namespace);
        api.patch(&key.name.name, &PatchParams::apply("test").force(), &Patch::Apply(object)).await.unwrap();
    }

    async fn delete(&self, key: &ObjectKey) {
        self.api(key.kind, &key.name.namespace).delete(&key.name.name, &DeleteParams::default()).await.unwrap();
    }

    async fn service(&self, name: &str) {
        self.apply(&key(Kind::Service, &format!("default/{name}")), json!({"spec": {"ports": [{"port": 80}]}})).await;
        let slice = json!({"metadata": {"labels": {"kubernetes.io/service-name": name}}, "addressType": "IPv4",
            "ports": [{"port": 80}], "endpoints": [{"addresses": ["10.0.0.1"]}]});
        self.apply(&key(Kind::EndpointSlice, &format!("default/{name}")), slice).await;
    }

    async fn delete_service(&self, name: &str) {
        self.delete(&key(Kind::Service, &format!("default/{name}"))).await;
        self.delete(&key(Kind::EndpointSlice, &format!("default/{name}"))).await;
    }

    async fn route(&self, name: &str, service: &str) {
        let spec = json!({"spec": {"rules": [{"backendRefs": [{"name": service, "port": 80}]}]}});
        self.apply(&key(Kind::HTTPRoute, &format!("default/{name}")), spec).await;
    }
}

/// The Service that the route leads to, by its name.
fn backend(watcher: &Watcher, route: &ObjectKey) -> Option<String> {
    match &watcher.objects.get(route)?.object {
        Some(Object::HttpRoute(route)) => Some(route.rules[0].backends[0].target.name.to_string()),
        _ => None,
    }
}

/// The watches of routes lag behind the others: a route has long been moved when its old Service is heard to be gone.
#[tokio::test]
async fn a_route_never_leads_to_a_service_that_is_gone() {
    replace_services(&["httproutes"]).await;
}

/// The other way round: a route is heard of before the Service is to which it was moved.
#[tokio::test]
async fn a_route_never_leads_to_a_service_that_is_not_yet_there() {
    replace_services(&["services", "endpointslices"]).await;
}

/// A Service is replaced and deleted at once, many times, while some watches lag: in no moment that is told does the route lead to nothing.
async fn replace_services(lagging: &'static [&'static str]) {
    let kube = Kube::start(&KubeOptions::default()).await.unwrap();
    let writer = Writer { client: client(&kube).await };
    writer.service("s0").await;
    writer.route("r", "s0").await;
    let client = slow_client(client(&kube).await, lagging, Duration::from_millis(20), &[]);
    let mut watcher = Watcher::of(watch::start(client, Options::default()));
    watcher.until(|watcher| watcher.synced).await;
    let route = key(Kind::HTTPRoute, "default/r");
    let rounds = 50;
    let writing = tokio::spawn(async move {
        for round in 0..rounds {
            writer.service(&format!("s{}", round + 1)).await;
            writer.route("r", &format!("s{}", round + 1)).await;
            writer.delete_service(&format!("s{round}")).await;
        }
    });
    while backend(&watcher, &route).unwrap() != format!("s{rounds}") {
        let batches = watcher.batches.len();
        watcher.until(|watcher| watcher.batches.len() > batches).await;
        let service = format!("default/{}", backend(&watcher, &route).unwrap());
        for kind in [Kind::Service, Kind::EndpointSlice] {
            assert!(watcher.has(kind, &service), "the route leads to {service}, of which there is no {kind}");
        }
    }
    writing.await.unwrap();
    let ours = |name: &&String| name.starts_with("default/s");
    watcher.until(|watcher| watcher.names(Kind::EndpointSlice).iter().filter(ours).count() == 1).await;
}

/// A client for which every event of some watches takes its time, and some reads of single objects take half a second.
fn slow_client(
    client: kube::Client,
    watches: &'static [&'static str],
    lag: Duration,
    reads: &'static [&'static str],
) -> kube::Client {
    let service = tower::service_fn(move |request: http::Request<Body>| {
        let path = request.uri().to_string();
        let lags =
            path.contains("watch=true") && watches.iter().any(|resource| path.contains(&format!("/{resource}?")));
        let is_slow = reads.iter().any(|resource| path.contains(&format!("/{resource}/")));
        let client = client.clone();
        async move {
            if is_slow {
                tokio::time::sleep(Duration::from_millis(500)).await;
            }
            let response = client.send(request).await?;
            let slowly = move |frame| async move {
                if lags {
                    tokio::time::sleep(lag).await;
                }
                frame
            };
            let frames = |body: Body| StreamBody::new(BodyStream::new(body).then(slowly));
            Ok::<_, kube::Error>(response.map(frames))
        }
    });
    kube::Client::new(service, "default")
}

/// While ten deletions of Services are being confirmed, a grant is gone as fast as ever.
#[tokio::test]
async fn taking_a_grant_away_waits_for_no_confirmation() {
    let kube = Kube::start(&KubeOptions::default()).await.unwrap();
    let writer = Writer { client: client(&kube).await };
    for number in 0..10 {
        writer.service(&format!("s{number}")).await;
        writer.route(&format!("r{number}"), &format!("s{number}")).await;
    }
    let grant = key(Kind::ReferenceGrant, "default/g");
    let spec = json!({"spec": {"from": [{"group": "gateway.networking.k8s.io", "kind": "HTTPRoute", "namespace": "other"}],
        "to": [{"group": "", "kind": "Service"}]}});
    writer.apply(&grant, spec).await;
    let slow = slow_client(client(&kube).await, &[], Duration::ZERO, &["httproutes"]);
    let mut watcher = Watcher::of(watch::start(slow, Options::default()));
    watcher.until(|watcher| watcher.synced).await;
    let writing = tokio::spawn(async move {
        for number in 0..10 {
            writer.delete_service(&format!("s{number}")).await;
        }
        let before = Instant::now();
        writer.delete(&key(Kind::ReferenceGrant, "default/g")).await;
        before
    });
    watcher.until(|watcher| !watcher.has(Kind::ReferenceGrant, "default/g")).await;
    let told = Instant::now();
    assert!(watcher.has(Kind::Service, "default/s9"), "which is being confirmed");
    let took = told - writing.await.unwrap();
    eprintln!("the grant was gone {took:?} after its deletion was asked for");
    assert!(took < Duration::from_millis(100), "{took:?}");
    watcher.until(|watcher| !watcher.names(Kind::Service).iter().any(|name| name.starts_with("default/s"))).await;
}

/// Deleted and made again at once: the new one is seen as another object, every time.
#[tokio::test]
async fn a_name_that_is_made_again_at_once_is_another_object() {
    let kube = Kube::start(&KubeOptions::default()).await.unwrap();
    let writer = Writer { client: client(&kube).await };
    writer.service("s").await;
    writer.route("r", "s").await;
    let mut watcher = Watcher::synced(&kube).await;
    let route = key(Kind::HTTPRoute, "default/r");
    for _ in 0..50 {
        let before = watcher.objects[&route].meta.uid.clone();
        writer.delete(&route).await;
        writer.route("r", "s").await;
        watcher.until(|watcher| watcher.objects.get(&route).is_some_and(|route| route.meta.uid != before)).await;
    }
    let uid = |observed: &Observed| observed.meta.uid.to_string();
    let live = uid(&watcher.objects[&route]);
    watcher.take_for(Duration::from_millis(300)).await;
    assert_eq!(uid(&watcher.objects[&route]), live);
}

/// Ten thousand routes: how long it takes, and how much memory.
#[tokio::test]
#[ignore = "a measurement of two minutes"]
async fn ten_thousand_routes() {
    let kube = Kube::start(&KubeOptions::default()).await.unwrap();
    let writer = std::sync::Arc::new(Writer { client: client(&kube).await });
    writer.service("s").await;
    let before = Instant::now();
    let writers: Vec<_> = (0..20)
        .map(|share| {
            let writer = writer.clone();
            tokio::spawn(async move {
                for number in (0..10_000).skip(share).step_by(20) {
                    writer.route(&format!("r{number}"), "s").await;
                }
            })
        })
        .collect();
    for writing in writers {
        writing.await.unwrap();
    }
    eprintln!("written in {:?}", before.elapsed());
    let (before, start) = (resident(), Instant::now());
    let mut watches = watch::start(client(&kube).await, Options::default());
    let mut objects = std::collections::BTreeMap::new();
    loop {
        match watches.notices.recv().await.unwrap() {
            Notice::Changes(changes) => objects.extend(changes),
            Notice::Synced => break,
            _ => {}
        }
    }
    assert!(objects.keys().filter(|key| key.kind == Kind::HTTPRoute).count() == 10_000);
    eprintln!("synced after {:?}, {} MB more", start.elapsed(), (resident() - before) / 1024);
    assert!(start.elapsed() < Duration::from_mins(1));
}

/// In kB.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}
