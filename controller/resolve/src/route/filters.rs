//! The filters of a rule or of a backend.

use std::collections::BTreeSet;

use portolan_model::ir::{MirrorPlan, PathRewrite, RedirectPlan, RuleFilters, WeightedTarget};
use portolan_model::objects::{HeaderModifier, HttpFilter};
use portolan_model::{Name, Reason};

use super::report::Report;
use super::rule::{Rule, incompatible};
use super::{Context, Finding, cors, mirror, redirect, rewrite};
use crate::headers::{self, Side};
use crate::refs;

/// The filters of a rule, sorted out.
#[derive(Default)]
pub(super) struct Filters {
    pub headers: RuleFilters,
    pub redirect: Option<RedirectPlan>,
    pub host_rewrite: Option<Name>,
    pub path_rewrite: Option<PathRewrite>,
    pub mirrors: Vec<MirrorPlan>,
}

/// The filters of a backend, sorted out, and where its share goes.
pub(super) struct BackendFilters {
    pub request_headers: HeaderModifier,
    pub response_headers: HeaderModifier,
    pub host_rewrite: Option<Name>,
    pub path_rewrite: Option<PathRewrite>,
    pub target: WeightedTarget,
}

impl Default for BackendFilters {
    fn default() -> Self {
        Self {
            request_headers: HeaderModifier::default(),
            response_headers: HeaderModifier::default(),
            host_rewrite: None,
            path_rewrite: None,
            target: WeightedTarget::Invalid,
        }
    }
}

const fn kind(filter: &HttpFilter) -> &'static str {
    match filter {
        HttpFilter::RequestHeaderModifier(_) => "RequestHeaderModifier",
        HttpFilter::ResponseHeaderModifier(_) => "ResponseHeaderModifier",
        HttpFilter::RequestRedirect(_) => "RequestRedirect",
        HttpFilter::UrlRewrite(_) => "URLRewrite",
        HttpFilter::RequestMirror(_) => "RequestMirror",
        HttpFilter::Cors(_) => "CORS",
        HttpFilter::ExternalAuth(_) => "ExternalAuth",
        HttpFilter::ExtensionRef(_) => "ExtensionRef",
        HttpFilter::Unknown(_) => "unknown",
    }
}

/// The filters of a rule, or the first problem: then the rule answers 500.
pub(super) fn of_rule(context: &Context<'_>, rule: &Rule<'_>, report: &mut Report) -> Result<Filters, Finding> {
    check_repetition(&rule.filters, &rule.field())?;
    let mut filters = Filters::default();
    let mut host_header = None;
    for (index, filter) in rule.filters.iter().enumerate() {
        let field = format!("{}.filters[{index}]", rule.field());
        match filter {
            HttpFilter::RequestHeaderModifier(modifier) => {
                let checked = check_headers(modifier, Side::Request, &field)?;
                filters.headers.request_headers = checked.modifier;
                host_header = checked.host;
            }
            HttpFilter::ResponseHeaderModifier(modifier) => {
                filters.headers.response_headers = check_headers(modifier, Side::Response, &field)?.modifier;
            }
            HttpFilter::RequestRedirect(spec) => {
                filters.redirect = Some(redirect::plan(spec, &field, rule.is_prefix_only())?);
            }
            HttpFilter::UrlRewrite(spec) => {
                filters.host_rewrite = rewrite::host(spec, &field)?;
                filters.path_rewrite = rewrite::path(spec.path.as_ref(), &field, rule.is_prefix_only())?;
            }
            HttpFilter::RequestMirror(spec) => match mirror::plan(context, spec, &field) {
                Ok(plan) => filters.mirrors.extend(plan),
                Err(finding) => report.unresolved(rule.index, finding),
            },
            HttpFilter::Cors(spec) => filters.headers.cors = Some(Box::new(cors::check(spec, &field)?)),
            HttpFilter::ExternalAuth(_) | HttpFilter::ExtensionRef(_) | HttpFilter::Unknown(_) => {
                return Err(unsupported(filter, &field));
            }
        }
    }
    if filters.redirect.is_some() && (filters.host_rewrite.is_some() || filters.path_rewrite.is_some()) {
        return Err(incompatible(format!("{}.filters has both RequestRedirect and URLRewrite", rule.field())));
    }
    if filters.redirect.is_some() && !rule.backends.is_empty() {
        return Err(incompatible(format!("{} has both RequestRedirect and backendRefs", rule.field())));
    }
    filters.host_rewrite = one_host(filters.host_rewrite, host_header, &rule.field())?;
    Ok(filters)
}

