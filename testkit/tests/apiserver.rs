//! The fixture that starts a real API server.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use portolan_testkit::kube::{Channel, GATEWAY_API};
use portolan_testkit::{Kube, KubeOptions};

const ROUTE: &str = "
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: a, namespace: default}
spec: {rules: [{}]}
";

#[test]
fn the_crds_are_of_the_suites_version() {
    let module = include_str!("../../conformance/go.mod");
    assert!(module.contains(&format!("sigs.k8s.io/gateway-api/conformance {GATEWAY_API}\n")), "GATEWAY_API");
}

#[tokio::test]
async fn objects_outlive_the_api_server_and_everything_ends_with_the_value() {
    let mut kube = Kube::start(&KubeOptions::default()).await.unwrap();
    kube.apply(ROUTE).unwrap();
    assert!(kube.apply(&ROUTE.replace("rules: [{}]", "rules: 1")).is_err(), "the CRD judges");
    kube.stop_api_server();
    assert!(kube.kubectl(&["get", "httproutes"]).is_err());
    kube.start_api_server().await.unwrap();
    assert_eq!(kube.kubectl(&["get", "httproutes", "-o", "name"]).unwrap(), "httproute.gateway.networking.k8s.io/a\n");

    let dir = kube.kubeconfig().parent().unwrap().to_owned();
    assert_ne!(processes(&dir), 0);
    drop(kube);
    assert_eq!(processes(&dir), 0);
    assert!(!dir.exists());
}

#[tokio::test]
async fn the_channel_decides_what_is_served_and_owners_are_collected() {
    let options = KubeOptions { crds: Some((GATEWAY_API.to_owned(), Channel::Standard)), controller_manager: true };
    let kube = Kube::start(&options).await.unwrap();
    let kinds = |group| kube.kubectl(&["api-resources", "--api-group", group, "-o", "name"]).unwrap();
    assert!(kinds("gateway.networking.k8s.io").contains("httproutes"));
    assert_eq!(kinds("gateway.networking.x-k8s.io"), "");

    kube.apply(ROUTE).unwrap();
    let uid = kube.kubectl(&["get", "httproute", "a", "-o", "jsonpath={.metadata.uid}"]).unwrap();
    let owner = format!("{{apiVersion: gateway.networking.k8s.io/v1, kind: HTTPRoute, name: a, uid: {uid}}}");
    kube.apply(&format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: owned, namespace: default, ownerReferences: [{owner}]}}\n"
    ))
    .unwrap();
    kube.kubectl(&["delete", "httproute", "a"]).unwrap();
    kube.kubectl(&["wait", "--for=delete", "configmap/owned", "--timeout=60s"]).unwrap();
}

/// A test process that is killed leaves nothing behind.
#[tokio::test]
async fn it_ends_when_its_owner_is_killed() {
    if let Ok(file) = std::env::var("PORTOLAN_TEST_OWNER") {
        let kube = Kube::start(&KubeOptions { crds: None, controller_manager: false }).await.unwrap();
        std::fs::write(file, kube.kubeconfig().parent().unwrap().display().to_string()).unwrap();
        tokio::time::sleep(Duration::from_secs(300)).await;
        drop(kube);
        return;
    }
    let file = tempfile::NamedTempFile::new().unwrap();
    let mut owner = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "it_ends_when_its_owner_is_killed"])
        .env("PORTOLAN_TEST_OWNER", file.path())
        .spawn()
        .unwrap();
    let end = Instant::now() + Duration::from_secs(120);
    let dir = loop {
        let dir = std::fs::read_to_string(file.path()).unwrap();
        if !dir.is_empty() {
            break dir;
        }
        assert!(Instant::now() < end && owner.try_wait().unwrap().is_none(), "the API server did not start");
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    let dir = Path::new(&dir);
    assert_ne!(processes(dir), 0);
    owner.kill().unwrap();
    owner.wait().unwrap();
    let end = Instant::now() + Duration::from_secs(10);
    while processes(dir) > 0 || dir.exists() {
        assert!(Instant::now() < end, "left over: {} processes", processes(dir));
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// How many processes were given a path below the directory.
fn processes(dir: &Path) -> usize {
    let path = dir.as_os_str().as_encoded_bytes();
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let lines = entries.map(|entry| std::fs::read(entry.path().join("cmdline")).unwrap_or_default());
    lines.filter(|line| line.windows(path.len()).any(|window| window == path)).count()
}
