//! A fleet that the cluster has no room for: its Gateway says so, and is served when there is room.

use portolan_testkit::kube::{Kube, KubeOptions};
use serde_json::Value;

use crate::{CLASS, condition, controller, until, until_printed};

/// In the one namespace no Deployment may be, in the other one no pod.
const WORLD: &str = "
apiVersion: v1
kind: Namespace
metadata: {name: no-deployments}
---
apiVersion: v1
kind: Namespace
metadata: {name: no-pods}
---
apiVersion: v1
kind: ResourceQuota
metadata: {name: small, namespace: no-deployments}
spec: {hard: {count/deployments.apps: '0'}}
---
apiVersion: v1
kind: ResourceQuota
metadata: {name: small, namespace: no-pods}
spec: {hard: {pods: '0'}}
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: web, namespace: no-deployments}
spec: {gatewayClassName: portolan, listeners: [{name: http, port: 80, protocol: HTTP}]}
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: web, namespace: no-pods}
spec: {gatewayClassName: portolan, listeners: [{name: http, port: 80, protocol: HTTP}]}
";

#[tokio::test(flavor = "multi_thread")]
async fn a_fleet_without_room_is_told_until_there_is_room() {
    let kube = Kube::start(&KubeOptions { controller_manager: true, ..KubeOptions::default() }).await.unwrap();
    kube.apply(CLASS).unwrap();
    kube.apply(WORLD).unwrap();
    // A quota counts once the controller manager has.
    for namespace in ["no-deployments", "no-pods"] {
        let quota = ["get", "resourcequota", "small", "-n", namespace, "-o", "jsonpath={.status.used}"];
        until_printed(&kube, &quota, "\"0\"").await;
    }
    let portolan = controller(&kube);
    for (namespace, what) in
        [("no-deployments", "Deployment no-deployments/portolan-web: "), ("no-pods", "cannot make pods: ")]
    {
        let name = format!("{namespace}/web");
        let gateway = until(&kube, &portolan, "gateway", &name, |gateway| {
            condition(gateway, "Programmed")["reason"] == "NoResources"
        })
        .await;
        let message = condition(&gateway, "Programmed")["message"].as_str().unwrap().to_owned();
        assert!(message.contains(what) && message.contains("exceeded quota: small"), "{message}");
        until_printed(&kube, &["describe", "gateway", "web", "-n", namespace], "Warning  NoResources").await;
        kube.kubectl(&["delete", "resourcequota", "small", "-n", namespace]).unwrap();
        let waits = |gateway: &Value| condition(gateway, "Programmed")["reason"] == "AddressNotAssigned";
        until(&kube, &portolan, "gateway", &name, waits).await;
    }
}
