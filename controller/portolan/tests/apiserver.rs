//! `portolan controller` against a real API server, which `make kube` builds. No kubelet is there: pods stay pending.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stderr,
    reason = "tests"
)]

use std::net::TcpListener;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use portolan_testkit::kube::{Kube, KubeOptions};
use portolan_testkit::process::Process;
use serde_json::Value;

#[path = "apiserver/credentials.rs"]
mod credentials;
#[path = "apiserver/cut_off.rs"]
mod cut_off;
#[path = "apiserver/door.rs"]
mod door;
#[path = "apiserver/grants.rs"]
mod grants;
#[path = "apiserver/parameters.rs"]
mod parameters;
#[path = "apiserver/quota.rs"]
mod quota;
#[path = "apiserver/reports.rs"]
mod reports;
#[path = "apiserver/rights.rs"]
mod rights;
#[path = "apiserver/stage.rs"]
mod stage;
#[path = "apiserver/upgrades.rs"]
mod upgrades;
#[path = "apiserver/words.rs"]
mod words;

const PATIENCE: Duration = Duration::from_secs(60);
const CLASS: &str = "
apiVersion: v1
kind: Namespace
metadata: {name: portolan-system}
---
apiVersion: gateway.networking.k8s.io/v1
kind: GatewayClass
metadata: {name: portolan}
spec: {controllerName: portolan.dev/gateway-controller}
";
const FOREIGN: &str = "
apiVersion: v1
kind: Secret
metadata: {name: portolan-taken, namespace: default}
stringData: {tls.key: of somebody else}
";

fn gateway(name: &str) -> String {
    format!(
        "
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {{name: {name}, namespace: default}}
spec: {{gatewayClassName: portolan, listeners: [{{name: http, port: 80, protocol: HTTP}}]}}
"
    )
}

fn free_port() -> String {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port().to_string()
}

/// Installs the CRDs of Portolan's own kinds, as the chart has them.
fn own_crds(kube: &Kube) {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../charts/portolan-crds/templates/crds.yaml");
    kube.kubectl(&["apply", "--server-side", "-f", file]).unwrap();
    kube.kubectl(&["wait", "--for=condition=Established", "-f", file, "--timeout=60s"]).unwrap();
}

fn controller(kube: &Kube) -> Process {
    let mut command = Command::new(env!("CARGO_BIN_EXE_portolan"));
    command
        .args(["controller", "--pod", "here", "--xds-port", &free_port(), "--metrics-port", &free_port()])
        .env("KUBECONFIG", kube.kubeconfig())
        .env("PORTOLAN_LOG", "info");
    Process::start(command).unwrap()
}

