//! A fleet as Kubernetes objects (design section 6).
//!
//! ```text
//! Gateway (name, UID) ─┐
//! FleetIntent ─────────┼─▶ Settings ──▶ ServiceAccount, ConfigMap, Deployment or DaemonSet, Service, PodDisruptionBudget, autoscaler
//! Platform ────────────┤                                   │
//! workload as it runs ─┴─▶ Template (which revision, which images)
//! ```
//!
//! Everything lies in the Gateway's namespace and belongs to the Gateway, so that it goes with it. What proxies are configured with, and
//! so every listener and route, is no part of this: only ports reach the Service, and nothing of it the pods, so that no edit of a
//! listener restarts a proxy.

mod autoscaler;
mod bootstrap;
mod patch;
mod pod;
mod service;
mod set;
mod settings;
mod template;

use portolan_engine::FleetIntent;
use portolan_model::{Name, NamespacedName};
use serde_json::{Map, Value, json};

use crate::{is_external, names};
pub use pod::DRAIN_TOKEN_HEADER;
pub(crate) use set::set;
use settings::Settings;
pub use template::Template;

/// What the installation of Portolan says about every fleet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Platform {
    /// Host and port under which proxies find xDS
    pub xds_host: String,
    pub xds_port: u16,
    /// The name in the certificates of Portolan's replicas
    pub server_name: String,
    /// Image with Envoy as `envoy` on its PATH, where parameters name none
    pub proxy_image: String,
    /// Portolan's own, for the sidecar
    pub portolan_image: String,
    /// Where the sidecar answers kubelet. No listener can have this port
    pub probe_port: u16,
}

/// The proxies of one Gateway.
#[derive(Clone, Copy, Debug)]
pub struct ManagedFleet<'a> {
    pub gateway: &'a NamespacedName,
    /// Of the Gateway
    pub uid: &'a str,
    pub intent: &'a FleetIntent,
}

/// What a fleet is made of.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Manifests {
    /// In the order in which they are to be applied
    pub objects: Vec<Value>,
    /// Objects that the fleet has with other parameters. They are to be deleted where they belong to the Gateway
    pub superseded: Vec<ObjectId>,
    /// What of the parameters could not be done
    pub problems: Vec<String>,
}

/// An object in the API server.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ObjectId {
    pub api_version: &'static str,
    pub kind: &'static str,
    pub namespace: Name,
    pub name: String,
}

const WORKLOADS: [(&str, &str); 2] = [("apps/v1", "Deployment"), ("apps/v1", "DaemonSet")];
const AUTOSCALER: (&str, &str) = ("autoscaling/v2", "HorizontalPodAutoscaler");

/// Which object says how a fleet runs now: its workload, of either kind. [`manifests`] wants to see it.
#[must_use]
pub fn workloads(gateway: &NamespacedName) -> [ObjectId; 2] {
    WORKLOADS.map(|(api_version, kind)| ObjectId {
        api_version,
        kind,
        namespace: gateway.namespace.clone(),
        name: names::resource_name(gateway),
    })
}

/// The manifests of a fleet. `running`: its workload as the API server has it; `None` where it has none. `renew`: take the newest
/// template, whatever is running.
///
/// Deterministic: equal arguments, equal bytes. An external fleet has none.
#[must_use]
pub fn manifests(fleet: ManagedFleet<'_>, platform: &Platform, running: Option<&Value>, renew: bool) -> Manifests {
    if is_external(fleet.intent) {
        return Manifests::default();
    }
    let settings = Settings::of(fleet.intent);
    let newest = Template::newest(platform);
    let recorded = running.filter(|_| !renew).and_then(Template::recorded);
    let mut rendered = None;
    if let Some((template, digest)) = recorded {
        let old = Rendered::new(fleet, platform, &settings, &template);
        // Its own parameters are as they were: it stays with the template that it has.
        rendered = (old.digest() == digest).then_some(old);
    }
    rendered.unwrap_or_else(|| Rendered::new(fleet, platform, &settings, &newest)).finish(fleet, &settings)
}

