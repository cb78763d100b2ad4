//! Whether a request satisfies a match, decided as Envoy does.

use portolan_model::ir::{PathSpec, PlannedRoute, RequestMatch};
use portolan_model::objects::{ValueMatch, ValueMatcher};

use super::Request;
use crate::re2;

/// How a match takes a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Taken {
    AsWritten,
    /// As the CORS preflight request for it: its rule has a CORS filter and it asks for another method
    Preflight,
}

/// Whether the route takes the request with this path.
pub(super) fn taken(route: &PlannedRoute, request: &Request, target: &str) -> Option<Taken> {
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let wanted = &route.request;
    if !is_path(&wanted.path, path) || !wanted.query.iter().all(|condition| is_query(condition, query)) {
        return None;
    }
    if let Some(method) = wanted.method.as_deref().filter(|method| *method != "OPTIONS")
        && route.rule.filters.cors.is_some()
        && is_preflight(request)
        && header(request, "access-control-request-method").contains(&method)
    {
        return Some(Taken::Preflight);
    }
    holds(wanted, request).then_some(Taken::AsWritten)
}

fn holds(wanted: &RequestMatch, request: &Request) -> bool {
    wanted.method.as_ref().is_none_or(|method| **method == *request.method)
        && wanted.headers.iter().all(|condition| {
            header(request, &condition.name).iter().any(|value| is_value(&condition.value, value.as_bytes()))
        })
        && (!wanted.grpc || is_grpc(request))
}

fn is_path(wanted: &PathSpec, path: &str) -> bool {
    match wanted {
        PathSpec::Exact(exact) => path == &**exact,
        PathSpec::SegmentPrefix(prefix) => {
            let rest = path.strip_prefix(&**prefix);
            rest.is_some_and(|rest| rest.starts_with('/') || (rest.is_empty() && !prefix.is_empty()))
        }
        PathSpec::RawPrefix(prefix) => path.starts_with(&**prefix),
        PathSpec::Regex(regex) => re2::matches(regex, path.as_bytes()),
    }
}

fn is_value(wanted: &ValueMatcher, value: &[u8]) -> bool {
    match wanted {
        ValueMatcher::Exact(exact) => exact.as_bytes() == value,
        ValueMatcher::Regex(regex) => re2::matches(regex, value),
        ValueMatcher::Unknown(..) => false,
    }
}

/// Envoy compares the first parameter of the name, as it is written.
fn is_query(condition: &ValueMatch, query: &str) -> bool {
    let mut parameters = query.split('&').map(|parameter| parameter.split_once('=').unwrap_or((parameter, "")));
    let found = parameters.find(|(name, _)| *name == &*condition.name);
    found.is_some_and(|(_, value)| is_value(&condition.value, value.as_bytes()))
}

/// The values of a header, one per line of the request: Envoy compares each on its own (measured on 1.40), it does not join them.
/// `x-forwarded-proto` is what Envoy sets, whatever the client says.
fn header<'a>(request: &'a Request, name: &str) -> Vec<&'a str> {
    match name {
        "host" => vec![&request.authority],
        "x-forwarded-proto" => vec![if request.tls { "https" } else { "http" }],
        _ => {
            let named = request.headers.iter().filter(|(header, _)| header.eq_ignore_ascii_case(name));
            named.map(|(_, value)| value.trim()).collect()
        }
    }
}

/// Whether the request is one of gRPC, by its content type.
pub(super) fn is_grpc(request: &Request) -> bool {
    let content_type = header(request, "content-type");
    let rest = content_type.first().and_then(|value| value.strip_prefix("application/grpc"));
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['+', ';']))
}

/// Whether the request is a CORS preflight request.
pub(super) fn is_preflight(request: &Request) -> bool {
    let given = |name| header(request, name).first().is_some_and(|value| !value.is_empty());
    request.method == "OPTIONS" && given("origin") && given("access-control-request-method")
}
