//! Which namespaces may attach something, by label.

use std::sync::Arc;

use super::super::document::Node;
use super::super::schema::{Choice, Fields, Reader, Text};
use crate::objects::{FromNamespaces, LabelSelector, LabelSelectorRequirement, SelectorOperator};

/// `namespaces`: `from` and the selector that goes with it.
pub(super) fn from_namespaces(fields: &mut Fields<'_>, values: &Choice, default: FromNamespaces) -> FromNamespaces {
    let from = fields.choice("from", values);
    let selector = fields.optional("selector", selector);
    match from.as_deref() {
        None => default,
        Some("All") => FromNamespaces::All,
        Some("Same") => FromNamespaces::Same,
        Some("None") => FromNamespaces::None,
        Some("Selector") => match selector {
            Some(selector) => FromNamespaces::Selector(selector),
            None => {
                fields.warn("from", "Selector without a selector selects no namespace; add `selector`");
                FromNamespaces::None
            }
        },
        Some(other) => FromNamespaces::Unknown(Arc::from(other)),
    }
}

fn selector(reader: &mut Reader, node: &Node) -> LabelSelector {
    reader.object(node, |fields| LabelSelector {
        match_labels: fields.text_map("matchLabels", usize::MAX, &Text::ANY),
        match_expressions: fields.list("matchExpressions", 0..=usize::MAX, requirement),
    })
}

fn requirement(reader: &mut Reader, node: &Node) -> LabelSelectorRequirement {
    reader.object(node, |fields| {
        let operator = match &*fields.required_text("operator", &Text::ANY) {
            "In" => SelectorOperator::In,
            "NotIn" => SelectorOperator::NotIn,
            "Exists" => SelectorOperator::Exists,
            "DoesNotExist" => SelectorOperator::DoesNotExist,
            // The CRDs do not say which operators there are.
            other => {
                fields.warn("operator", format!("unknown operator `{other}`: the selector selects no namespace"));
                SelectorOperator::Unknown(Arc::from(other))
            }
        };
        LabelSelectorRequirement {
            key: fields.required_text("key", &Text::ANY),
            operator,
            values: fields.texts("values", 0..=usize::MAX, &Text::ANY),
        }
    })
}
