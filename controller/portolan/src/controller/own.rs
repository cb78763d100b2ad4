//! Follows what Portolan itself has made for fleets: Services (for the addresses that they have got) and workloads (for the revision that
//! runs). Every replica does: addresses are an input of the engine on all of them alike.

use std::collections::BTreeMap;
use std::pin::pin;

use futures::StreamExt as _;
use kube::api::{Api, DynamicObject};
use kube::core::{ApiResource, GroupVersionKind};
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Client, ResourceExt as _};
use portolan_model::{Name, NamespacedName};
use serde_json::Value;

/// The kinds, as group, version, kind.
pub const KINDS: [(&str, &str, &str); 3] =
    [("", "v1", "Service"), ("apps", "v1", "Deployment"), ("apps", "v1", "DaemonSet")];
const SELECTOR: &str = "app.kubernetes.io/name=portolan-proxy,app.kubernetes.io/managed-by=portolan";

/// Objects of one kind that are new, different or gone.
#[derive(Debug)]
pub struct Found {
    pub kind: &'static str,
    pub objects: BTreeMap<NamespacedName, Option<Value>>,
    /// This is all that there is of the kind in this place
    pub whole: Option<Place>,
}

/// A namespace; `None`: all of them.
pub type Place = Option<Name>;

/// Follows one kind in one place, until `tell` says that nobody listens.
pub async fn follow(
    client: Client,
    (group, version, kind): (&str, &str, &'static str),
    place: Place,
    tell: impl Fn(Found) -> bool,
) {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
    let api: Api<DynamicObject> = match &place {
        None => Api::all_with(client, &resource),
        Some(namespace) => Api::namespaced_with(client, namespace, &resource),
    };
    let mut events = pin!(watcher(api, watcher::Config::default().labels(SELECTOR)).default_backoff());
    let mut listing = BTreeMap::new();
    while let Some(event) = events.next().await {
        let (objects, whole) = match event {
            Ok(watcher::Event::Init) => {
                listing.clear();
                continue;
            }
            Ok(watcher::Event::InitApply(object)) => {
                let (name, value) = entry(object);
                listing.insert(name, Some(value));
                continue;
            }
            Ok(watcher::Event::InitDone) => (std::mem::take(&mut listing), Some(place.clone())),
            Ok(watcher::Event::Apply(object)) => {
                let (name, value) = entry(object);
                (BTreeMap::from([(name, Some(value))]), None)
            }
            Ok(watcher::Event::Delete(object)) => (BTreeMap::from([(entry(object).0, None)]), None),
            Err(error) => {
                tracing::warn!(kind, %error, "what Portolan has made cannot be watched; trying again");
                continue;
            }
        };
        if !tell(Found { kind, objects, whole }) {
            return;
        }
    }
}

fn entry(mut object: DynamicObject) -> (NamespacedName, Value) {
    object.managed_fields_mut().clear();
    let name = NamespacedName::new(object.namespace().unwrap_or_default(), object.name_any());
    // An object that came as JSON is JSON.
    (name, serde_json::to_value(object).unwrap_or_default())
}
