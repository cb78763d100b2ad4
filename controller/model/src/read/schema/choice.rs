//! Strings of which the API names every value.

use std::sync::Arc;

use super::super::document::Node;
use super::{Channel, Reader, similar};
use crate::Name;

/// The values of an enum. Another value is an error and is kept as written: a newer API may define it.
pub(in crate::read) struct Choice {
    pub values: &'static [&'static str],
    /// Values that only the experimental channel has
    pub experimental: &'static [&'static str],
}

impl Choice {
    pub const fn of(values: &'static [&'static str]) -> Self {
        Self { values, experimental: &[] }
    }

    pub fn read(&self, reader: &mut Reader, node: &Node) -> Name {
        if let Some(sketch) = &mut reader.sketch {
            sketch.choice(self.values);
            return Arc::from("");
        }
        let Some(text) = node.as_text() else {
            reader.mistyped(node, "a string");
            return Arc::from("");
        };
        if self.experimental.contains(&&**text) {
            reader.refuse_in(
                Channel::Standard,
                node.at,
                "",
                format!("`{text}` is a value of the experimental channel"),
            );
        } else if !self.values.contains(&&**text) {
            let all = || self.values.iter().chain(self.experimental).copied();
            let hint = similar(text, all());
            let hint = hint.map_or_else(String::new, |known| format!("; did you mean `{known}`?"));
            let all = all().collect::<Vec<_>>().join(", ");
            reader.refuse(node.at, "", format!("unknown value `{text}`, must be one of {all}{hint}"));
        }
        text.clone()
    }
}
