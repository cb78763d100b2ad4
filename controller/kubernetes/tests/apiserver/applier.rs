use std::time::Duration;

use kube::Client;
use kube::api::{DeleteParams, Patch, PatchParams};
use portolan_kubernetes::applier::Uid;
use portolan_kubernetes::{ApplierOptions, Leadership, Manifests, hold_class};
use portolan_model::{CONTROLLER_NAME, Kind, NamespacedName, ObjectKey};
use serde_json::{Value, json};

use crate::fixture::{GATEWAY_API, api, apply, client, eventually, meta, namespace};

struct Fleet {
    client: Client,
    namespace: String,
    owner: Uid,
    manifests: Manifests,
}

impl Fleet {
    /// A Gateway, and an applier that leads.
    async fn new() -> Self {
        let client = client().await;
        let namespace = namespace(&client).await;
        let owner = Self::gateway(&client, &namespace).await;
        let manifests = Manifests::default();
        let fleet = Self { client, namespace, owner, manifests };
        fleet.start(fleet.manifests.clone());
        fleet
    }

    async fn gateway(client: &Client, namespace: &str) -> Uid {
        let gateway = json!({
            "apiVersion": GATEWAY_API, "kind": "Gateway", "metadata": {"namespace": namespace, "name": "edge"},
            "spec": {"gatewayClassName": "portolan", "listeners": [{"name": "http", "port": 80, "protocol": "HTTP"}]},
        });
        apply(client, gateway).await.metadata.uid.unwrap().into()
    }

    fn start(&self, manifests: Manifests) {
        let options = ApplierOptions { namespaces: vec![self.namespace.clone()], ..ApplierOptions::default() };
        tokio::spawn(manifests.apply(self.client.clone(), Leadership::alone(), options));
    }

    fn metadata(&self, name: &str) -> Value {
        json!({
            "namespace": self.namespace, "name": name,
            "labels": {"app.kubernetes.io/name": "portolan-proxy", "app.kubernetes.io/managed-by": "portolan"},
            "ownerReferences": [{"apiVersion": GATEWAY_API, "kind": "Gateway", "name": "edge", "uid": *self.owner}],
        })
    }

    fn config(&self, name: &str, data: &str) -> Value {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": self.metadata(name), "data": {"key": data}})
    }

    fn deployment(&self, replicas: Option<u32>) -> Value {
        let mut manifest = json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": self.metadata("proxy"),
            "spec": {
                "selector": {"matchLabels": {"app": "proxy"}},
                "template": {
                    "metadata": {"labels": {"app": "proxy"}},
                    "spec": {"containers": [{"name": "envoy", "image": "envoy"}]},
                },
            },
        });
        if let Some(replicas) = replicas {
            manifest["spec"]["replicas"] = json!(replicas);
        }
        manifest
    }

    fn autoscaler(&self) -> Value {
        json!({
            "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": self.metadata("proxy"),
            "spec": {"maxReplicas": 9, "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "proxy"}},
        })
    }

    async fn get(&self, api_version: &str, kind: &str, name: &str) -> Option<Value> {
        let object = api(&self.client, api_version, kind, &self.namespace).get_opt(name).await.unwrap();
        object.map(|object| json!(object))
    }

    async fn data(&self, name: &str) -> Option<String> {
        Some(self.get("v1", "ConfigMap", name).await?["data"]["key"].as_str()?.to_owned())
    }

    async fn until(&self, name: &str, data: Option<&str>) {
        eventually(name, async || (self.data(name).await.as_deref() == data).then_some(())).await;
    }

    async fn replicas(&self) -> Option<u64> {
        self.get("apps/v1", "Deployment", "proxy").await?["spec"]["replicas"].as_u64()
    }

    async fn version(&self, name: &str) -> Value {
        self.get("v1", "ConfigMap", name).await.unwrap()["metadata"]["resourceVersion"].take()
    }
}

