//! How redirects and rewrites change a path, and the filters that do.

use std::sync::Arc;

use super::super::document::{Node, Value};
use super::super::schema::{Choice, Reader, Text};
use super::forms::PRECISE_HOSTNAME;
use crate::objects::{PathModifier, Redirect, UrlRewrite};

static TYPE: Choice = Choice::of(&["ReplaceFullPath", "ReplacePrefixMatch"]);
static PATH: Text = Text::sized(0, 1024);
static SCHEME: Choice = Choice::of(&["http", "https"]);
const STATUS: [i64; 5] = [301, 302, 303, 307, 308];

/// The filter RequestRedirect.
pub(super) fn redirect(reader: &mut Reader, node: &Node) -> Redirect {
    reader.object(node, |fields| Redirect {
        scheme: fields.choice("scheme", &SCHEME),
        hostname: fields.text("hostname", &PRECISE_HOSTNAME),
        path: fields.optional("path", modifier),
        port: fields.port("port"),
        status: fields.optional("statusCode", status).unwrap_or(302),
    })
}

fn status(reader: &mut Reader, node: &Node) -> u16 {
    let code = match node.value {
        Value::Integer(_) | Value::Float(_) => reader.integer(node, i64::MIN..=i64::MAX),
        _ => {
            reader.mistyped(node, "an integer");
            302
        }
    };
    if !STATUS.contains(&code) {
        reader.refuse(node.at, "", format!("unknown value {code}, must be one of 301, 302, 303, 307, 308"));
    }
    u16::try_from(code).unwrap_or_else(|_| {
        reader.incomplete = true;
        302
    })
}

/// The filter URLRewrite.
pub(super) fn rewrite(reader: &mut Reader, node: &Node) -> UrlRewrite {
    reader.object(node, |fields| UrlRewrite {
        hostname: fields.text("hostname", &PRECISE_HOSTNAME),
        path: fields.optional("path", modifier),
    })
}

fn modifier(reader: &mut Reader, node: &Node) -> PathModifier {
    reader.object(node, |fields| {
        let kind = fields.required_choice("type", &TYPE);
        let full = fields.text("replaceFullPath", &PATH);
        let prefix = fields.text("replacePrefixMatch", &PATH);
        for (field, given, its_kind) in
            [("replaceFullPath", &full, "ReplaceFullPath"), ("replacePrefixMatch", &prefix, "ReplacePrefixMatch")]
        {
            match (given, *kind == *its_kind) {
                (None, true) => fields.refuse(field, format!("is required when type is {its_kind}")),
                (Some(_), false) => fields.refuse(field, format!("must not be given unless type is {its_kind}")),
                _ => {}
            }
        }
        match &*kind {
            "ReplaceFullPath" => PathModifier::ReplaceFullPath(full.unwrap_or_default()),
            "ReplacePrefixMatch" => PathModifier::ReplacePrefixMatch(prefix.unwrap_or_default()),
            other => PathModifier::Unknown(Arc::from(other)),
        }
    })
}
