//! `infrastructure` of a Gateway.

use std::collections::BTreeMap;

use super::super::document::Node;
use super::super::schema::{Fields, Pattern, Reader, Text};
use super::forms::LONG_VALUE;
use super::references::local;
use crate::Name;
use crate::objects::{Infrastructure, ParametersRef};

pub(super) static KEY: Pattern = Pattern::new(
    r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?([A-Za-z0-9][-A-Za-z0-9_.]{0,61})?[A-Za-z0-9]$",
    "a key: a name of up to 63 characters, which may have a DNS name and a slash before it",
);
pub(super) static LABEL_VALUE: Pattern = Pattern::new(
    r"^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$",
    "a label's value: letters, digits, `-`, `_` and `.`, the last three not at the ends",
);
static LABEL: Text = Text::formed(0, 63, &LABEL_VALUE);

pub(super) fn read(reader: &mut Reader, node: &Node) -> Infrastructure {
    reader.object(node, |fields| {
        let labels = fields.text_map("labels", 8, &LABEL);
        check_keys(fields, "labels", &labels);
        let annotations = fields.text_map("annotations", 16, &LONG_VALUE);
        check_keys(fields, "annotations", &annotations);
        let parameters = fields.optional("parametersRef", local);
        Infrastructure {
            labels,
            annotations,
            parameters_ref: parameters.map(|to| ParametersRef {
                group: to.group,
                kind: to.kind,
                namespace: None,
                name: to.name,
            }),
        }
    })
}

fn check_keys(fields: &mut Fields<'_>, name: &str, map: &BTreeMap<Name, Name>) {
    for key in map.keys() {
        if !KEY.is_match(key) {
            fields.refuse(name, format!("`{key}` is not {}", KEY.means));
        } else if key.split('/').next().is_some_and(|prefix| prefix.chars().count() >= 253) {
            fields.refuse(name, format!("the part of `{key}` before the slash must have at most 252 characters"));
        }
    }
}