/// What `portolan bootstrap` prints for an Envoy of `default/GATEWAY` at loopback, whose credentials lie in a directory as `tls.crt`, `tls.key` and
/// `ca.crt`; its admin interface is `admin.sock` in there.
fn bootstrap(gateway: &str, xds: &str, dir: &Path) -> String {
    let file = |name: &str| dir.join(name).display().to_string();
    let output = Command::new(env!("CARGO_BIN_EXE_portolan"))
        .args(["bootstrap", &format!("default/{gateway}"), "--xds", xds])
        .args(["--certificate", &file("tls.crt"), "--key", &file("tls.key"), "--ca", &file("ca.crt")])
        .args(["--server-name", "portolan.portolan-system.svc", "--admin-socket", &file("admin.sock")])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Writes the identity that Portolan has made for the fleet of `default/GATEWAY`, as [`bootstrap`] wants it.
fn write_identity(kube: &Kube, gateway: &str, dir: &Path) {
    for name in ["tls.crt", "tls.key", "ca.crt"] {
        let template = format!(r#"go-template={{{{index .data "{name}" | base64decode}}}}"#);
        let secret = format!("portolan-{gateway}");
        std::fs::write(dir.join(name), kube.kubectl(&["get", "secret", &secret, "-o", &template]).unwrap()).unwrap();
    }
}

/// By `NAME`, or `NAMESPACE/NAME` elsewhere than in `default`.
fn get(kube: &Kube, kind: &str, name: &str) -> Option<Value> {
    let (namespace, name) = name.split_once('/').unwrap_or(("default", name));
    let json = kube.kubectl(&["get", kind, name, "-n", namespace, "-o", "json"]).ok()?;
    Some(serde_json::from_str(&json).unwrap())
}

/// Waits until an object is as it should be.
async fn until(kube: &Kube, controller: &Process, kind: &str, name: &str, good: impl Fn(&Value) -> bool) -> Value {
    let end = Instant::now() + PATIENCE;
    loop {
        let object = get(kube, kind, name);
        match object {
            Some(object) if good(&object) => return object,
            other => assert!(Instant::now() < end, "{kind} {name} is {other:#?}\n{}", controller.log()),
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

/// A condition of an object; `Null` while it has none of the type.
fn condition(object: &Value, kind: &str) -> Value {
    let conditions = object["status"]["conditions"].as_array().into_iter().flatten();
    conditions.into_iter().find(|one| one["type"] == kind).cloned().unwrap_or_default()
}

/// Waits until kubectl prints a text.
async fn until_printed(kube: &Kube, arguments: &[&str], text: &str) -> String {
    let end = Instant::now() + PATIENCE;
    loop {
        let printed = kube.kubectl(arguments).unwrap();
        if printed.contains(text) {
            return printed;
        }
        assert!(Instant::now() < end, "no {text:?} in {printed}");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

fn is_owned_by(object: &Value, uid: &Value) -> bool {
    let owners = object["metadata"]["ownerReferences"].as_array().into_iter().flatten();
    owners.into_iter().any(|owner| owner["uid"] == *uid)
}

#[tokio::test(flavor = "multi_thread")]
async fn gateways_get_fleets_whether_they_are_old_new_or_made_again() {
    let kube = Kube::start(&KubeOptions { controller_manager: true, ..KubeOptions::default() }).await.unwrap();
    kube.apply(CLASS).unwrap();
    kube.apply(FOREIGN).unwrap();
    // There before anything of theirs is known, and before Portolan runs.
    kube.apply(&gateway("web")).unwrap();
    kube.apply(&gateway("taken")).unwrap();
    let mut controller = controller(&kube);

    let web = until(&kube, &controller, "gateway", "web", |gateway| {
        let conditions = gateway["status"]["conditions"].as_array().unwrap();
        conditions.iter().any(|one| one["reason"] == "AddressNotAssigned")
    })
    .await;
    for kind in ["deployment", "service", "secret", "poddisruptionbudget"] {
        until(&kube, &controller, kind, "portolan-web", |object| is_owned_by(object, &web["metadata"]["uid"])).await;
    }

    // A name that somebody else has is told and left alone.
    until(&kube, &controller, "deployment", "portolan-taken", |_| true).await;
    controller.wait_for_log("the Secret default/portolan-taken is not Portolan's", PATIENCE).await.unwrap();
    until(&kube, &controller, "gateway", "taken", |gateway| {
        let programmed = condition(gateway, "Programmed");
        programmed["reason"] == "NoResources"
            && programmed["message"].as_str().unwrap().contains("the Secret default/portolan-taken is not Portolan's")
    })
    .await;
    let foreign = get(&kube, "secret", "portolan-taken").unwrap();
    assert_eq!(foreign["data"].as_object().unwrap().len(), 1, "{foreign}");
    let described = until_printed(&kube, &["describe", "gateway", "taken"], "NoResources  ").await;
    let told = described.lines().any(|line| line.contains("Warning") && line.contains("portolan-taken"));
    assert!(told, "{described}");
    kube.kubectl(&["delete", "secret", "portolan-taken"]).unwrap();
    until(&kube, &controller, "gateway", "taken", |gateway| {
        condition(gateway, "Programmed")["reason"] == "AddressNotAssigned"
    })
    .await;

    // Another Gateway under the name of one that was deleted: its fleet is another.
    kube.kubectl(&["delete", "gateway", "web", "-n", "default", "--wait=false"]).unwrap();
    kube.apply(&gateway("web")).unwrap();
    let again = get(&kube, "gateway", "web").unwrap();
    assert_ne!(again["metadata"]["uid"], web["metadata"]["uid"]);
    for kind in ["deployment", "service", "secret"] {
        until(&kube, &controller, kind, "portolan-web", |object| {
            is_owned_by(object, &again["metadata"]["uid"]) && !is_owned_by(object, &web["metadata"]["uid"])
        })
        .await;
    }

    // The class stays while it is used.
    let held = |class: &Value| class["metadata"]["finalizers"].to_string().contains("gateway-exists-finalizer");
    until(&kube, &controller, "gatewayclass", "portolan", held).await;
    kube.kubectl(&["delete", "gatewayclass", "portolan", "--wait=false"]).unwrap();
    assert!(get(&kube, "gatewayclass", "portolan").is_some());
    kube.kubectl(&["delete", "gateway", "web", "taken"]).unwrap();
    kube.kubectl(&["wait", "--for=delete", "gatewayclass/portolan", "--timeout=60s"]).unwrap();

    let status = controller.terminate(PATIENCE).await.unwrap();
    assert!(status.success(), "{status}\n{}", controller.log());
}
