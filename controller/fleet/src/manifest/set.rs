//! Fields of JSON values, whatever stands there: a patch of the parameters may have put anything in their place.

use serde_json::{Map, Value};

/// Sets the field at a path, and makes the objects on the way.
pub(crate) fn set(target: &mut Value, path: &[&str], value: impl Into<Value>) {
    let Some((first, rest)) = path.split_first() else {
        *target = value.into();
        return;
    };
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    if let Some(fields) = target.as_object_mut() {
        set(fields.entry(*first).or_insert(Value::Null), rest, value);
    }
}
