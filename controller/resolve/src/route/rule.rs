//! A rule of either kind of route.

use std::borrow::Cow;
use std::time::Duration;

use portolan_model::ir::{Forward, PathSpec, RequestMatch, ResolvedRule, RuleAction, RuleFilters};
use portolan_model::objects::{BackendRef, HttpFilter, Timeouts};
use portolan_model::{Name, Reason};

use super::report::Report;
use super::{Context, Finding, backends, filters};

/// A rule as both kinds of routes have it.
pub(super) struct Rule<'a> {
    pub index: usize,
    pub name: Option<Name>,
    /// The first that is invalid, else all
    pub matches: Result<Vec<RequestMatch>, Finding>,
    pub filters: Cow<'a, [HttpFilter]>,
    pub backends: Cow<'a, [BackendRef<HttpFilter>]>,
    pub timeouts: Timeouts,
    /// Fields that are set and do nothing yet
    pub without_effect: Vec<&'static str>,
}

impl Rule<'_> {
    /// Path of the rule in the object.
    pub(super) fn field(&self) -> String {
        format!("spec.rules[{}]", self.index)
    }

    /// Whether every match is by prefix, so that a prefix can be replaced.
    pub(super) fn is_prefix_only(&self) -> bool {
        self.matches
            .as_ref()
            .is_ok_and(|matches| matches.iter().all(|request| matches!(request.path, PathSpec::SegmentPrefix(_))))
    }
}

/// Resolves a rule. One whose matches are invalid is dropped; one whose filters or backends are answers 500 (design invariant 11):
/// "If a reference to a custom filter type cannot be resolved, the filter MUST NOT be skipped. Instead, requests that would have been
/// processed by that filter MUST receive a HTTP error response" (HTTPRouteFilter.type).
pub(super) fn resolve(context: &Context<'_>, rule: &Rule<'_>, report: &mut Report) -> ResolvedRule {
    report.rule();
    for field in &rule.without_effect {
        report.without_effect(format!("{}.{field}", rule.field()));
    }
    let matches = match &rule.matches {
        Ok(matches) => matches.iter().cloned().enumerate().collect(),
        Err(finding) => {
            report.invalid(rule.index, finding.clone());
            Vec::new()
        }
    };
    let backends = backends::resolve(context, rule, report);
    let (action, filters) = match filters::of_rule(context, rule, report) {
        Ok(filters) => act(rule, filters, backends),
        // A rule that is dropped needs no second finding.
        Err(_) if rule.matches.is_err() => (RuleAction::Respond(500), RuleFilters::default()),
        Err(finding) => {
            report.invalid(rule.index, finding);
            (RuleAction::Respond(500), RuleFilters::default())
        }
    };
    ResolvedRule { index: rule.index, name: rule.name.clone(), matches, action, filters }
}

fn act(rule: &Rule<'_>, filters: filters::Filters, backends: backends::Backends) -> (RuleAction, RuleFilters) {
    let action = match filters.redirect {
        Some(redirect) => RuleAction::Redirect(redirect),
        // "If all entries in BackendRefs are invalid … all traffic which matches this rule MUST receive a 500 status code"
        // (HTTPRouteRule.backendRefs); likewise where there are none or all have the weight 0.
        None if !backends.any_valid => RuleAction::Respond(500),
        None => RuleAction::Forward(Forward {
            backends: backends.weighted,
            host_rewrite: filters.host_rewrite,
            path_rewrite: filters.path_rewrite,
            timeout: limit(rule.timeouts.request),
            backend_timeout: limit(rule.timeouts.backend_request),
            mirrors: filters.mirrors,
            websocket: backends.websocket,
        }),
    };
    (action, filters.headers)
}

/// "Setting a timeout to the zero duration SHOULD disable the timeout completely" (HTTPRouteTimeouts).
fn limit(timeout: Option<Duration>) -> Option<Duration> {
    timeout.filter(|timeout| !timeout.is_zero())
}

/// "may not be combined", "is not supported": for combinations that the schema refuses but files may hold.
pub(super) fn incompatible(message: String) -> Finding {
    Finding::new(Reason::IncompatibleFilters, message)
}
