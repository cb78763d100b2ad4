//! Follows what Portolan itself has made.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use kube::Client;
use portolan_model::{Name, NamespacedName};
use serde_json::Value;

use super::follow::{Heard, follow};
use super::freshness::Freshness;
use super::wire::{Collection, Slim};

/// A kind of what Portolan has made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Made {
    /// Such as `Deployment`
    pub kind: &'static str,
    /// Such as `/apis/apps/v1`
    pub root: &'static str,
    /// Such as `deployments`
    pub plural: &'static str,
}

impl Made {
    fn path(self, place: Option<&Name>) -> String {
        let Self { root, plural, .. } = self;
        place.map_or_else(|| format!("{root}/{plural}"), |name| format!("{root}/namespaces/{name}/{plural}"))
    }
}

/// A namespace; `None`: all of them.
pub type Place = Option<Name>;

/// Objects of one kind that are new, different or gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The kind
    pub kind: &'static str,
    /// As JSON, by name
    pub objects: BTreeMap<NamespacedName, Option<Value>>,
    /// This is all that there is of the kind in this place
    pub whole: Option<Place>,
}

/// Follows the objects of one kind with these labels in one place, for ever. How fresh that is is told too.
pub async fn follow_made(
    client: Client,
    made: Made,
    place: Place,
    labels: &str,
    freshness: Freshness,
    tell: impl Fn(Found),
) {
    let health = freshness.made(made.kind, place.clone());
    let collection = Collection::selected(made.path(place.as_ref()), labels);
    let told = AtomicBool::new(false);
    let found = |objects, whole| Found { kind: made.kind, objects, whole };
    let hear = |heard| {
        match heard {
            Heard::Listing => return,
            Heard::Broken(trouble) => {
                health.broken();
                // Said once: it is tried again every few seconds.
                if !told.swap(true, Ordering::Relaxed) {
                    tracing::warn!(
                        kind = made.kind,
                        ?trouble,
                        "what Portolan has made cannot be watched; trying again"
                    );
                }
                return;
            }
            Heard::Listed(objects, _) => tell(found(objects.into_iter().map(present).collect(), Some(place.clone()))),
            Heard::Applied(object) => tell(found(BTreeMap::from([present(object)]), None)),
            Heard::Deleted((name, _)) => tell(found(BTreeMap::from([(name, None)]), None)),
            Heard::Alive => {}
        }
        // After its word has been passed on.
        health.alive();
        told.store(false, Ordering::Relaxed);
    };
    follow(client, collection, freshness.again(), named, hear).await;
}

fn present((name, object): (NamespacedName, Value)) -> (NamespacedName, Option<Value>) {
    (name, Some(object))
}

fn named(object: Slim) -> Option<(NamespacedName, Value)> {
    let name = NamespacedName::new(object.metadata("namespace")?, object.metadata("name")?);
    Some((name, object.0))
}
