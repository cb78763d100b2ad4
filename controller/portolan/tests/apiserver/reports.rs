//! What a replica has heard is not lost to one that begins after it (design invariant 16).

use std::process::Command;
use std::time::Duration;

use portolan_testkit::kube::KubeOptions;
use portolan_testkit::process::Process;
use serde_json::Value;

use crate::stage::Stage;
use crate::{CLASS, PATIENCE, condition, free_port, get, until, until_printed};

/// A class whose proxies log to a file.
fn world(path: &str) -> String {
    let named = ", parametersRef: {group: portolan.dev, kind: EnvoyProxy, name: proxies, namespace: portolan-system}}";
    let class = CLASS.trim_end().strip_suffix('}').unwrap().to_owned() + named;
    let settings = format!("[{{format: {{type: Text, text: x}}, sinks: [{{type: File, file: {{path: {path}}}}}]}}]");
    format!(
        "{class}
---
apiVersion: portolan.dev/v1alpha1
kind: EnvoyProxy
metadata: {{name: proxies, namespace: portolan-system}}
spec: {{telemetry: {{accessLog: {{settings: {settings}}}}}}}
"
    )
}

fn pod(name: &str) -> String {
    format!(
        "---
apiVersion: v1
kind: Pod
metadata: {{name: {name}, namespace: portolan-system}}
spec: {{containers: [{{name: portolan, image: portolan}}]}}
"
    )
}

fn is_refused(web: &Value) -> bool {
    let programmed = condition(web, "Programmed");
    programmed["reason"] == "Invalid" && programmed.to_string().contains("/nowhere/log")
}

#[tokio::test(flavor = "multi_thread")]
async fn what_envoy_refused_is_known_to_a_leader_that_was_not_there() {
    let Stage { kube, mut portolan, envoy, .. } =
        Stage::new(&KubeOptions::default(), &(world("/dev/null") + &pod("here") + &pod("there"))).await;
    // There is no such directory, which Envoy alone can know.
    kube.apply(&world("/nowhere/log")).unwrap();
    until(&kube, &portolan, "gateway", "web", is_refused).await;
    until_printed(&kube, &["get", "configmaps", "-n", "portolan-system", "-o", "yaml"], "/nowhere/log").await;
    // Neither the replica nor its proxy is there to say it again; their pod is.
    portolan.kill().unwrap();
    drop(envoy);

    let mut command = Command::new(env!("CARGO_BIN_EXE_portolan"));
    command
        .args(["controller", "--pod", "there", "--xds-port", &free_port(), "--metrics-port", &free_port()])
        .env("KUBECONFIG", kube.kubeconfig())
        .env("PORTOLAN_LOG", "info");
    let mut next = Process::start(command).unwrap();
    next.wait_for_log("This replica leads", PATIENCE).await.unwrap();
    // It writes.
    kube.apply(&crate::gateway("later")).unwrap();
    until(&kube, &next, "gateway", "later", |later| condition(later, "Accepted")["status"] == "True").await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    let web = get(&kube, "gateway", "web").unwrap();
    assert!(is_refused(&web), "{:#}\n{}", web["status"], next.log());
}
