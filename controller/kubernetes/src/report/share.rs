//! Reports as ConfigMaps: one per replica, owned by its pod, written by it alone, at most once a second and only when something changed.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, Patch, PatchParams};
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Client, ResourceExt as _};
use serde_json::json;
use tokio::sync::watch;

use super::Report;
use crate::FIELD_MANAGER;

/// Label of the ConfigMaps that hold reports; its value is the pod.
pub const REPORT_LABEL: &str = "portolan.dev/replica";
const PREFIX: &str = "portolan-replica-";
const FIELD: &str = "report.json";
const INTERVAL: Duration = Duration::from_secs(1);
const TIMEOUT: Duration = Duration::from_secs(5);

/// The pod of this replica.
#[derive(Clone, Debug)]
pub struct Pod {
    pub namespace: String,
    pub name: String,
    pub uid: String,
}

/// Shares this replica's report with the others, by pod. The future does it and never ends.
pub fn share(
    client: &Client,
    pod: Pod,
    own: watch::Receiver<Report>,
) -> (watch::Receiver<BTreeMap<Arc<str>, Report>>, impl Future<Output = ()> + Send + 'static) {
    let (sender, others) = watch::channel(BTreeMap::new());
    let api = Api::namespaced(client.clone(), &pod.namespace);
    let work = async move {
        tokio::join!(write(api.clone(), &pod, own), read(api, &pod, sender));
    };
    (others, work)
}

async fn write(api: Api<ConfigMap>, pod: &Pod, mut own: watch::Receiver<Report>) {
    let name = format!("{PREFIX}{}", pod.name);
    let mut written: Option<Report> = None;
    loop {
        let report = own.borrow_and_update().clone();
        // Also the first one that says nothing: there may be that of an earlier process of the pod.
        if written.as_ref() != Some(&report) {
            let manifest = manifest(pod, &name, &report);
            let parameters = PatchParams::apply(FIELD_MANAGER).force();
            let patch = Patch::Apply(&manifest);
            match tokio::time::timeout(TIMEOUT, api.patch(&name, &parameters, &patch)).await {
                Ok(Ok(_)) => written = Some(report),
                Ok(Err(error)) => {
                    tracing::warn!(%error, "The report of this replica could not be written; it is tried again");
                }
                Err(_) => tracing::warn!("The API server has not answered the report of this replica in {TIMEOUT:?}"),
            }
            tokio::time::sleep(INTERVAL).await;
        } else if own.changed().await.is_err() {
            // Nothing is said any more.
            std::future::pending::<()>().await;
        }
    }
}

fn manifest(pod: &Pod, name: &str, report: &Report) -> serde_json::Value {
    let mut labels = crate::own_labels();
    labels.insert(REPORT_LABEL.into(), pod.name.clone());
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {
            "namespace": pod.namespace, "name": name, "labels": labels,
            "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": pod.name, "uid": pod.uid}],
        },
        "data": {FIELD: json!(report).to_string()},
    })
}

async fn read(api: Api<ConfigMap>, pod: &Pod, sender: watch::Sender<BTreeMap<Arc<str>, Report>>) {
    let reports = watcher::Config::default().labels(REPORT_LABEL);
    let mut events = pin!(watcher(api, reports).default_backoff());
    let mut listed = BTreeMap::new();
    while let Some(event) = events.next().await {
        match event {
            Ok(watcher::Event::Init) => listed.clear(),
            Ok(watcher::Event::InitApply(object)) => listed.extend(parse(pod, &object)),
            Ok(watcher::Event::InitDone) => {
                let listed = std::mem::take(&mut listed);
                sender.send_if_modified(|reports| std::mem::replace(reports, listed.clone()) != listed);
            }
            Ok(watcher::Event::Apply(object)) => {
                if let Some((name, report)) = parse(pod, &object) {
                    sender.send_if_modified(|reports| {
                        reports.insert(name, report.clone()).is_none_or(|before| before != report)
                    });
                }
            }
            Ok(watcher::Event::Delete(object)) => {
                let name = pod_of(&object);
                sender.send_if_modified(|reports| name.is_some_and(|name| reports.remove(name).is_some()));
            }
            Err(error) => {
                tracing::warn!(%error, "Reports of other replicas cannot be watched; what is known of them stands");
            }
        }
    }
}

fn pod_of(object: &ConfigMap) -> Option<&str> {
    object.labels().get(REPORT_LABEL).map(String::as_str)
}

fn parse(own: &Pod, object: &ConfigMap) -> Option<(Arc<str>, Report)> {
    let name = pod_of(object).filter(|name| *name != own.name)?;
    let text = object.data.as_ref().and_then(|data| data.get(FIELD)).map_or("{}", String::as_str);
    match serde_json::from_str(text) {
        Ok(report) => Some((name.into(), report)),
        Err(error) => {
            tracing::warn!(pod = name, %error, "The report of another replica cannot be read");
            None
        }
    }
}