/// The filters that can apply to one backend alone.
pub(super) fn of_backend(all: &[HttpFilter], field: &str, prefix_only: bool) -> Result<BackendFilters, Finding> {
    check_repetition(all, field)?;
    let mut filters = BackendFilters::default();
    let mut host_header = None;
    for (index, filter) in all.iter().enumerate() {
        let field = format!("{field}.filters[{index}]");
        match filter {
            HttpFilter::RequestHeaderModifier(modifier) => {
                let checked = check_headers(modifier, Side::Request, &field)?;
                filters.request_headers = checked.modifier;
                host_header = checked.host;
            }
            HttpFilter::ResponseHeaderModifier(modifier) => {
                filters.response_headers = check_headers(modifier, Side::Response, &field)?.modifier;
            }
            HttpFilter::UrlRewrite(spec) => {
                filters.host_rewrite = rewrite::host(spec, &field)?;
                filters.path_rewrite = rewrite::path(spec.path.as_ref(), &field, prefix_only)?;
            }
            _ => return Err(unsupported(filter, &field)),
        }
    }
    filters.host_rewrite = one_host(filters.host_rewrite, host_header, field)?;
    Ok(filters)
}

/// "Specifying the same filter multiple times is not supported unless explicitly indicated in the filter" (HTTPRouteRule.filters).
fn check_repetition(filters: &[HttpFilter], field: &str) -> Result<(), Finding> {
    let mut seen = BTreeSet::new();
    let once = filters.iter().filter(|filter| {
        !matches!(filter, HttpFilter::RequestMirror(_) | HttpFilter::ExtensionRef(_) | HttpFilter::Unknown(_))
    });
    match once.map(kind).find(|kind| !seen.insert(*kind)) {
        Some(kind) => Err(incompatible(format!("{field}.filters has {kind} more than once"))),
        None => Ok(()),
    }
}

fn check_headers(modifier: &HeaderModifier, side: Side, field: &str) -> Result<headers::Checked, Finding> {
    headers::check(modifier, side)
        .map_err(|problem| Finding::new(Reason::UnsupportedValue, format!("{field}: {problem}")))
}

/// Setting the header Host is a host rewrite; two different ones contradict each other.
fn one_host(rewrite: Option<Name>, header: Option<Name>, field: &str) -> Result<Option<Name>, Finding> {
    match (rewrite, header) {
        (Some(rewrite), Some(header)) if rewrite != header => Err(incompatible(format!(
            "{field} sets the header Host to {header} and rewrites the hostname to {rewrite}"
        ))),
        (rewrite, header) => Ok(rewrite.or(header)),
    }
}

fn unsupported(filter: &HttpFilter, field: &str) -> Finding {
    let what = match filter {
        HttpFilter::ExtensionRef(reference) => {
            format!("refers to the kind {}, which is not a filter that Portolan knows", refs::kind_of(reference))
        }
        HttpFilter::Unknown(kind) => format!("has the type {kind}, which is not supported"),
        other => format!("has the type {}, which is not supported here yet", kind(other)),
    };
    Finding::new(
        Reason::UnsupportedValue,
        format!("{field} {what}; what it applies to answers 500 until it is removed"),
    )
}
