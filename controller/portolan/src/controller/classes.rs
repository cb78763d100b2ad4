//! Keeps the classes that Gateways use from being deleted, while this replica leads.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use portolan_kubernetes::{Leadership, Meta, hold_class};
use portolan_model::ObjectKey;
use tokio::sync::watch;

/// Portolan's classes, and whether a Gateway uses them.
pub type Classes = BTreeMap<ObjectKey, (Meta, bool)>;

/// When to try again what the API server refused.
const AGAIN: Duration = Duration::from_secs(10);

/// Holds and lets go until the program ends.
pub async fn hold(client: Client, leadership: Leadership, mut classes: watch::Receiver<Arc<Classes>>) {
    // By UID, as it was last written in this term.
    let mut held: BTreeMap<Arc<str>, bool> = BTreeMap::new();
    let mut told = String::new();
    let mut term = leadership.clone();
    loop {
        let leads = leadership.holds();
        let all = Arc::clone(&classes.borrow_and_update());
        held.retain(|uid, _| leads && all.values().any(|(meta, _)| meta.uid == *uid));
        let mut failed = false;
        for (key, (meta, is_used)) in all.iter().filter(|_| leads) {
            if held.get(&meta.uid) == Some(is_used) {
                continue;
            }
            match hold_class(&client, key, meta, *is_used).await {
                Ok(()) => _ = held.insert(Arc::clone(&meta.uid), *is_used),
                Err(error) => {
                    failed = true;
                    let text = format!("the finalizer of {key} cannot be written: {error}");
                    if text != told {
                        tracing::warn!("{text}");
                        told = text;
                    }
                }
            }
        }
        tokio::select! {
            changed = classes.changed() => if changed.is_err() { return },
            () = term.changed(leads) => {}
            () = tokio::time::sleep(AGAIN), if failed => {}
        }
    }
}
