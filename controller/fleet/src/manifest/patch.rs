//! Changes that the class's parameters make to finished manifests.

use portolan_model::objects::Patch;
use serde_json::Value;

/// Lists whose items are told apart by a field (Kubernetes' `patchMergeKey`), of what a fleet is made of.
const KEYS: [(&str, &str); 9] = [
    ("containers", "name"),
    ("env", "name"),
    ("imagePullSecrets", "name"),
    ("initContainers", "name"),
    ("ports", "port"),
    ("topologySpreadConstraints", "topologyKey"),
    ("volumeMounts", "mountPath"),
    ("volumes", "name"),
    ("hostAliases", "ip"),
];

pub(super) fn apply(manifest: &mut Value, patch: Option<&Patch>) {
    if let Some(patch) = patch {
        merge(manifest, &patch.value, "", patch.strategic);
    }
}

/// RFC 7386, and with `strategic` by name within the lists of [`KEYS`].
fn merge(target: &mut Value, patch: &Value, field: &str, strategic: bool) {
    match (target, patch) {
        (Value::Object(target), Value::Object(patch)) => {
            for (key, value) in patch {
                if value.is_null() {
                    target.shift_remove(key);
                } else {
                    merge(target.entry(key.clone()).or_insert(Value::Null), value, key, strategic);
                }
            }
        }
        (Value::Array(target), Value::Array(patch)) if strategic && key_of(field).is_some() => {
            let key = key_of(field).unwrap_or_default();
            for item in patch {
                let same = |other: &&mut Value| item.get(key).is_some() && other.get(key) == item.get(key);
                match target.iter_mut().find(same) {
                    Some(old) => merge(old, item, "", strategic),
                    None => target.push(item.clone()),
                }
            }
        }
        (target @ Value::Null, Value::Object(_)) => {
            *target = Value::Object(serde_json::Map::new());
            merge(target, patch, field, strategic);
        }
        (target, patch) => *target = patch.clone(),
    }
}

fn key_of(list: &str) -> Option<&'static str> {
    KEYS.iter().find(|(name, _)| *name == list).map(|(_, key)| *key)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn lists_are_merged_by_name_or_replaced() {
        let manifest =
            json!({"spec": {"containers": [{"name": "envoy", "image": "a"}, {"name": "b"}], "x": 1, "y": ["z"]}});
        let value = json!({"spec": {"containers": [{"name": "envoy", "tty": true}, {"name": "c"}], "x": null, "y": ["w"], "new": {"a": {"b": null}}}});
        let mut strategic = manifest.clone();
        apply(&mut strategic, Some(&Patch { strategic: true, value: value.clone() }));
        assert_eq!(
            strategic,
            json!({"spec": {"containers": [{"name": "envoy", "image": "a", "tty": true}, {"name": "b"}, {"name": "c"}], "y": ["w"], "new": {"a": {}}}})
        );
        let mut json_merge = manifest;
        apply(&mut json_merge, Some(&Patch { strategic: false, value: value.clone() }));
        assert_eq!(json_merge["spec"]["containers"], value["spec"]["containers"]);
    }
}
