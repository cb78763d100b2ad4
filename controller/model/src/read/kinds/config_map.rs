//! ConfigMap.

use std::sync::Arc;

use super::super::schema::{Fields, Text};
use super::secret::base64;
use crate::objects::{ConfigMap, Meta};

pub(super) fn read(fields: &mut Fields<'_>, meta: Meta) -> ConfigMap {
    let mut data = fields.map("binaryData", usize::MAX, base64);
    for (key, text) in fields.text_map("data", usize::MAX, &Text::ANY) {
        if data.insert(key.clone(), Arc::from(text.as_bytes())).is_some() {
            fields.refuse("binaryData", format!("`{key}` is also in data; remove one"));
        }
    }
    ConfigMap { meta, data }
}
