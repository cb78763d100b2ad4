//! The JSON schema of what a reader reads, noted by letting it read nothing: "to ask is to know" holds for schemas too. So the CRDs of
//! Portolan's own kinds and their readers cannot differ.

use std::ops::RangeInclusive;

use serde_json::{Map, Value as Json, json};

use super::super::document::Node;
use super::{NOTHING, Reader, Shape, Step};

const PRESERVE: &str = "x-kubernetes-preserve-unknown-fields";

/// Schemas in the making, the innermost last.
pub(super) struct Sketch {
    open: Vec<Map<String, Json>>,
}

impl Sketch {
    fn set(&mut self, key: &str, value: Json) {
        if let Some(schema) = self.open.last_mut() {
            schema.insert(key.to_owned(), value);
        }
    }

    /// The schema under `key`, such as `properties`.
    fn below(&mut self, key: &str, name: &str, schema: Map<String, Json>) {
        let Some(outer) = self.open.last_mut() else { return };
        let all = outer.entry(key).or_insert_with(|| json!({}));
        if let Some(all) = all.as_object_mut() {
            all.insert(name.to_owned(), Json::Object(schema));
        }
    }

    pub fn object(&mut self, closed: bool) {
        self.set("type", json!("object"));
        if !closed {
            self.set(PRESERVE, json!(true));
        }
    }

    pub fn text(&mut self, min: usize, max: usize, pattern: Option<&str>) {
        self.set("type", json!("string"));
        if min > 0 {
            self.set("minLength", json!(min));
        }
        if max < usize::MAX {
            self.set("maxLength", json!(max));
        }
        if let Some(pattern) = pattern {
            self.set("pattern", json!(pattern));
        }
    }

    pub fn choice(&mut self, values: &[&str]) {
        self.set("type", json!("string"));
        self.set("enum", json!(values));
    }

    pub fn boolean(&mut self) {
        self.set("type", json!("boolean"));
    }

    pub fn integer(&mut self, range: &RangeInclusive<i64>) {
        self.set("type", json!("integer"));
        self.set("minimum", json!(range.start()));
        if *range.end() < i64::MAX {
            self.set("maximum", json!(range.end()));
        }
    }

    pub fn sizes(&mut self, sizes: &RangeInclusive<usize>) {
        if *sizes.start() > 0 {
            self.set("minItems", json!(sizes.start()));
        }
        if *sizes.end() < usize::MAX {
            self.set("maxItems", json!(sizes.end()));
        }
    }

    pub fn int_or_string(&mut self) {
        self.set("x-kubernetes-int-or-string", json!(true));
    }

    pub fn raw(&mut self, shape: Shape) {
        let schema = match shape {
            Shape::Object => json!({"type": "object", PRESERVE: true}),
            Shape::List => json!({"type": "array", "items": {"type": "object", PRESERVE: true}}),
            Shape::Text => json!({"type": "string"}),
            Shape::Texts => json!({"type": "array", "items": {"type": "string"}}),
            Shape::Boolean => json!({"type": "boolean"}),
        };
        for (key, value) in schema.as_object().into_iter().flatten() {
            self.set(key, value.clone());
        }
    }
}

impl Reader {
    /// A reader that reads nothing and notes what it would read.
    pub fn sketching() -> Self {
        let mut reader = Self::new(&"".into());
        reader.muted = 1;
        reader.sketch = Some(Sketch { open: vec![Map::new()] });
        reader
    }

    /// What was noted.
    pub fn sketch(mut self) -> Json {
        Json::Object(self.close())
    }

    fn open(&mut self) {
        if let Some(sketch) = &mut self.sketch {
            sketch.open.push(Map::new());
        }
    }

    fn close(&mut self) -> Map<String, Json> {
        self.sketch.as_mut().and_then(|sketch| sketch.open.pop()).unwrap_or_default()
    }

    pub(super) fn sketch_field<T>(
        &mut self,
        name: &'static str,
        required: bool,
        read: impl FnOnce(&mut Self, &Node) -> T,
    ) -> T {
        self.open();
        let value = self.at_step(Step::Field(name), |reader| read(reader, &NOTHING));
        let schema = self.close();
        if let Some(sketch) = &mut self.sketch {
            sketch.below("properties", name, schema);
            if required && let Some(outer) = sketch.open.last_mut() {
                let names = outer.entry("required").or_insert_with(|| json!([]));
                if let Some(names) = names.as_array_mut() {
                    names.push(json!(name));
                }
            }
        }
        value
    }

    pub(super) fn sketch_items<T>(&mut self, read: impl FnOnce(&mut Self) -> T) -> T {
        self.open();
        let value = read(self);
        let items = self.close();
        if let Some(sketch) = &mut self.sketch {
            sketch.set("type", json!("array"));
            sketch.set("items", Json::Object(items));
        }
        value
    }

    pub(super) fn sketch_values<T>(&mut self, read: impl FnOnce(&mut Self) -> T) -> T {
        self.open();
        let value = read(self);
        let values = self.close();
        if let Some(sketch) = &mut self.sketch {
            sketch.set("type", json!("object"));
            sketch.set("additionalProperties", Json::Object(values));
        }
        value
    }

    /// Whatever is there will do.
    pub(super) fn sketch_anything(&mut self) {
        if let Some(sketch) = &mut self.sketch {
            sketch.set(PRESERVE, json!(true));
        }
    }
}
