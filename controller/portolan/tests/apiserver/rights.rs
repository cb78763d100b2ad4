//! The rights that the chart gives are enough for everything that Portolan does; where some are missing, its classes say so.

use std::process::Command;

use portolan_fleet::{Rules, rules};
use portolan_testkit::kube::{Kube, KubeOptions};
use portolan_testkit::process::Process;
use serde_json::{Value, json};

use crate::{CLASS, PATIENCE, condition, free_port, gateway, until, until_printed};

/// Roles as the chart makes them, for the user `portolan`, without rights to a resource.
fn roles(without: &str) -> String {
    let Rules { cluster, watched, own } = rules();
    let mut everywhere = [cluster, watched].concat();
    for rule in &mut everywhere {
        rule["resources"].as_array_mut().unwrap().retain(|resource| resource != without);
    }
    everywhere.retain(|rule| !rule["resources"].as_array().unwrap().is_empty());
    let group = "rbac.authorization.k8s.io";
    let role = |kind: &str, metadata: Value, rules: Vec<Value>| {
        let api_version = format!("{group}/v1");
        let subjects = json!([{"kind": "User", "name": "portolan", "apiGroup": group}]);
        let reference = json!({"apiGroup": group, "kind": kind, "name": "portolan"});
        let role = json!({"apiVersion": api_version, "kind": kind, "metadata": metadata, "rules": rules});
        let binding = json!({
            "apiVersion": api_version, "kind": format!("{kind}Binding"), "metadata": metadata,
            "roleRef": reference, "subjects": subjects,
        });
        format!("---\n{role}\n---\n{binding}\n")
    };
    role("ClusterRole", json!({"name": "portolan"}), everywhere)
        + &role("Role", json!({"name": "portolan", "namespace": "portolan-system"}), own)
}

/// A controller that the API server knows as `portolan`.
fn controller(kube: &Kube, dir: &tempfile::TempDir) -> Process {
    let kubeconfig = std::fs::read_to_string(kube.kubeconfig()).unwrap();
    let path = dir.path().join("kubeconfig");
    std::fs::write(&path, kubeconfig.replace("user: {token:", "user: {as: portolan, token:")).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_portolan"));
    command
        .args(["controller", "--pod", "here", "--xds-port", &free_port(), "--metrics-port", &free_port()])
        .env("KUBECONFIG", path)
        .env("PORTOLAN_LOG", "debug");
    Process::start(command).unwrap()
}

const BROKEN: &str = "
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: broken, namespace: default}
spec: {parentRefs: [{name: web}], rules: [{backendRefs: [{name: cart, port: 80}]}]}
---
apiVersion: v1
kind: Pod
metadata: {name: here, namespace: portolan-system}
spec: {containers: [{name: portolan, image: portolan}]}
";

#[tokio::test(flavor = "multi_thread")]
async fn the_charts_rights_suffice_and_what_is_missing_is_told() {
    let kube = Kube::start(&KubeOptions::default()).await.unwrap();
    let dir = tempfile::tempdir().unwrap();
    kube.apply(CLASS).unwrap();
    kube.apply(&roles("")).unwrap();
    kube.apply(&gateway("web")).unwrap();
    kube.apply(BROKEN).unwrap();
    let mut portolan = controller(&kube, &dir);
    for kind in ["serviceaccount", "configmap", "secret", "service", "deployment", "poddisruptionbudget"] {
        until(&kube, &portolan, kind, "portolan-web", |_| true).await;
    }
    until_printed(&kube, &["describe", "httproute", "broken"], "Warning  BackendNotFound").await;
    let is_whole = |class: &Value| {
        class["metadata"]["finalizers"].to_string().contains("gateway-exists-finalizer")
            && condition(class, "SupportedVersion")["status"] == "True"
            && condition(class, "Accepted")["message"] == "Accepted"
    };
    until(&kube, &portolan, "gatewayclass", "portolan", is_whole).await;
    // What others know is told in a ConfigMap of the pod's.
    until_printed(&kube, &["get", "configmaps", "-n", "portolan-system", "-o", "json"], "\"here\"").await;
    kube.kubectl(&["delete", "gateway", "web"]).unwrap();
    until(&kube, &portolan, "gatewayclass", "portolan", |class| class["metadata"]["finalizers"].is_null()).await;
    portolan.terminate(PATIENCE).await.unwrap();
    let refused: Vec<String> =
        portolan.log().lines().filter(|line| line.contains("forbidden")).map(ToOwned::to_owned).collect();
    assert!(refused.is_empty(), "{refused:#?}");

    // A kind that Portolan may not read any more.
    kube.apply(&roles("grpcroutes")).unwrap();
    let mut portolan = controller(&kube, &dir);
    let class = until(&kube, &portolan, "gatewayclass", "portolan", |class| {
        condition(class, "Accepted")["message"].as_str().is_some_and(|message| message.contains("GRPCRoute"))
    })
    .await;
    let accepted = condition(&class, "Accepted");
    assert_eq!(accepted["status"], "True", "{accepted}");
    assert!(accepted["message"].as_str().unwrap().contains("grpcroutes"), "{accepted}");
    let features = class["status"]["supportedFeatures"].to_string();
    assert!(!features.contains("\"GRPCRoute\"") && features.contains("\"HTTPRoute\""), "{features}");
    until_printed(&kube, &["describe", "gatewayclass", "portolan"], "Warning  NotInEffect").await;
    kube.apply(&roles("")).unwrap();
    until(&kube, &portolan, "gatewayclass", "portolan", |class| {
        condition(class, "Accepted")["message"] == "Accepted" && class.to_string().contains("\"GRPCRoute\"")
    })
    .await;
    portolan.terminate(PATIENCE).await.unwrap();
}
