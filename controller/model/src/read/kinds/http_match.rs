//! Matches of an HTTPRoute's rule.

use std::sync::Arc;

use super::super::document::Node;
use super::super::schema::{Choice, Reader, Text};
use super::forms::PATH_PATTERN;
use super::headers::{HEADER_VALUE, header_matches, query_matches};
use crate::objects::{HttpMatch, PathMatch};

static PATH_TYPE: Choice = Choice::of(&["Exact", "PathPrefix", "RegularExpression"]);
static PATH_VALUE: Text = Text::sized(0, 1024);
static METHOD: Choice = Choice::of(&["GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH"]);

/// "If no matches are specified, the default is a prefix path match on "/", which has the effect of matching every HTTP request."
pub(super) fn everything() -> HttpMatch {
    HttpMatch { path: PathMatch::Prefix(Arc::from("/")), headers: Vec::new(), query: Vec::new(), method: None }
}

pub(super) fn read(reader: &mut Reader, node: &Node) -> HttpMatch {
    reader.object(node, |fields| HttpMatch {
        path: fields.optional("path", path).unwrap_or_else(|| PathMatch::Prefix(Arc::from("/"))),
        headers: header_matches(fields, &HEADER_VALUE),
        query: query_matches(fields),
        method: fields.choice("method", &METHOD),
    })
}

fn path(reader: &mut Reader, node: &Node) -> PathMatch {
    reader.object(node, |fields| {
        let kind = fields.choice("type", &PATH_TYPE);
        let value = fields.text("value", &PATH_VALUE).unwrap_or_else(|| Arc::from("/"));
        let kind = kind.as_deref().unwrap_or("PathPrefix");
        if matches!(kind, "Exact" | "PathPrefix")
            && let Some(message) = path_error(&value)
        {
            fields.refuse("value", message);
        }
        match kind {
            "Exact" => PathMatch::Exact(value),
            "PathPrefix" => PathMatch::Prefix(value),
            "RegularExpression" => PathMatch::Regex(value),
            other => PathMatch::Unknown(Arc::from(other), value),
        }
    })
}

/// What the CRD's rules ask of an exact path and of a prefix: a path in the form to which proxies normalise it.
fn path_error(path: &str) -> Option<String> {
    if !path.starts_with('/') {
        return Some(format!("`{path}` must start with `/`"));
    }
    if let Some(part) = ["//", "/./", "/../", "%2f", "%2F", "#"].into_iter().find(|part| path.contains(part)) {
        return Some(format!("`{path}` must not contain `{part}`"));
    }
    if let Some(end) = ["/..", "/."].into_iter().find(|end| path.ends_with(end)) {
        return Some(format!("`{path}` must not end with `{end}`"));
    }
    (!PATH_PATTERN.is_match(path)).then(|| format!("`{path}` is not {}", PATH_PATTERN.means))
}
