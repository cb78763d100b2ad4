//! Objects as they were written, for those who show them.

use serde_json::{Map, Number, Value as Json, json};

use super::defaults;
use super::document::{Node, Value};
use super::kinds::metadata::LAST_APPLIED;
use crate::Kind;

/// What stands for the values of a Secret.
pub const REDACTED: &str = "[redacted]";

/// An object of the kind as an API server would give it back: with defaults, without a status that was written along, and here without
/// what a Secret holds.
pub(super) fn object(kind: Kind, document: &Node) -> Json {
    let mut object = json(document);
    defaults::fill_in(kind, &mut object);
    let Some(fields) = object.as_object_mut() else { return object };
    fields.shift_remove("status");
    if let Some(Json::Object(metadata)) = fields.get_mut("metadata") {
        // kubectl's copy of the object, a Secret's values included
        if let Some(Json::Object(annotations)) = metadata.get_mut("annotations") {
            annotations.shift_remove(LAST_APPLIED);
        }
    }
    if kind == Kind::Secret {
        redact(fields);
    }
    object
}

/// An API server folds `stringData` into `data`.
fn redact(secret: &mut Map<String, Json>) {
    let mut data = Map::new();
    for field in ["data", "stringData"] {
        if let Some(Json::Object(values)) = secret.shift_remove(field) {
            data.extend(values.into_iter().map(|(name, _)| (name, json!(REDACTED))));
        }
    }
    if !data.is_empty() {
        secret.insert("data".into(), Json::Object(data));
    }
}

/// To an API server a null field is an absent one.
pub(super) fn json(node: &Node) -> Json {
    match &node.value {
        Value::Null => Json::Null,
        Value::Bool(value) => Json::Bool(*value),
        Value::Integer(value) => Json::from(*value),
        Value::Float(value) => Number::from_f64(*value).map_or(Json::Null, Json::Number),
        Value::Text(text) => Json::from(&**text),
        Value::List(items) => Json::Array(items.iter().map(json).collect()),
        Value::Map(entries) => {
            let given = entries.iter().filter(|entry| !matches!(entry.value.value, Value::Null));
            Json::Object(given.map(|entry| (entry.key.to_string(), json(&entry.value))).collect())
        }
    }
}