/// What is under the template's revision.
struct Rendered {
    template: Template,
    files: Map<String, Value>,
    pod: Value,
    problems: Vec<String>,
}

impl Rendered {
    fn new(fleet: ManagedFleet<'_>, platform: &Platform, settings: &Settings, template: &Template) -> Self {
        let mut problems = Vec::new();
        let files = bootstrap::files(fleet.gateway, platform, settings, &mut problems);
        let pod = pod::template(fleet, settings, template, &files);
        Self { template: template.clone(), files, pod, problems }
    }

    fn digest(&self) -> String {
        template::digest(&[&Value::Object(self.files.clone()), &self.pod])
    }

    fn finish(self, fleet: ManagedFleet<'_>, settings: &Settings) -> Manifests {
        let digest = self.digest();
        let workload = pod::workload(fleet, settings, &self.template, &digest, self.pod);
        let mut objects = vec![
            fleet.object("v1", "ServiceAccount", json!({"automountServiceAccountToken": false})),
            fleet.object("v1", "ConfigMap", json!({"data": self.files})),
        ];
        // An address takes its time; meanwhile whoever keeps credentials makes the Secret without which kubelet tries in vain to start pods.
        objects.extend(service::service(fleet, settings));
        objects.push(autoscaler::disruption_budget(fleet, settings));
        objects.push(workload);
        objects.extend(autoscaler::autoscaler(fleet, settings));
        let has = |(api_version, kind): &(&str, &str)| {
            objects.iter().any(|object| object["apiVersion"] == *api_version && object["kind"] == *kind)
        };
        let superseded = WORKLOADS
            .into_iter()
            .chain([AUTOSCALER])
            .filter(|id| !has(id))
            .map(|(api_version, kind)| ObjectId {
                api_version,
                kind,
                namespace: fleet.gateway.namespace.clone(),
                name: names::resource_name(fleet.gateway),
            })
            .collect();
        Manifests { objects, superseded, problems: self.problems }
    }
}

impl ManagedFleet<'_> {
    /// A namespaced object with the fleet's name, labels and owner, and the fields of `content`.
    pub(crate) fn object(self, api_version: &str, kind: &str, content: Value) -> Value {
        let mut metadata = json!({
            "name": names::resource_name(self.gateway),
            "namespace": &*self.gateway.namespace,
            "labels": self.labels(),
            "ownerReferences": [self.owner()],
        });
        let annotations = self.annotations();
        if !annotations.is_empty() {
            set(&mut metadata, &["annotations"], annotations);
        }
        let mut object = json!({"apiVersion": api_version, "kind": kind, "metadata": metadata});
        if let (Some(object), Value::Object(content)) = (object.as_object_mut(), content) {
            object.extend(content);
        }
        object
    }

    /// Never `blockOwnerDeletion`: it needs a right to the Gateway's finalizers, for nothing.
    fn owner(self) -> Value {
        json!({
            "apiVersion": "gateway.networking.k8s.io/v1",
            "kind": "Gateway",
            "name": &*self.gateway.name,
            "uid": self.uid,
            "controller": true,
        })
    }

    /// "labels … applied to any resources created in response to this Gateway" (GatewayInfrastructure); the fleet's own win.
    fn labels(self) -> Map<String, Value> {
        let mut labels = texts(&self.intent.labels);
        labels.extend(names::selector(self.gateway));
        labels.insert("app.kubernetes.io/managed-by".into(), json!("portolan"));
        labels
    }

    fn annotations(self) -> Map<String, Value> {
        texts(&self.intent.annotations)
    }
}

fn texts<'a>(map: impl IntoIterator<Item = (&'a Name, &'a Name)>) -> Map<String, Value> {
    map.into_iter().map(|(key, value)| (key.to_string(), json!(&**value))).collect()
}

#[cfg(test)]
mod tests;
