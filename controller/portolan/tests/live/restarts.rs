//! What is restarted in the ordinary course of things, under load.

use std::time::{Duration, Instant};

use portolan_testkit::load::{Load, backend};

use crate::bed::{PATIENCE, kubectl, kubectl_beside};
use crate::scene::{Scene, phase, settle};

const NAMESPACE: &str = "live-restarts";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rolling_portolan_its_fleet_and_draining_the_node_fail_nothing() {
    let scene = Scene::new(NAMESPACE, 2).await;
    let bed = &scene.bed;
    let load = Load::start(&scene.workers(&backend("echo")));
    load.further(1000, PATIENCE).await.unwrap();
    let mut so_far = phase("undisturbed", &load, (0, 0));

    let before = bed.replicas().await;
    let began = Instant::now();
    kubectl_beside(&["rollout", "restart", "deployment/portolan", "-n", "portolan-system"]).await;
    kubectl_beside(&["rollout", "status", "deployment/portolan", "-n", "portolan-system", "--timeout=3m"]).await;
    for replica in &before {
        bed.until_gone("portolan-system", &replica.pod).await;
    }
    let after = bed.replicas().await;
    assert!(after.iter().all(|replica| !before.contains(replica)), "{after:?}");
    so_far = phase(&format!("Portolan rolled in {:?}", began.elapsed()), &load, so_far);

    let before = bed.proxies(NAMESPACE, "web", 2).await;
    let began = Instant::now();
    kubectl_beside(&["rollout", "restart", "deployment/portolan-web", "-n", NAMESPACE]).await;
    kubectl_beside(&["rollout", "status", "deployment/portolan-web", "-n", NAMESPACE, "--timeout=3m"]).await;
    for (pod, _) in &before {
        bed.until_gone(NAMESPACE, pod).await;
    }
    let proxies = bed.proxies(NAMESPACE, "web", 2).await;
    assert!(proxies.iter().all(|proxy| !before.contains(proxy)), "{proxies:?}");
    so_far = phase(&format!("the fleet rolled in {:?}", began.elapsed()), &load, so_far);

    // There is one node: it takes pods again once the first of the fleet's has been evicted, and the budget lets the second one go when another one has
    // taken the place of the first.
    let began = Instant::now();
    let (node, _) = bed.node().await;
    let selector = "--pod-selector=gateway.networking.k8s.io/gateway-name=web";
    let arguments = ["drain", &node, selector, "--delete-emptydir-data", "--timeout=5m"].map(ToOwned::to_owned);
    let drain = tokio::task::spawn_blocking(move || kubectl(&arguments.each_ref().map(String::as_str), ""));
    let end = Instant::now() + PATIENCE;
    let evicted = async || {
        let mut count = 0;
        for (pod, _) in &proxies {
            let pod = bed.get(crate::bed::POD, NAMESPACE, pod).await;
            count += usize::from(pod.is_none_or(|pod| !pod["metadata"]["deletionTimestamp"].is_null()));
        }
        count
    };
    while evicted().await == 0 {
        assert!(Instant::now() < end, "nothing is evicted");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    tokio::time::sleep(Duration::from_secs(8)).await;
    assert_eq!(evicted().await, 1, "the budget keeps one");
    kubectl_beside(&["uncordon", &node]).await;
    println!("{}", drain.await.unwrap().lines().filter(|line| line.contains("evict")).collect::<Vec<_>>().join("\n"));
    let again = bed.proxies(NAMESPACE, "web", 2).await;
    assert!(again.iter().all(|proxy| !proxies.contains(proxy)), "{again:?}");
    phase(&format!("the node drained of the fleet in {:?}", began.elapsed()), &load, so_far);
    settle(load).await;
    scene.finish();
}