#[tokio::test]
async fn manifests_become_objects_and_what_is_superseded_goes() {
    let fleet = Fleet::new().await;
    fleet.manifests.want(&fleet.owner, vec![fleet.config("a", "1"), fleet.config("b", "1")]);
    fleet.until("a", Some("1")).await;
    fleet.until("b", Some("1")).await;
    // Not ours to delete: no owner reference to this Gateway.
    let mut stranger = fleet.config("stranger", "1");
    stranger["metadata"].as_object_mut().unwrap().shift_remove("ownerReferences");
    apply(&fleet.client, stranger).await;
    fleet.manifests.want(&fleet.owner, vec![fleet.config("a", "2")]);
    fleet.until("a", Some("2")).await;
    fleet.until("b", None).await;
    assert_eq!(fleet.data("stranger").await.as_deref(), Some("1"));

    // Another leader finds everything as it should be.
    let before = fleet.version("a").await;
    let next = Manifests::default();
    fleet.start(next.clone());
    next.want(&fleet.owner, vec![fleet.config("a", "2")]);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(fleet.version("a").await, before);
}

#[tokio::test]
async fn what_others_change_or_delete_is_put_right() {
    let fleet = Fleet::new().await;
    fleet.manifests.want(&fleet.owner, vec![fleet.config("a", "1")]);
    fleet.until("a", Some("1")).await;
    let config_maps = api(&fleet.client, "v1", "ConfigMap", &fleet.namespace);
    let edit = Patch::Merge(json!({"data": {"key": "mine", "other": "kept"}}));
    config_maps.patch("a", &PatchParams::default(), &edit).await.unwrap();
    fleet.until("a", Some("1")).await;
    assert_eq!(fleet.get("v1", "ConfigMap", "a").await.unwrap()["data"]["other"], "kept", "fields of others stay");
    config_maps.delete("a", &DeleteParams::default()).await.unwrap();
    fleet.until("a", None).await;
    fleet.until("a", Some("1")).await;
}

#[tokio::test]
async fn somebody_elses_object_of_the_name_is_a_problem_and_not_touched() {
    let fleet = Fleet::new().await;
    let mut theirs = fleet.config("a", "theirs");
    theirs["metadata"]["labels"] = json!({});
    theirs["metadata"].as_object_mut().unwrap().shift_remove("ownerReferences");
    apply(&fleet.client, theirs).await;
    let mut problems = fleet.manifests.problems();
    fleet.manifests.want(&fleet.owner, vec![fleet.config("a", "1"), fleet.config("b", "1")]);
    fleet.until("b", Some("1")).await;
    let told = problems.wait_for(|problems| !problems.is_empty()).await.unwrap()[&fleet.owner].clone();
    assert_eq!(told.len(), 1);
    assert_eq!(told[0].object, format!("ConfigMap {}/a", fleet.namespace));
    assert!(told[0].text.contains("not Portolan's"), "{told:?}");
    assert_eq!(fleet.data("a").await.as_deref(), Some("theirs"));
    // Once it is out of the way, the name is used.
    api(&fleet.client, "v1", "ConfigMap", &fleet.namespace).delete("a", &DeleteParams::default()).await.unwrap();
    fleet.until("a", Some("1")).await;
    problems.wait_for(std::collections::BTreeMap::is_empty).await.unwrap();
}

#[tokio::test]
async fn what_the_api_server_refuses_is_a_problem_in_its_words() {
    let fleet = Fleet::new().await;
    let mut bad = fleet.deployment(Some(1));
    bad["spec"]["template"]["spec"]["containers"] = json!([]);
    let mut problems = fleet.manifests.problems();
    fleet.manifests.want(&fleet.owner, vec![bad]);
    let told = problems.wait_for(|problems| !problems.is_empty()).await.unwrap()[&fleet.owner].clone();
    assert!(told[0].text.contains("spec.template.spec.containers: Required value"), "{told:?}");
}

