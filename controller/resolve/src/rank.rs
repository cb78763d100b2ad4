//! Precedence of a match within a hostname.
//!
//! HTTPRouteRule.matches: an exact path, the longest prefix, a method, most headers, most query parameters, then the oldest route,
//! then `namespace/name`, then the order in the route. Where regular expressions stand is left to implementations: here after exact
//! paths and before prefixes, the longer first, so that a catch-all prefix does not hide them.
//!
//! GRPCRouteRule.matches: most characters in the service, then in the method, then most headers.

use std::cmp::Reverse;

use portolan_model::ir::{PathSpec, Rank, RequestMatch};
use portolan_model::objects::Meta;
use portolan_model::{Kind, ObjectKey};

/// More than the longest method name of a GRPCRoute (1,024), so that service and method fit one number.
const METHOD_RANGE: usize = 4096;

/// Any service of a gRPC path, as resolution writes it.
pub(crate) const ANY_SERVICE: &str = "/[^/]+/";
/// Any method of a gRPC path.
pub(crate) const ANY_METHOD: &str = "/[^/]+";

pub(crate) fn of(route: &ObjectKey, meta: &Meta, rule: usize, matched: usize, request: &RequestMatch) -> Rank {
    let (path_kind, length) = if route.kind == Kind::GRPCRoute { grpc(&request.path) } else { http(&request.path) };
    Rank {
        path_kind,
        path_length: Reverse(length),
        method: u8::from(request.method.is_none()),
        headers: Reverse(request.headers.len()),
        query: Reverse(request.query.len()),
        route: meta.clone(),
        kind: route.kind,
        rule,
        matched,
    }
}

fn http(path: &PathSpec) -> (u8, usize) {
    match path {
        PathSpec::Exact(path) => (0, path.len()),
        PathSpec::Regex(path) => (1, path.len()),
        PathSpec::SegmentPrefix(path) | PathSpec::RawPrefix(path) => (2, path.len()),
    }
}

/// The kinds here: both names exact; a service; the rest.
fn grpc(path: &PathSpec) -> (u8, usize) {
    let both = |service: usize, method: usize| service * METHOD_RANGE + method;
    match path {
        PathSpec::Exact(path) => {
            let (service, method) = path.trim_start_matches('/').split_once('/').unwrap_or((path, ""));
            (0, both(service.len(), method.len()))
        }
        PathSpec::RawPrefix(path) => (1, both(path.trim_matches('/').len(), 0)),
        PathSpec::Regex(path) => match (path.strip_prefix(ANY_SERVICE), path.strip_suffix(ANY_METHOD)) {
            (Some(method), _) => (2, method.len()),
            (None, Some(service)) => (1, both(service.len(), 0)),
            (None, None) => (1, both(path.len(), 0)),
        },
        PathSpec::SegmentPrefix(path) => (2, path.len()),
    }
}
