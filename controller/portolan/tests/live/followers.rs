//! Statuses of what a follower alone hears: its proxies acknowledge and refuse, and the leader, which has none of them, writes (design invariant 16).

use std::time::{Duration, Instant};

use kube::api::DeleteParams;
use portolan_testkit::load::{Load, backend};
use serde_json::{Value, json};

use crate::bed::{GATEWAY, PATIENCE, POD, ROUTE, Replica};
use crate::scene::{Scene, condition, gateway, route, settle};

const NAMESPACE: &str = "live-followers";
/// A class of its own, whose parameters say where proxies log.
const CLASS: &str = "
---
apiVersion: gateway.networking.k8s.io/v1
kind: GatewayClass
metadata: {name: live-followers}
spec:
  controllerName: portolan.dev/gateway-controller
  parametersRef: {group: portolan.dev, kind: EnvoyProxy, namespace: live-followers, name: class}
";
const PARAMETERS: (&str, &str) = ("portolan.dev/v1alpha1", "EnvoyProxy");
/// What Envoy refuses and Portolan cannot know: there is no such directory in the pod.
const NOWHERE: &str = "/nowhere/access.log";
/// While somebody leads.
const SOON: Duration = Duration::from_secs(5);
/// Where the leader ends: the lease is its own again when kubelet has restarted it, or somebody else's after at most 15 s.
const AFTER_LEASE: Duration = Duration::from_secs(20);

fn parameters(path: &str) -> Value {
    let logs = json!({"settings": [{"format": {"type": "Text", "text": "%RESPONSE_CODE%"}, "sinks": [{"type": "File", "file": {"path": path}}]}]});
    json!({
        "apiVersion": PARAMETERS.0,
        "kind": PARAMETERS.1,
        "metadata": {"name": "class"},
        "spec": {"telemetry": {"accessLog": logs}},
    })
}

fn class_parameters() -> String {
    let mut object = parameters("/dev/stdout");
    object["metadata"]["namespace"] = NAMESPACE.into();
    object.to_string()
}

/// The one proxy's stream is with the replica that does not lead: the proxy is started again until it is.
async fn followed(scene: &Scene) -> [Replica; 2] {
    let end = Instant::now() + PATIENCE;
    loop {
        let [leader, follower] = scene.bed.replicas().await;
        let (here, there) = (leader.streams(&scene.uid).await, follower.streams(&scene.uid).await);
        if here == 0.0 && there == 1.0 {
            return [leader, follower];
        }
        assert!(Instant::now() < end, "{here} streams with the leader, {there} with the follower");
        if here > 0.0 {
            let proxy = scene.bed.proxies(NAMESPACE, "web", 1).await.remove(0).0;
            let at_once = DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() };
            scene.bed.api(POD, NAMESPACE).delete(&proxy, &at_once).await.unwrap();
            scene.bed.until_gone(NAMESPACE, &proxy).await;
            scene.bed.proxies(NAMESPACE, "web", 1).await;
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

fn accepts(object: &Value) -> bool {
    condition(object, "Accepted") == "True"
}

fn is_told(web: &Value) -> bool {
    web["status"].to_string().contains(NOWHERE)
}

/// A new route, and what Envoy refuses, come at this moment: how long until each is in a status.
async fn told(scene: &Scene, name: &str, limit: Duration) -> [Duration; 2] {
    let began = Instant::now();
    scene.bed.put(ROUTE, NAMESPACE, name, &route(name, "echo")).await;
    scene.bed.put(PARAMETERS, NAMESPACE, "class", &parameters(NOWHERE)).await;
    let accepted = async {
        scene.bed.until(ROUTE, NAMESPACE, name, limit, accepts).await;
        began.elapsed()
    };
    let refused = async {
        let web = scene.bed.until(GATEWAY, NAMESPACE, "web", limit, is_told).await;
        (began.elapsed(), web)
    };
    let (accepted, (refused, web)) = tokio::join!(accepted, refused);
    println!("{name}: Accepted after {accepted:?}, refusal told after {refused:?}");
    let programmed = web["status"]["conditions"].as_array().unwrap().iter().find(|one| one["type"] == "Programmed");
    let programmed = programmed.unwrap();
    assert_eq!((&programmed["status"], &programmed["reason"]), (&"False".into(), &"Invalid".into()), "{programmed}");
    // It heals.
    scene.bed.put(PARAMETERS, NAMESPACE, "class", &parameters("/dev/stdout")).await;
    let healing = Instant::now();
    let is_well = |web: &Value| !is_told(web) && condition(web, "Programmed") == "True";
    scene.bed.until(GATEWAY, NAMESPACE, "web", SOON, is_well).await;
    println!("{name}: well again after {:?}", healing.elapsed());
    [accepted, refused]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_follower_hears_is_in_the_statuses_in_time() {
    let scene =
        Scene::of_class("live-followers", NAMESPACE, 1, "", &(CLASS.to_owned() + "---\n" + &class_parameters())).await;
    let bed = &scene.bed;

    let [leader, follower] = followed(&scene).await;
    println!("{} leads, the proxy is with {}", leader.pod, follower.pod);
    told(&scene, "first", SOON).await;
    // A listener more, which the proxy has to take.
    let began = Instant::now();
    crate::bed::apply(&gateway("live-followers", NAMESPACE, 1, "  - {name: more, port: 8080, protocol: HTTP}\n"));
    let web = bed.until(GATEWAY, NAMESPACE, "web", SOON, |web| condition(web, "Programmed") == "True").await;
    assert_eq!(web["metadata"]["generation"], 2);
    println!("a listener more: Programmed after {:?}", began.elapsed());
    // Another Gateway, whose proxy has to start.
    let began = Instant::now();
    let another = gateway("live-followers", NAMESPACE, 1, "").replace("metadata: {name: web", "metadata: {name: other");
    crate::bed::apply(&another);
    bed.until(GATEWAY, NAMESPACE, "other", SOON, accepts).await;
    println!("another Gateway: Accepted after {:?}", began.elapsed());
    bed.proxies(NAMESPACE, "other", 1).await;
    let ready = Instant::now();
    bed.until(GATEWAY, NAMESPACE, "other", SOON, |other| condition(other, "Programmed") == "True").await;
    println!(
        "another Gateway: Programmed after {:?}, {:?} after its proxy was ready",
        began.elapsed(),
        ready.elapsed()
    );

    // The leader ends: it says farewell, or is killed and its pod goes on with another process. What the proxy serves does not depend on who leads.
    for (name, kill) in [("deleted", false), ("killed", true), ("deleted-again", false), ("killed-again", true)] {
        let [leader, _] = followed(&scene).await;
        let load = Load::start(&scene.workers(&backend("echo")));
        load.further(500, PATIENCE).await.unwrap();
        if kill {
            leader.kill();
        } else {
            bed.delete(POD, "portolan-system", &leader.pod).await;
        }
        told(&scene, name, AFTER_LEASE).await;
        load.further(2000, PATIENCE).await.unwrap();
        settle(load).await;
        if !kill {
            bed.until_gone("portolan-system", &leader.pod).await;
        }
    }
    scene.finish();
}