#[tokio::test]
async fn replicas_are_an_autoscalers_once_there_is_one() {
    let fleet = Fleet::new().await;
    fleet.manifests.want(&fleet.owner, vec![fleet.deployment(Some(2))]);
    eventually("two", async || (fleet.replicas().await == Some(2)).then_some(())).await;
    // Somebody's own autoscaler for it; what it says stays, whatever the manifest does.
    let mut autoscaler = fleet.autoscaler();
    autoscaler["metadata"]["name"] = json!("their-own");
    autoscaler["metadata"]["labels"] = json!({});
    apply(&fleet.client, autoscaler).await;
    let deployments = api(&fleet.client, "apps/v1", "Deployment", &fleet.namespace);
    let five = Patch::Merge(json!({"spec": {"replicas": 5}}));
    deployments.patch_scale("proxy", &PatchParams::default(), &five).await.unwrap();
    let mut other = fleet.deployment(Some(2));
    other["spec"]["paused"] = json!(true);
    fleet.manifests.want(&fleet.owner, vec![other]);
    let paused = async || fleet.get("apps/v1", "Deployment", "proxy").await?["spec"]["paused"].as_bool();
    eventually("paused", async || (paused().await == Some(true)).then_some(())).await;
    assert_eq!(fleet.replicas().await, Some(5));
}

#[tokio::test]
async fn a_fleet_that_is_given_an_autoscaler_keeps_its_size() {
    let fleet = Fleet::new().await;
    fleet.manifests.want(&fleet.owner, vec![fleet.deployment(Some(4))]);
    eventually("four", async || (fleet.replicas().await == Some(4)).then_some(())).await;
    fleet.manifests.want(&fleet.owner, vec![fleet.deployment(None), fleet.autoscaler()]);
    eventually("an autoscaler", async || fleet.get("autoscaling/v2", "HorizontalPodAutoscaler", "proxy").await).await;
    assert_eq!(fleet.replicas().await, Some(4));
}

#[tokio::test]
async fn a_fleet_goes_with_its_gateway_and_belongs_to_the_next_one() {
    let mut fleet = Fleet::new().await;
    fleet.manifests.want(&fleet.owner, vec![fleet.config("a", "1")]);
    fleet.until("a", Some("1")).await;
    let gateways = api(&fleet.client, GATEWAY_API, "Gateway", &fleet.namespace);
    gateways.delete("edge", &DeleteParams::default()).await.unwrap();
    fleet.manifests.gone(&fleet.owner);
    fleet.owner = Fleet::gateway(&fleet.client, &fleet.namespace).await;
    fleet.manifests.want(&fleet.owner, vec![fleet.config("a", "1")]);
    eventually("the new owner", async || {
        let object = fleet.get("v1", "ConfigMap", "a").await?;
        (object["metadata"]["ownerReferences"][0]["uid"] == *fleet.owner).then_some(())
    })
    .await;
    gateways.delete("edge", &DeleteParams::default()).await.unwrap();
    fleet.manifests.gone(&fleet.owner);
    fleet.until("a", None).await;
}

#[tokio::test]
async fn a_class_in_use_is_held() {
    let client = client().await;
    let class = json!({"apiVersion": GATEWAY_API, "kind": "GatewayClass",
        "metadata": {"name": "held", "finalizers": ["example.com/theirs"]}, "spec": {"controllerName": CONTROLLER_NAME}});
    let class = meta(&apply(&client, class).await);
    let key = ObjectKey::new(Kind::GatewayClass, NamespacedName::new("", "held"));
    let finalizers =
        async || api(&client, GATEWAY_API, "GatewayClass", "").get("held").await.unwrap().metadata.finalizers.unwrap();
    hold_class(&client, &key, &class, true).await.unwrap();
    assert_eq!(finalizers().await, ["example.com/theirs", "gateway-exists-finalizer.gateway.networking.k8s.io"]);
    hold_class(&client, &key, &class, false).await.unwrap();
    assert_eq!(finalizers().await, ["example.com/theirs"]);
}
