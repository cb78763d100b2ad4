//! The parameters of a class go away and come back: fleets stay as they are meanwhile, and whoever asks for a new one waits.

use portolan_testkit::kube::KubeOptions;
use serde_json::{Value, json};

use crate::stage::Stage;
use crate::{CLASS, condition, get, until};

fn parameters(spec: &str) -> String {
    format!(
        "
---
apiVersion: portolan.dev/v1alpha1
kind: EnvoyProxy
metadata: {{name: proxies, namespace: portolan-system}}
spec: {spec}
"
    )
}

const NAMED: &str =
    ", parametersRef: {group: portolan.dev, kind: EnvoyProxy, name: proxies, namespace: portolan-system}}";
const THREE: &str = "{provider: {type: Kubernetes, kubernetes: {envoyDeployment: {replicas: 3}}}}";
/// Admitted by the API server.
const EXTERNAL_WITH_MORE: &str = "{provider: {type: External, kubernetes: {envoyDeployment: {replicas: 3}}}}";

fn class() -> String {
    CLASS.trim_end().strip_suffix('}').unwrap().to_owned() + NAMED
}

/// Accepted of a class and its Gateway.
fn is_refused(object: &Value) -> bool {
    condition(object, "Accepted")["reason"] == "InvalidParameters"
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fleet_outlives_the_parameters_of_its_class() {
    let mut stage = Stage::new(&KubeOptions::default(), &(class() + &parameters(THREE))).await;
    assert_eq!(get(&stage.kube, "deployment", "portolan-web").unwrap()["spec"]["replicas"], 3);
    stage.kube.kubectl(&["delete", "envoyproxy", "proxies", "-n", "portolan-system"]).unwrap();
    stage.class(is_refused).await;
    let web = until(&stage.kube, &stage.portolan, "gateway", "web", is_refused).await;
    let programmed = condition(&web, "Programmed");
    assert!(programmed["message"].as_str().unwrap().contains("those that run stay as they are"), "{programmed}");
    assert_eq!(web["status"]["addresses"], json!([{"type": "IPAddress", "value": "192.0.2.7"}]));
    stage.is_served("the parameters are gone").await;

    // Nobody who is new knows what there was.
    stage.replace(&[]).await;
    stage.is_connected().await;
    stage.kube.apply(&crate::gateway("later")).unwrap();
    until(&stage.kube, &stage.portolan, "gateway", "later", is_refused).await;
    stage.is_served("another Portolan without parameters").await;
    assert_eq!(get(&stage.kube, "deployment", "portolan-later"), None);

    stage.kube.apply(&parameters(THREE)).unwrap();
    stage.class(|class| condition(class, "Accepted")["status"] == "True").await;
    let three = |deployment: &Value| deployment["spec"]["replicas"] == 3;
    until(&stage.kube, &stage.portolan, "deployment", "portolan-later", three).await;
    until(&stage.kube, &stage.portolan, "gateway", "web", |gateway| {
        condition(gateway, "Programmed")["status"] == "True"
    })
    .await;
    stage.is_served("the parameters are back").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_external_fleet_gets_no_proxies_when_its_parameters_go() {
    let kube = portolan_testkit::kube::Kube::start(&KubeOptions::default()).await.unwrap();
    crate::own_crds(&kube);
    kube.apply(&(class() + &parameters(EXTERNAL_WITH_MORE))).unwrap();
    let gateway = crate::gateway("outside").replace("listeners:", "addresses: [{value: 192.0.2.9}], listeners:");
    kube.apply(&gateway).unwrap();
    let portolan = crate::controller(&kube);
    let has_address = |gateway: &Value| gateway["status"]["addresses"][0]["value"] == "192.0.2.9";
    until(&kube, &portolan, "gateway", "outside", has_address).await;
    let class = get(&kube, "gatewayclass", "portolan").unwrap();
    let message = &condition(&class, "Accepted")["message"];
    assert!(message.as_str().unwrap().contains("provider.kubernetes beside the type External"), "{class}");

    kube.kubectl(&["delete", "envoyproxy", "proxies", "-n", "portolan-system"]).unwrap();
    let outside = until(&kube, &portolan, "gateway", "outside", is_refused).await;
    assert!(has_address(&outside), "{outside}");
    // Whatever is made is made within this.
    tokio::time::sleep(std::time::Duration::from_secs(3)).await;
    for kind in ["deployment", "service"] {
        assert_eq!(get(&kube, kind, "portolan-outside"), None);
    }
}
