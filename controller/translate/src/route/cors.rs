//! CORS (GEP-1767). Envoy's filter is in every HTTP listener and does nothing for a route without a policy.

use portolan_model::Name;
use portolan_model::objects::Cors;
use portolan_proto::envoy::cors::CorsPolicy;
use portolan_proto::envoy::matcher::StringMatcher;
use portolan_proto::envoy::{Any, BoolValue, pack_any};

use super::matching::{exact, pattern};
use super::rewrite::quote;

pub fn policy(cors: &Cors) -> Any {
    pack_any(CorsPolicy {
        allow_origin_string_match: cors.allow_origins.iter().map(|origin| allowed(origin)).collect(),
        // `*` is answered with what was asked for, as credentialed requests need it.
        allow_methods: list(&cors.allow_methods),
        allow_headers: list(&cors.allow_headers),
        expose_headers: list(&cors.expose_headers),
        max_age: cors.max_age.to_string(),
        allow_credentials: Some(BoolValue { value: cors.allow_credentials }),
        // A preflight request never reaches the backend, whether it may or may not be.
        forward_not_matching_preflights: Some(BoolValue { value: false }),
        ..Default::default()
    })
}

/// `*`, or scheme and host, of which `*` stands for one label or more ("greedy to the left").
fn allowed(origin: &str) -> StringMatcher {
    if !origin.contains('*') {
        return exact(origin);
    }
    let parts: Vec<String> = origin.split('*').map(quote).collect();
    pattern(&parts.join(".+"))
}

fn list(values: &[Name]) -> String {
    values.join(", ")
}
