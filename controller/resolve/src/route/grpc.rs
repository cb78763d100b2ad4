//! GRPCRoute's rules.

use portolan_model::ir::{PathSpec, RequestMatch};
use portolan_model::objects::{BackendRef, GrpcFilter, GrpcMatch, GrpcRoute, GrpcRule, HttpFilter, Timeouts};

use super::rule::Rule;
use super::{Finding, matches};

pub(super) fn rules(route: &GrpcRoute) -> impl Iterator<Item = Rule<'_>> {
    route.rules.iter().enumerate().map(|(index, rule)| Rule {
        index,
        name: rule.name.clone(),
        matches: all_matches(index, rule),
        filters: rule.filters.iter().map(http_filter).collect(),
        backends: rule.backends.iter().map(http_backend).collect::<Vec<_>>().into(),
        timeouts: Timeouts::default(),
        without_effect: rule.session_persistence.iter().map(|_| "sessionPersistence").collect(),
    })
}

fn http_filter(filter: &GrpcFilter) -> HttpFilter {
    match filter {
        GrpcFilter::RequestHeaderModifier(modifier) => HttpFilter::RequestHeaderModifier(modifier.clone()),
        GrpcFilter::ResponseHeaderModifier(modifier) => HttpFilter::ResponseHeaderModifier(modifier.clone()),
        GrpcFilter::RequestMirror(mirror) => HttpFilter::RequestMirror(mirror.clone()),
        GrpcFilter::ExtensionRef(reference) => HttpFilter::ExtensionRef(reference.clone()),
        GrpcFilter::Unknown(kind) => HttpFilter::Unknown(kind.clone()),
    }
}

fn http_backend(backend: &BackendRef<GrpcFilter>) -> BackendRef<HttpFilter> {
    BackendRef {
        target: backend.target.clone(),
        port: backend.port,
        weight: backend.weight,
        filters: backend.filters.iter().map(http_filter).collect(),
    }
}

/// "If no matches are specified, the implementation MUST match every gRPC request" (GRPCRouteRule.matches).
fn all_matches(rule: usize, spec: &GrpcRule) -> Result<Vec<RequestMatch>, Finding> {
    let every = [GrpcMatch::default()];
    let all = if spec.matches.is_empty() { every.as_slice() } else { spec.matches.as_slice() };
    all.iter()
        .enumerate()
        .map(|(index, request)| one(&format!("spec.rules[{rule}].matches[{index}]"), request))
        .collect()
}

fn one(field: &str, request: &GrpcMatch) -> Result<RequestMatch, Finding> {
    let path = match &request.method {
        Some(method) => matches::grpc_path(&format!("{field}.method"), method)?,
        None => PathSpec::SegmentPrefix("".into()),
    };
    let headers = matches::headers(&format!("{field}.headers"), &request.headers)?;
    Ok(RequestMatch { path, method: None, headers, query: Vec::new(), grpc: true })
}
