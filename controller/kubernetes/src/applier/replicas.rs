//! Who says how many replicas there are. Pure.
//!
//! "If you apply a manifest without replicas, and you were the field's only owner, the field is set to its default": whoever hands the
//! field over to an autoscaler has to have another owner keep the value first (Kubernetes, "Server-Side Apply", transferring ownership).

use serde_json::{Value, json};

use crate::FIELD_MANAGER;

/// What to apply, one after the other.
#[derive(Debug, PartialEq)]
pub struct Settled {
    /// To be applied first, by [`KEEPER`]: keeps the number that there is
    pub keep: Option<Value>,
    pub manifest: Value,
}

/// Owns the number of replicas from when Portolan lets go of it until an autoscaler sets it.
pub const KEEPER: &str = "portolan-replicas";

/// Leaves the number of replicas alone where an autoscaler sets it, or where the manifest does not say it.
#[must_use]
pub fn settle(mut manifest: Value, live: Option<&Value>, is_autoscaled: bool) -> Settled {
    if is_autoscaled && let Some(spec) = manifest.get_mut("spec").and_then(Value::as_object_mut) {
        spec.shift_remove("replicas");
    }
    let says = manifest.pointer("/spec/replicas").is_some();
    let there = live.and_then(|live| live.pointer("/spec/replicas"));
    let keep = match (there, live) {
        (Some(replicas), Some(live)) if !says && is_ours(live) => Some(json!({
            "apiVersion": manifest.get("apiVersion"), "kind": manifest.get("kind"),
            "metadata": {
                "namespace": manifest.pointer("/metadata/namespace"),
                "name": manifest.pointer("/metadata/name"),
                "uid": live.pointer("/metadata/uid"),
            },
            "spec": {"replicas": replicas},
        })),
        _ => None,
    };
    Settled { keep, manifest }
}

fn is_ours(live: &Value) -> bool {
    let entries = live.pointer("/metadata/managedFields").and_then(Value::as_array);
    entries.into_iter().flatten().any(|entry| {
        entry.get("manager").and_then(Value::as_str) == Some(FIELD_MANAGER)
            && entry.get("operation").and_then(Value::as_str) == Some("Apply")
            && entry.pointer("/fieldsV1/f:spec/f:replicas").is_some()
    })
}

/// Whether one of these HorizontalPodAutoscalers sets the object's replicas.
#[must_use]
pub fn is_autoscaled<'a>(autoscalers: impl IntoIterator<Item = &'a Value>, kind: &str, name: &str) -> bool {
    autoscalers.into_iter().any(|autoscaler| {
        let target = |field: &str| autoscaler.pointer(&format!("/spec/scaleTargetRef/{field}")).and_then(Value::as_str);
        target("kind") == Some(kind) && target("name") == Some(name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest(replicas: Option<i64>) -> Value {
        let mut manifest = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a", "namespace": "n"},
            "spec": {"paused": false}});
        if let Some(replicas) = replicas {
            manifest["spec"]["replicas"] = json!(replicas);
        }
        manifest
    }

    fn live(owner: &str) -> Value {
        json!({"metadata": {"uid": "u", "managedFields": [{"manager": owner, "operation": "Apply",
            "fieldsV1": {"f:spec": {"f:replicas": {}}}}]}, "spec": {"replicas": 7}})
    }

    #[test]
    fn the_number_is_ours_where_nobody_scales() {
        let settled = settle(manifest(Some(2)), Some(&live("portolan")), false);
        assert_eq!(settled, Settled { keep: None, manifest: manifest(Some(2)) });
    }

    #[test]
    fn an_autoscaler_keeps_its_number() {
        let settled = settle(manifest(Some(2)), Some(&live("kube-controller-manager")), true);
        assert_eq!(settled, Settled { keep: None, manifest: manifest(None) });
    }

    #[test]
    fn what_is_handed_over_keeps_its_value() {
        for says in [None, Some(2)] {
            let settled = settle(manifest(says), Some(&live("portolan")), true);
            assert_eq!(settled.manifest, manifest(None));
            assert_eq!(settled.keep.unwrap()["spec"], json!({"replicas": 7}));
        }
        assert_eq!(settle(manifest(None), None, true).keep, None, "it is new");
    }

    #[test]
    fn an_autoscaler_is_found_by_its_target() {
        let autoscaler =
            json!({"spec": {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "a"}}});
        assert!(is_autoscaled([&autoscaler], "Deployment", "a"));
        assert!(!is_autoscaled([&autoscaler], "Deployment", "b"));
    }
}
