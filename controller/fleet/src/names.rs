//! Names and labels of what a fleet is made of.

use portolan_model::NamespacedName;
use serde_json::{Map, Value, json};
use xxhash_rust::xxh3::xxh3_64;

/// Longest DNS label, and longest value of a Kubernetes label.
const LONGEST: usize = 63;
const HASH: usize = 8;

/// Whose object it is: GEP-1762 asks for this label on everything that is made for a Gateway.
pub const GATEWAY_LABEL: &str = "gateway.networking.k8s.io/gateway-name";
/// What the pods of fleets have as `app.kubernetes.io/name`.
pub const PROXY: &str = "portolan-proxy";

/// `portolan-GATEWAY`: the name of a fleet's Deployment, Service and so on, in the Gateway's namespace. A DNS label, as Services need:
/// what is no label, or too long, is changed and gets a hash of the Gateway's name, so that no two Gateways share a name.
#[must_use]
pub fn resource_name(gateway: &NamespacedName) -> String {
    fit(&format!("portolan-{}", gateway.name), &gateway.name)
}

/// The value of [`GATEWAY_LABEL`].
#[must_use]
pub fn label_value(gateway: &NamespacedName) -> String {
    if gateway.name.len() <= LONGEST { gateway.name.to_string() } else { fit(&gateway.name, &gateway.name) }
}

fn fit(text: &str, whole: &str) -> String {
    let label: String = text.chars().map(|char| if char == '.' { '-' } else { char }).collect();
    if label == text && label.len() <= LONGEST {
        return label;
    }
    let kept: String = label.chars().take(LONGEST - HASH - 1).collect();
    // 32 bits: Gateways of one namespace, and only those whose names had to be changed.
    format!("{}-{:08x}", kept.trim_end_matches('-'), xxh3_64(whole.as_bytes()) >> 32)
}

/// The name of a kind in the API server's paths.
pub(crate) fn plural(kind: &str) -> String {
    let kind = kind.to_lowercase();
    match kind.strip_suffix('y').filter(|stem| !stem.ends_with(['a', 'e', 'i', 'o', 'u'])) {
        Some(stem) => format!("{stem}ies"),
        None if kind.ends_with('s') => format!("{kind}es"),
        None => format!("{kind}s"),
    }
}

/// What finds a fleet's pods. Never changes: a Deployment's selector cannot.
pub(crate) fn selector(gateway: &NamespacedName) -> Map<String, Value> {
    let mut labels = Map::new();
    labels.insert("app.kubernetes.io/name".into(), json!(PROXY));
    labels.insert(GATEWAY_LABEL.into(), json!(label_value(gateway)));
    labels
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(name: &str) -> NamespacedName {
        NamespacedName::new("infra", name)
    }

    #[test]
    fn names_are_labels_and_differ() {
        assert_eq!(resource_name(&named("edge")), "portolan-edge");
        let long = "g".repeat(253);
        for name in ["a.b", "a-b", &long, &format!("{long}h"), &"x".repeat(54), &"x".repeat(55)] {
            let made = resource_name(&named(name));
            assert!(made.len() <= 63 && !made.contains('.') && made.starts_with("portolan-"), "{made}");
            assert!(label_value(&named(name)).len() <= 63);
        }
        assert_ne!(resource_name(&named("a.b")), resource_name(&named("a-b")));
        assert_ne!(resource_name(&named(&long)), resource_name(&named(&format!("{long}h"))));
        assert_eq!(resource_name(&named(&"x".repeat(54))).len(), 63);
        assert_eq!(label_value(&named("a.b")), "a.b");
    }
}
