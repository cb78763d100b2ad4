//! Conditions on headers and query parameters, and changes to headers.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::super::document::Node;
use super::super::schema::{Choice, Fields, Reader, Text};
use super::forms::{HEADER_NAME, HEADER_VALUE_PATTERN};
use crate::Name;
use crate::objects::{HeaderModifier, ValueMatch, ValueMatcher};

static MATCH_TYPE: Choice = Choice::of(&["Exact", "RegularExpression"]);
/// Of a condition on a GRPCRoute's header
pub(super) static GRPC_HEADER_VALUE: Text = Text::sized(1, 4096);
/// Of a condition on an HTTPRoute's header and of a header that is set
pub(super) static HEADER_VALUE: Text = Text::formed_in_experimental(1, 4096, &HEADER_VALUE_PATTERN);
static QUERY_VALUE: Text = Text::sized(1, 1024);

/// Conditions on headers. "If multiple entries specify equivalent header names, only the first entry with an equivalent name MUST be
/// considered for a match" (HTTPHeaderMatch.name).
pub(super) fn header_matches(fields: &mut Fields<'_>, value: &Text) -> Vec<ValueMatch> {
    let matches = value_matches(fields, "headers", value);
    first_of_each(fields, "headers", matches, |entry| entry.name.to_ascii_lowercase())
}

/// Conditions on query parameters: the same with exact names (HTTPQueryParamMatch.name).
pub(super) fn query_matches(fields: &mut Fields<'_>) -> Vec<ValueMatch> {
    let matches = value_matches(fields, "queryParams", &QUERY_VALUE);
    first_of_each(fields, "queryParams", matches, |entry| entry.name.to_string())
}

fn value_matches(fields: &mut Fields<'_>, name: &'static str, value: &Text) -> Vec<ValueMatch> {
    let matches = fields.list(name, 0..=16, |reader, node| {
        reader.object(node, |fields| {
            let kind = fields.choice("type", &MATCH_TYPE);
            ValueMatch {
                name: fields.required_text("name", &HEADER_NAME),
                value: value_matcher(kind, fields.required_text("value", value)),
            }
        })
    });
    fields.distinct(name, Some("name"));
    matches
}

/// The meaning of `type` beside a value: Exact by default.
pub(super) fn value_matcher(kind: Option<Name>, value: Name) -> ValueMatcher {
    match kind {
        None => ValueMatcher::Exact(value),
        Some(kind) if &*kind == "Exact" => ValueMatcher::Exact(value),
        Some(kind) if &*kind == "RegularExpression" => ValueMatcher::Regex(value),
        Some(kind) => ValueMatcher::Unknown(kind, value),
    }
}

/// The filters RequestHeaderModifier and ResponseHeaderModifier.
pub(super) fn modifier(reader: &mut Reader, node: &Node) -> HeaderModifier {
    reader.object(node, |fields| {
        let set = values(fields, "set");
        let add = values(fields, "add");
        let remove = fields.texts("remove", 0..=16, &Text::ANY);
        fields.distinct("remove", None);
        HeaderModifier { set, add, remove }
    })
}

fn values(fields: &mut Fields<'_>, name: &'static str) -> Vec<(Name, Name)> {
    let values = fields.list(name, 0..=16, |reader, node| {
        reader.object(node, |fields| {
            (fields.required_text("name", &HEADER_NAME), fields.required_text("value", &HEADER_VALUE))
        })
    });
    fields.distinct(name, Some("name"));
    first_of_each(fields, name, values, |(name, _)| name.to_ascii_lowercase())
}

fn first_of_each<T>(fields: &mut Fields<'_>, field: &str, items: Vec<T>, key: impl Fn(&T) -> String) -> Vec<T> {
    let mut seen = BTreeSet::new();
    let mut first = Vec::with_capacity(items.len());
    for (index, item) in items.into_iter().enumerate() {
        let key: Arc<str> = Arc::from(key(&item));
        if seen.insert(key.clone()) {
            first.push(item);
        } else {
            fields.warn(&format!("{field}[{index}]"), format!("`{key}` was given before: only the first entry counts"));
        }
    }
    first
}
