//! How many proxies there are, and how many may be away.

use serde_json::{Value, json};

use super::settings::Settings;
use super::{AUTOSCALER, ManagedFleet, patch, set};
use crate::names;

/// One proxy at a time may be evicted, also the only one: a budget that forbids that keeps nodes from being drained.
pub(super) fn disruption_budget(fleet: ManagedFleet<'_>, settings: &Settings) -> Value {
    let given = &settings.disruption_budget;
    let mut spec = json!({
        "selector": {"matchLabels": names::selector(fleet.gateway)},
        // What is not ready serves nobody.
        "unhealthyPodEvictionPolicy": "AlwaysAllow",
    });
    match (&given.min_available, &given.max_unavailable) {
        (Some(min), _) => set(&mut spec, &["minAvailable"], min.clone()),
        (None, Some(max)) => set(&mut spec, &["maxUnavailable"], max.clone()),
        (None, None) => set(&mut spec, &["maxUnavailable"], 1),
    }
    let mut object = fleet.object("policy/v1", "PodDisruptionBudget", json!({"spec": spec}));
    patch::apply(&mut object, given.patch.as_ref());
    object
}

pub(super) fn autoscaler(fleet: ManagedFleet<'_>, settings: &Settings) -> Option<Value> {
    let given = settings.autoscaler.as_ref()?;
    let cpu = json!([{"type": "Resource", "resource": {
        "name": "cpu",
        "target": {"type": "Utilization", "averageUtilization": 80},
    }}]);
    let mut spec = json!({
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": names::resource_name(fleet.gateway)},
        "minReplicas": given.min_replicas.unwrap_or(1),
        "maxReplicas": given.max_replicas,
        "metrics": given.spec.get("metrics").unwrap_or(&cpu),
    });
    if let Some(behavior) = given.spec.get("behavior") {
        set(&mut spec, &["behavior"], behavior.clone());
    }
    let (api_version, kind) = AUTOSCALER;
    let mut object = fleet.object(api_version, kind, json!({"spec": spec}));
    patch::apply(&mut object, given.patch.as_ref());
    Some(object)
}
