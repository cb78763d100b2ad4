//! From JSON to [`Observed`]: normalised at once, the JSON dropped.

use std::sync::{Arc, LazyLock};

use portolan_model::read::{self, Violation};
use portolan_model::{Kind, NamespacedName, ObjectKey};
use serde_json::Value;

use super::wire::Slim;
use crate::{Meta, Observed};

/// Shared by all objects without a status that matters.
static NONE: LazyLock<Arc<Value>> = LazyLock::new(|| Arc::new(Value::Null));

/// A version of a kind, as manifests write it.
pub(crate) fn api_version(kind: Kind, version: &str) -> Arc<str> {
    if kind.group().is_empty() { Arc::from(version) } else { Arc::from(format!("{}/{version}", kind.group())) }
}

/// An object of a kind. `None`: it has no name, which no API server sends.
pub(crate) fn observe(kind: Kind, api_version: &Arc<str>, Slim(mut value): Slim) -> Option<(ObjectKey, Observed)> {
    let fields = value.as_object_mut()?;
    let status = fields.shift_remove("status").filter(|_| keeps_status(kind)).filter(|status| !status.is_null());
    // The items of a list of Kubernetes' own kinds do not say what they are.
    fields.insert("apiVersion".to_owned(), Value::String(api_version.to_string()));
    fields.insert("kind".to_owned(), Value::String(kind.as_str().to_owned()));

    let text = |field| value.get("metadata")?.get(field)?.as_str();
    let name = NamespacedName::new(text("namespace").unwrap_or_default(), text("name")?);
    let meta = Meta {
        uid: Arc::from(text("uid").unwrap_or_default()),
        resource_version: Arc::from(text("resourceVersion").unwrap_or_default()),
        generation: value.get("metadata")?.get("generation").and_then(Value::as_i64).unwrap_or_default(),
        api_version: api_version.clone(),
        status: status.map_or_else(|| NONE.clone(), Arc::new),
    };
    let manifest = read::json(&value);
    // Which version was asked for is no fault of the object's.
    let is_the_objects = |violation: &Violation| violation.field != "apiVersion";
    let violations = manifest.violations.into_iter().filter(is_the_objects).collect();
    Some((ObjectKey::new(kind, name), Observed { object: manifest.object, meta, violations }))
}

/// The others have none, or a large one that nobody reads.
const fn keeps_status(kind: Kind) -> bool {
    !matches!(kind, Kind::Namespace | Kind::EndpointSlice | Kind::Secret | Kind::ConfigMap | Kind::ReferenceGrant)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_value_is_a_finding_on_its_object() {
        let route = serde_json::json!({
            "metadata": {"name": "a", "namespace": "b", "uid": "u", "resourceVersion": "7", "generation": 3},
            "spec": {"rules": [{"filters": [{"type": "Teleport"}], "backendRefs": [{"name": "s", "port": 1}]}]},
            "status": {"parents": [{"controllerName": "another/one"}]},
        });
        let (key, observed) = observe(Kind::HTTPRoute, &api_version(Kind::HTTPRoute, "v1"), Slim(route)).unwrap();
        assert_eq!(key.to_string(), "HTTPRoute b/a");
        assert_eq!(&*observed.meta.api_version, "gateway.networking.k8s.io/v1");
        assert!(observed.object.is_some(), "{:?}", observed.violations);
        assert!(
            observed.violations.iter().any(|violation| violation.message.contains("Teleport")),
            "{:?}",
            observed.violations
        );
        assert_eq!((&*observed.meta.uid, &*observed.meta.resource_version, observed.meta.generation), ("u", "7", 3));
        assert_eq!(*observed.meta.status, serde_json::json!({"parents": [{"controllerName": "another/one"}]}));
    }

    #[test]
    fn an_object_that_cannot_be_read_is_there_all_the_same() {
        let route = serde_json::json!({"metadata": {"name": "a", "namespace": "b"}, "spec": {"rules": 1}});
        let (_, observed) = observe(Kind::HTTPRoute, &api_version(Kind::HTTPRoute, "v1"), Slim(route)).unwrap();
        assert!(observed.object.is_none() && !observed.violations.is_empty());
    }

    #[test]
    fn a_deprecated_version_is_no_fault_of_the_object() {
        let route = serde_json::json!({"metadata": {"name": "a", "namespace": "b"}, "spec": {"rules": [{"backendRefs": [{"name": "s", "port": 1}]}]}});
        let (_, observed) = observe(Kind::TCPRoute, &api_version(Kind::TCPRoute, "v1alpha2"), Slim(route)).unwrap();
        assert_eq!((observed.object.is_some(), observed.violations), (true, Vec::new()));
    }
}
