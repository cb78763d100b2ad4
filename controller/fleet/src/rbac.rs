//! What Portolan may do in the API server: the one list, from which the chart's roles are made.

use std::collections::BTreeMap;

use portolan_model::Kind;
use serde_json::{Value, json};

use crate::names::plural;

const READ: &[&str] = &["get", "list", "watch"];
/// Server-side apply of a new object needs `create` too.
const WRITE: &[&str] = &["create", "delete", "get", "list", "patch", "watch"];

/// The kinds that a fleet is made of.
const FLEET: [(&str, &[&str]); 4] = [
    ("", &["configmaps", "secrets", "serviceaccounts", "services"]),
    ("apps", &["daemonsets", "deployments"]),
    ("autoscaling", &["horizontalpodautoscalers"]),
    ("policy", &["poddisruptionbudgets"]),
];

/// The rules of Portolan's roles.
#[derive(Clone, Debug, PartialEq)]
pub struct Rules {
    /// In the cluster as a whole: kinds without a namespace
    pub cluster: Vec<Value>,
    /// In every namespace that is watched
    pub watched: Vec<Value>,
    /// In Portolan's own namespace
    pub own: Vec<Value>,
}

/// The rules, each with its groups, resources and verbs sorted.
#[must_use]
pub fn rules() -> Rules {
    let read = |cluster: bool| -> Vec<Value> {
        let mut by_group: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        for kind in Kind::ALL.into_iter().filter(|kind| kind.is_cluster_scoped() == cluster) {
            by_group.entry(kind.group()).or_default().push(plural(kind.as_str()));
        }
        by_group.into_iter().map(|(group, resources)| rule(group, resources, READ)).collect()
    };
    let status = |cluster: bool| {
        let kinds = Kind::ALL.into_iter().filter(|kind| kind.is_cluster_scoped() == cluster && has_status(*kind));
        rule(portolan_model::GATEWAY_GROUP, kinds.map(|kind| format!("{}/status", plural(kind.as_str()))), &["patch"])
    };
    let mut cluster = read(true);
    // Which kinds there are, of which release of the Gateway API; without it a new one is found a minute late.
    cluster.push(rule("apiextensions.k8s.io", ["customresourcedefinitions".to_owned()], READ));
    cluster.push(status(true));
    // The finalizer that keeps a class in use.
    cluster.push(rule(portolan_model::GATEWAY_GROUP, ["gatewayclasses".to_owned()], &["patch", "update"]));
    let mut watched = read(false);
    watched.push(status(false));
    for (group, resources) in FLEET {
        watched.push(rule(group, resources.iter().map(ToString::to_string), WRITE));
    }
    watched.push(rule("events.k8s.io", ["events".to_owned()], &["create", "get", "patch"]));
    let own = vec![
        rule("coordination.k8s.io", ["leases".to_owned()], &["create", "get", "list", "patch", "update", "watch"]),
        // What replicas tell each other
        rule("", ["configmaps".to_owned()], &["create", "delete", "get", "list", "patch", "update", "watch"]),
        // Whose the reports are
        rule("", ["pods".to_owned()], &["get"]),
        // The authority
        rule("", ["secrets".to_owned()], &["create", "get", "list", "update", "watch"]),
    ];
    Rules { cluster, watched, own }
}

/// The kinds whose status Portolan writes.
fn has_status(kind: Kind) -> bool {
    kind.is_route() || matches!(kind, Kind::GatewayClass | Kind::Gateway | Kind::ListenerSet | Kind::BackendTLSPolicy)
}

fn rule(group: &str, resources: impl IntoIterator<Item = String>, verbs: &[&str]) -> Value {
    let mut resources: Vec<String> = resources.into_iter().collect();
    resources.sort_unstable();
    json!({"apiGroups": [group], "resources": resources, "verbs": verbs})
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Nothing beyond: no wildcard, nothing of pods but their names, no roles, no impersonation, no tokens.
    #[test]
    fn there_is_no_more_than_is_needed() {
        let Rules { cluster, watched, own } = rules();
        let all = [cluster, watched, own].concat();
        let texts = |field: &str| -> Vec<String> {
            let values = all.iter().flat_map(|rule| rule[field].as_array().unwrap());
            values.map(|value| value.as_str().unwrap().to_owned()).collect()
        };
        for banned in
            ["*", "roles", "clusterroles", "pods/exec", "serviceaccounts/token", "bind", "escalate", "impersonate"]
        {
            assert!([texts("resources"), texts("verbs")].concat().iter().all(|it| it != banned), "{banned}");
        }
        let groups = texts("apiGroups").into_iter().filter(|group| group.contains("rbac") || group == "*");
        let groups: Vec<String> = groups.collect();
        assert!(groups.is_empty(), "{groups:?}");
    }

    #[test]
    fn every_kind_can_be_read_where_it_is() {
        let Rules { cluster, watched, .. } = rules();
        for kind in Kind::ALL {
            let rules = if kind.is_cluster_scoped() { &cluster } else { &watched };
            let can = rules.iter().any(|rule| {
                let has = |field: &str, what: &str| rule[field].as_array().unwrap().iter().any(|it| it == what);
                has("apiGroups", kind.group()) && has("resources", &plural(kind.as_str())) && has("verbs", "watch")
            });
            assert!(can, "{kind}");
        }
    }
}
