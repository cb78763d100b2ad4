//! Lists, watches, versions.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::{Duration, Instant};

use portolan_kubernetes::KindState;
use portolan_kubernetes::watch::{Followed, LIMIT};
use portolan_model::{Kind, ObjectKey};
use portolan_testkit::{Kube, KubeOptions};

use crate::watcher::{Watcher, key};

pub fn route(name: &str, service: &str) -> String {
    format!(
        "---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {{name: {name}, namespace: default}}
spec: {{rules: [{{backendRefs: [{{name: {service}, port: 80}}]}}]}}
"
    )
}

/// More objects than a page holds; every kind is read; an object with a field of a newer API does no harm; a name that is made anew is another object.
#[tokio::test]
async fn everything_is_listed_and_then_followed() {
    let kube = Kube::start(&KubeOptions::default()).await.unwrap();
    let mut all = String::new();
    for number in 0..1_100 {
        write!(all, "---\napiVersion: v1\nkind: Service\nmetadata: {{name: s{number}, namespace: default}}\nspec: {{ports: [{{port: 80}}]}}\n").unwrap();
    }
    all.push_str(&route("a", "s1"));
    kube.apply(&all).unwrap();

    let mut watcher = Watcher::synced(&kube).await;
    assert_eq!(watcher.names(Kind::Service).len(), 1_101, "and `kubernetes`");
    assert!(watcher.has(Kind::HTTPRoute, "default/a") && watcher.has(Kind::Namespace, "kube-system"));
    assert_eq!(watcher.kinds[&Kind::TCPRoute], KindState::Served("v1".into()));
    assert_eq!(watcher.kinds[&Kind::Backend], KindState::Absent);
    let bundle = watcher.bundles[&Kind::Gateway].clone().expect("known before all is synced");
    assert_eq!((&*bundle.version, &*bundle.channel), (portolan_testkit::kube::GATEWAY_API, "experimental"));
    assert!(!watcher.bundles.contains_key(&Kind::Backend), "the Gateway API's alone");

    let first = watcher.objects[&key(Kind::HTTPRoute, "default/a")].meta.clone();
    kube.apply(&route("a", "s2")).unwrap();
    watcher.until(|watcher| watcher.objects[&key(Kind::HTTPRoute, "default/a")].meta.generation == 2).await;
    kube.kubectl(&["delete", "httproute", "a"]).unwrap();
    kube.apply(&route("a", "s1")).unwrap();
    watcher
        .until(|watcher| {
            watcher.objects.get(&key(Kind::HTTPRoute, "default/a")).is_some_and(|route| route.meta.uid != first.uid)
        })
        .await;
    kube.kubectl(&["delete", "service", "s7"]).unwrap();
    watcher.until(|watcher| !watcher.has(Kind::Service, "default/s7")).await;
}

/// Whatever happens while nobody can watch is found out afterwards: deletions, too, also when the server has forgotten them.
#[tokio::test]
async fn what_happened_in_the_dark_is_found_out() {
    let mut kube = Kube::start(&KubeOptions::default()).await.unwrap();
    kube.apply(&(route("stays", "a") + &route("goes", "a"))).unwrap();
    let mut watcher = Watcher::synced(&kube).await;
    kube.stop_api_server();
    watcher.until(|watcher| matches!(watcher.kinds[&Kind::HTTPRoute], KindState::Failing(_))).await;
    assert!(watcher.has(Kind::HTTPRoute, "default/goes"), "a watch that is broken takes nothing away");
    let in_a_while = || Instant::now() + LIMIT + Duration::from_secs(5);
    assert!(watcher.watches.freshness.stale(in_a_while()).contains_key(&Followed::Kind(Kind::HTTPRoute)));
    kube.start_api_server().await.unwrap();
    kube.kubectl(&["delete", "httproute", "goes"]).unwrap();
    kube.apply(&route("comes", "a")).unwrap();
    watcher.until(|watcher| watcher.names(Kind::HTTPRoute) == ["default/comes", "default/stays"]).await;
    watcher.until(|watcher| watcher.kinds[&Kind::HTTPRoute] == KindState::Served("v1".into())).await;
    watcher.take_for(Duration::from_secs(8)).await;
    assert_eq!(watcher.watches.freshness.stale(in_a_while()), BTreeMap::new(), "all watches are back");
    let stays = key(Kind::HTTPRoute, "default/stays");
    let is_gone = |batch: &BTreeMap<ObjectKey, Option<String>>| batch.get(&stays) == Some(&None);
    assert!(!watcher.batches.iter().any(is_gone), "not even for a moment");
}

/// The CRDs of a kind come, in another version, and go.
#[tokio::test]
async fn a_kind_is_read_as_soon_as_it_is_there() {
    let kube = Kube::start(&KubeOptions { crds: None, controller_manager: false }).await.unwrap();
    let mut watcher = Watcher::synced(&kube).await;
    assert_eq!(watcher.kinds[&Kind::HTTPRoute], KindState::Absent);
    kube.install_crds(portolan_testkit::kube::GATEWAY_API, portolan_testkit::kube::Channel::Standard).unwrap();
    let took = watcher.until(|watcher| watcher.kinds[&Kind::HTTPRoute] == KindState::Served("v1".into())).await;
    eprintln!("served after {took:?}");
    kube.apply(&route("a", "b")).unwrap();
    watcher.until(|watcher| watcher.has(Kind::HTTPRoute, "default/a")).await;
    kube.kubectl(&["delete", "crd", "httproutes.gateway.networking.k8s.io"]).unwrap();
    watcher.until(|watcher| watcher.kinds[&Kind::HTTPRoute] == KindState::Absent).await;
    watcher.take_for(Duration::from_millis(20)).await;
    assert!(!watcher.has(Kind::HTTPRoute, "default/a"));
}
