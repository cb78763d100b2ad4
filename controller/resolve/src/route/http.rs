//! HTTPRoute's rules.

use std::borrow::Cow;

use portolan_model::ir::RequestMatch;
use portolan_model::objects::{HttpMatch, HttpRoute, HttpRule};

use super::rule::Rule;
use super::{Finding, matches};

pub(super) fn rules(route: &HttpRoute) -> impl Iterator<Item = Rule<'_>> {
    route.rules.iter().enumerate().map(|(index, rule)| Rule {
        index,
        name: rule.name.clone(),
        matches: all_matches(index, rule),
        filters: Cow::Borrowed(&rule.filters),
        backends: Cow::Borrowed(&rule.backends),
        timeouts: rule.timeouts,
        without_effect: without_effect(rule),
    })
}

fn without_effect(rule: &HttpRule) -> Vec<&'static str> {
    let mut fields = Vec::new();
    if rule.retry.is_some() {
        fields.push("retry");
    }
    if rule.session_persistence.is_some() {
        fields.push("sessionPersistence");
    }
    fields
}

fn all_matches(rule: usize, spec: &HttpRule) -> Result<Vec<RequestMatch>, Finding> {
    spec.matches
        .iter()
        .enumerate()
        .map(|(index, request)| one(&format!("spec.rules[{rule}].matches[{index}]"), request))
        .collect()
}

fn one(field: &str, request: &HttpMatch) -> Result<RequestMatch, Finding> {
    Ok(RequestMatch {
        path: matches::path(&format!("{field}.path"), &request.path)?,
        method: request
            .method
            .as_ref()
            .map(|method| matches::method(&format!("{field}.method"), method))
            .transpose()?,
        headers: matches::headers(&format!("{field}.headers"), &request.headers)?,
        query: matches::query(&format!("{field}.queryParams"), &request.query)?,
        grpc: false,
    })
}
