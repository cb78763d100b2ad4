//! Conditions on requests, checked and in the form that both kinds of routes share.

use std::collections::BTreeSet;

use portolan_model::ir::PathSpec;
use portolan_model::objects::{GrpcMethodMatch, PathMatch, ValueMatch, ValueMatcher};
use portolan_model::{Name, Reason};

use super::Finding;
use crate::rank::{ANY_METHOD, ANY_SERVICE};
use crate::{headers as header, re2};

/// The methods of HTTPMethod.
const METHODS: [&str; 9] = ["GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH"];

fn invalid(field: &str, problem: &str) -> Finding {
    Finding::new(Reason::UnsupportedValue, format!("{field} {problem}"))
}

fn unknown_type(field: &str, kind: &str) -> Finding {
    invalid(field, &format!("has the type {kind}, which is not supported"))
}

fn regex(field: &str, expression: &Name) -> Result<Name, Finding> {
    if expression.is_empty() {
        return Err(invalid(field, "is an empty regular expression"));
    }
    match re2::check(expression) {
        Ok(()) => Ok(expression.clone()),
        Err(error) => Err(invalid(field, &format!("is not a regular expression of RE2: {error}"))),
    }
}

/// A prefix is matched by path elements, and "a trailing `/` is ignored" (PathMatchType).
pub(super) fn path(field: &str, path: &PathMatch) -> Result<PathSpec, Finding> {
    let absolute = |path: &Name| {
        let problem = if !path.starts_with('/') {
            "does not begin with /"
        } else if path.contains(['?', '#']) {
            "holds a query or fragment"
        } else if path.bytes().any(|byte| byte <= b' ' || byte == 0x7f) {
            "holds a space or control character"
        } else {
            return Ok(());
        };
        Err(invalid(field, problem))
    };
    match path {
        PathMatch::Exact(path) => absolute(path).map(|()| PathSpec::Exact(path.clone())),
        PathMatch::Prefix(path) => absolute(path).map(|()| PathSpec::SegmentPrefix(path.trim_end_matches('/').into())),
        PathMatch::Regex(path) => regex(field, path).map(PathSpec::Regex),
        PathMatch::Unknown(kind, _) => Err(unknown_type(field, kind)),
    }
}

pub(super) fn method(field: &str, method: &Name) -> Result<Name, Finding> {
    if METHODS.contains(&&**method) {
        Ok(method.clone())
    } else {
        Err(invalid(field, &format!("has the value {method}, which is not supported")))
    }
}

/// "If multiple entries specify equivalent header names, only the first entry with an equivalent name MUST be considered for a match"
/// (HTTPHeaderMatch.name).
pub(super) fn headers(field: &str, headers: &[ValueMatch]) -> Result<Vec<ValueMatch>, Finding> {
    let lower = headers
        .iter()
        .map(|header| ValueMatch { name: header.name.to_ascii_lowercase().into(), value: header.value.clone() });
    let checked = values(field, lower)?;
    match checked.iter().find(|value| !header::is_name(&value.name)) {
        Some(bad) => Err(invalid(field, &format!("names {:?}, which is not a header name", bad.name))),
        None => Ok(checked),
    }
}

pub(super) fn query(field: &str, parameters: &[ValueMatch]) -> Result<Vec<ValueMatch>, Finding> {
    values(field, parameters.iter().cloned())
}

fn values(field: &str, all: impl Iterator<Item = ValueMatch>) -> Result<Vec<ValueMatch>, Finding> {
    let mut seen = BTreeSet::new();
    let mut values = Vec::new();
    for value in all {
        if !seen.insert(value.name.clone()) {
            continue;
        }
        match &value.value {
            ValueMatcher::Exact(_) => {}
            ValueMatcher::Regex(expression) => _ = regex(&format!("{field}[{}]", value.name), expression)?,
            ValueMatcher::Unknown(kind, _) => return Err(unknown_type(&format!("{field}[{}]", value.name), kind)),
        }
        values.push(value);
    }
    Ok(values)
}

/// gRPC requests have the path `/service/method`.
pub(super) fn grpc_path(field: &str, method: &GrpcMethodMatch) -> Result<PathSpec, Finding> {
    let name = |value: &Option<ValueMatcher>, part: &str| match value {
        None => Ok(Part::Any),
        Some(ValueMatcher::Exact(name)) if name.is_empty() => Ok(Part::Any),
        Some(ValueMatcher::Exact(name)) if name.bytes().any(|byte| byte <= b' ' || b"/?#\x7f".contains(&byte)) => {
            Err(invalid(&format!("{field}.{part}"), "is not a name"))
        }
        Some(ValueMatcher::Exact(name)) => Ok(Part::Exact(name.clone())),
        Some(ValueMatcher::Regex(expression)) => Ok(Part::Regex(regex(&format!("{field}.{part}"), expression)?)),
        Some(ValueMatcher::Unknown(kind, _)) => Err(unknown_type(field, kind)),
    };
    Ok(match (name(&method.service, "service")?, name(&method.method, "method")?) {
        (Part::Any, Part::Any) => PathSpec::SegmentPrefix("".into()),
        (Part::Exact(service), Part::Exact(method)) => PathSpec::Exact(format!("/{service}/{method}").into()),
        (Part::Exact(service), Part::Any) => PathSpec::RawPrefix(format!("/{service}/").into()),
        (Part::Any, method) => PathSpec::Regex(checked(field, format!("{ANY_SERVICE}{}", method.pattern()))?),
        (service, Part::Any) => PathSpec::Regex(checked(field, format!("/{}{ANY_METHOD}", service.pattern()))?),
        (service, method) => PathSpec::Regex(checked(field, format!("/{}/{}", service.pattern(), method.pattern()))?),
    })
}

/// Two expressions that are valid alone need not be valid together: `\Q` without an end takes what follows for text.
fn checked(field: &str, expression: String) -> Result<Name, Finding> {
    regex(field, &expression.into())
}

enum Part {
    Any,
    Exact(Name),
    Regex(Name),
}

impl Part {
    fn pattern(&self) -> String {
        match self {
            Self::Any => "[^/]+".into(),
            Self::Exact(name) => escape(name),
            Self::Regex(expression) => format!("(?:{expression})"),
        }
    }
}

/// "Escaped punctuation stands for itself" in RE2.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        if character.is_ascii_punctuation() && character != '_' {
            escaped.push('\\');
        }
        escaped.push(character);
    }
    escaped
}
