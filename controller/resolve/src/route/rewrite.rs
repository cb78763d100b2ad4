//! URLRewrite, and the path modifiers that it shares with RequestRedirect.

use portolan_model::ir::PathRewrite;
use portolan_model::objects::{PathModifier, UrlRewrite};
use portolan_model::{Name, Reason};

use super::Finding;

/// Whether a text can stand as the host of a request.
pub(super) fn is_hostname(host: &str) -> bool {
    !host.is_empty() && host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-_:[]".contains(&byte))
}

pub(super) fn host(rewrite: &UrlRewrite, field: &str) -> Result<Option<Name>, Finding> {
    match &rewrite.hostname {
        Some(host) if !is_hostname(host) => {
            let message = format!("{field}.urlRewrite.hostname has the value {host:?}, which is not a hostname");
            Err(Finding::new(Reason::UnsupportedValue, message))
        }
        host => Ok(host.clone()),
    }
}

/// A path always begins with `/`. In a prefix "a trailing `/` is ignored" (HTTPPathModifier.replacePrefixMatch). "Using any other
/// HTTPRouteMatch type on the same HTTPRouteRule will result in the implementation setting the Accepted Condition for the Route to
/// `status: False`".
pub(super) fn path(
    modifier: Option<&PathModifier>,
    field: &str,
    prefix_only: bool,
) -> Result<Option<PathRewrite>, Finding> {
    let refuse = |problem: &str| Err(Finding::new(Reason::UnsupportedValue, format!("{field}: {problem}")));
    let (text, rewrite): (_, fn(Name) -> PathRewrite) = match modifier {
        None => return Ok(None),
        Some(PathModifier::Unknown(kind)) => {
            return refuse(&format!("path.type has the value {kind}, which is not supported"));
        }
        Some(PathModifier::ReplacePrefixMatch(_)) if !prefix_only => {
            return refuse("ReplacePrefixMatch needs matches by PathPrefix alone");
        }
        Some(PathModifier::ReplacePrefixMatch(prefix)) => (prefix.trim_end_matches('/'), PathRewrite::Prefix),
        Some(PathModifier::ReplaceFullPath(path)) => (if path.is_empty() { "/" } else { path }, PathRewrite::Full),
    };
    // It becomes part of a request line, in which a space ends the path (RFC 9112, 3).
    if text.bytes().any(|byte| byte <= b' ' || byte == 0x7f) {
        return refuse("the new path holds a space or control character; write a space as %20");
    }
    let slash = if text.is_empty() || text.starts_with('/') { "" } else { "/" };
    Ok(Some(rewrite(format!("{slash}{text}").into())))
}
