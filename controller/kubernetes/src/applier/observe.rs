//! What there is of fleets: metadata alone, by label.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{Hash as _, Hasher as _};
use std::pin::pin;
use std::sync::Arc;

use futures::StreamExt as _;
use kube::Client;
use kube::api::{Api, DynamicObject, ObjectMeta, PartialObjectMeta};
use kube::runtime::{WatchStreamExt as _, watcher};

use super::Shared;
use super::plan::{APPLIED, ObjectId, Seen};
use crate::resource::resource;

/// The kinds of which fleets are made.
pub const KINDS: [(&str, &str); 7] = [
    ("v1", "ServiceAccount"),
    ("v1", "ConfigMap"),
    ("v1", "Service"),
    ("apps/v1", "Deployment"),
    ("apps/v1", "DaemonSet"),
    ("policy/v1", "PodDisruptionBudget"),
    ("autoscaling/v2", "HorizontalPodAutoscaler"),
];

/// Labels of everything that belongs to a fleet.
pub const SELECTOR: &str = "app.kubernetes.io/managed-by=portolan,app.kubernetes.io/name=portolan-proxy";

/// Follows one kind, in one namespace or (empty) in all.
pub(super) async fn follow(client: Client, shared: Arc<Shared>, kind: (&'static str, &'static str), namespace: String) {
    let (api_version, kind) = kind;
    let resource = resource(api_version, kind);
    let api: Api<PartialObjectMeta<DynamicObject>> = if namespace.is_empty() {
        Api::all_with(client, &resource)
    } else {
        Api::namespaced_with(client, &namespace, &resource)
    };
    let config = watcher::Config::default().labels(SELECTOR);
    let mut events = pin!(watcher(api, config).default_backoff());
    let id = |metadata: &ObjectMeta| ObjectId {
        api_version: api_version.into(),
        kind: kind.into(),
        namespace: metadata.namespace.as_deref().unwrap_or_default().into(),
        name: metadata.name.as_deref().unwrap_or_default().into(),
    };
    let mut listed = BTreeMap::new();
    while let Some(event) = events.next().await {
        match event {
            Ok(watcher::Event::Init) => listed.clear(),
            Ok(watcher::Event::InitApply(object)) => {
                listed.insert(id(&object.metadata), seen(&object.metadata));
            }
            Ok(watcher::Event::InitDone) => shared.plan().list(kind, &namespace, std::mem::take(&mut listed)),
            Ok(watcher::Event::Apply(object)) => {
                shared.plan().observe(&id(&object.metadata), Some(seen(&object.metadata)));
            }
            Ok(watcher::Event::Delete(object)) => shared.plan().observe(&id(&object.metadata), None),
            Err(error) => tracing::warn!(kind, %error, "What there is of fleets cannot be watched; it is tried again"),
        }
        shared.ready(kind, &namespace);
        shared.news.notify_one();
    }
}

pub(super) fn seen(metadata: &ObjectMeta) -> Seen {
    let owners: BTreeSet<Arc<str>> =
        metadata.owner_references.iter().flatten().map(|owner| owner.uid.as_str().into()).collect();
    let applied = metadata.annotations.as_ref().and_then(|annotations| annotations.get(APPLIED));
    let mut fingerprint = xxhash_rust::xxh3::Xxh3::new();
    for entry in metadata.managed_fields.iter().flatten().filter(|entry| entry.subresource.is_none()) {
        serde_json::json!(entry).to_string().hash(&mut fingerprint);
    }
    Seen {
        uid: metadata.uid.as_deref().unwrap_or_default().into(),
        resource_version: metadata.resource_version.as_deref().unwrap_or_default().into(),
        owners,
        applied: applied.map(|applied| applied.as_str().into()),
        fingerprint: fingerprint.finish(),
    }
}
