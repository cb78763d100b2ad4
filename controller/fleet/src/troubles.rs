//! What Kubernetes says about why a fleet's pods are not there.

use portolan_model::NamespacedName;
use serde_json::Value;

use crate::names;

/// What is wrong with a fleet's Deployment by its own conditions. (A DaemonSet has none.)
#[must_use]
pub fn troubles(gateway: &NamespacedName, deployment: &Value) -> Vec<String> {
    let conditions = deployment.pointer("/status/conditions").and_then(Value::as_array).into_iter().flatten();
    let told = |condition: &Value| {
        let text = |field: &str| condition.get(field).and_then(Value::as_str).unwrap_or_default();
        let name = NamespacedName::new(gateway.namespace.clone(), names::resource_name(gateway));
        match (text("type"), text("status"), text("reason")) {
            // Quota, admission, a ServiceAccount that is not there.
            ("ReplicaFailure", "True", _) => Some(format!("Deployment {name} cannot make pods: {}", text("message"))),
            ("Progressing", "False", "ProgressDeadlineExceeded") => Some(format!(
                "the pods of Deployment {name} do not become ready; `kubectl describe pods -n {} -l {}={}` says why",
                gateway.namespace,
                names::GATEWAY_LABEL,
                names::label_value(gateway)
            )),
            _ => None,
        }
    };
    conditions.filter_map(told).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_deployment_says_why_there_are_no_pods() {
        let told = |conditions: Value| {
            troubles(&NamespacedName::new("infra", "edge"), &json!({"status": {"conditions": conditions}}))
        };
        let failure = |status: &str| {
            json!([
                {"type": "Available", "status": "False", "reason": "MinimumReplicasUnavailable", "message": "not yet"},
                {"type": "ReplicaFailure", "status": status, "message": "pods is forbidden: exceeded quota: small"},
            ])
        };
        assert_eq!(
            told(failure("True")),
            ["Deployment infra/portolan-edge cannot make pods: pods is forbidden: exceeded quota: small"]
        );
        assert_eq!(told(failure("False")), [""; 0]);
        let progressing =
            |status: &str, reason: &str| told(json!([{"type": "Progressing", "status": status, "reason": reason}]));
        assert_eq!(
            progressing("False", "ProgressDeadlineExceeded"),
            [
                "the pods of Deployment infra/portolan-edge do not become ready; `kubectl describe pods -n infra -l gateway.networking.k8s.io/gateway-name=edge` says why"
            ]
        );
        assert_eq!(progressing("True", "NewReplicaSetAvailable"), [""; 0]);
        assert_eq!(troubles(&NamespacedName::new("infra", "edge"), &Value::Null), [""; 0]);
    }
}
