//! What a route matches (HTTPRouteMatch, GRPCRouteMatch).

use portolan_model::ir::{PathSpec, RequestMatch};
use portolan_model::objects::{ValueMatch, ValueMatcher};
use portolan_proto::envoy::matcher::{RegexMatcher, StringMatcher, string_matcher::MatchPattern};
use portolan_proto::envoy::route::header_matcher::HeaderMatchSpecifier;
use portolan_proto::envoy::route::query_parameter_matcher::QueryParameterMatchSpecifier;
use portolan_proto::envoy::route::route_match::{GrpcRouteMatchOptions, PathSpecifier};
use portolan_proto::envoy::route::{HeaderMatcher, QueryParameterMatcher, RouteMatch};

use super::rewrite::quote;

pub fn request_match(plan: &RequestMatch) -> RouteMatch {
    let method = plan.method.iter().map(|method| header(":method", exact(method)));
    let headers = plan.headers.iter().map(|condition| header(&condition.name, matcher(condition)));
    let query = plan.query.iter().map(|condition| QueryParameterMatcher {
        name: condition.name.to_string(),
        query_parameter_match_specifier: Some(QueryParameterMatchSpecifier::StringMatch(matcher(condition))),
    });
    RouteMatch {
        path_specifier: Some(path(&plan.path)),
        headers: method.chain(headers).collect(),
        query_parameters: query.collect(),
        grpc: plan.grpc.then_some(GrpcRouteMatchOptions {}),
        ..Default::default()
    }
}

/// Whether the match asks for a method other than that of CORS preflight requests.
pub fn excludes_preflight(plan: &RequestMatch) -> bool {
    plan.method.as_deref().is_some_and(|method| method != "OPTIONS")
}

/// The preflight requests for what `plan` matches. They carry the method in a header and none of the others.
pub fn preflight(plan: &RequestMatch) -> RouteMatch {
    let mut preflight =
        request_match(&RequestMatch { method: Some("OPTIONS".into()), headers: Vec::new(), ..plan.clone() });
    let asked = plan.method.iter().map(|method| header("access-control-request-method", exact(method)));
    let origin = HeaderMatcher {
        name: "origin".into(),
        header_match_specifier: Some(HeaderMatchSpecifier::PresentMatch(true)),
        ..Default::default()
    };
    preflight.headers.extend(asked.chain([origin]));
    preflight
}

/// Envoy's prefix matches by bytes; `path_separated_prefix` matches by segments, but admits neither a trailing slash nor `?` and
/// `#` (which a path never contains).
fn path(plan: &PathSpec) -> PathSpecifier {
    match plan {
        PathSpec::Exact(path) => PathSpecifier::Path(path.to_string()),
        PathSpec::SegmentPrefix(prefix) if prefix.is_empty() => PathSpecifier::Prefix("/".into()),
        PathSpec::SegmentPrefix(prefix) if !separable(prefix) => {
            PathSpecifier::SafeRegex(RegexMatcher { regex: format!("{}(/.*)?", quote(prefix)), ..Default::default() })
        }
        PathSpec::SegmentPrefix(prefix) => PathSpecifier::PathSeparatedPrefix(prefix.to_string()),
        PathSpec::RawPrefix(prefix) => PathSpecifier::Prefix(prefix.to_string()),
        PathSpec::Regex(regex) => PathSpecifier::SafeRegex(expression(regex)),
    }
}

/// The pattern that Envoy demands of a `path_separated_prefix`: `^[^?#]+[^?#/]$`.
fn separable(prefix: &str) -> bool {
    prefix.chars().count() > 1 && !prefix.contains(['?', '#']) && !prefix.ends_with('/')
}

fn header(name: &str, matcher: StringMatcher) -> HeaderMatcher {
    HeaderMatcher {
        name: name.into(),
        header_match_specifier: Some(HeaderMatchSpecifier::StringMatch(matcher)),
        ..Default::default()
    }
}

fn matcher(condition: &ValueMatch) -> StringMatcher {
    match &condition.value {
        ValueMatcher::Exact(value) => exact(value),
        ValueMatcher::Regex(regex) => pattern(regex),
        // Resolution drops the match. Were one to get here, it would hold for no value: the class is empty.
        ValueMatcher::Unknown(..) => pattern(r"[^\s\S]"),
    }
}

pub fn exact(value: &str) -> StringMatcher {
    StringMatcher { match_pattern: Some(MatchPattern::Exact(value.into())), ..Default::default() }
}

pub fn pattern(regex: &str) -> StringMatcher {
    StringMatcher { match_pattern: Some(MatchPattern::SafeRegex(expression(regex))), ..Default::default() }
}

/// Envoy refuses the empty expression, which RE2 has.
fn expression(regex: &str) -> RegexMatcher {
    RegexMatcher { regex: if regex.is_empty() { "()".into() } else { regex.into() }, ..Default::default() }
}
