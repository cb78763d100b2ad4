//! Routes: one match of one rule, as one Envoy route or a few.
//!
//! Envoy takes the first route that matches, so each of a rule's matches is a route of its own, placed by precedence. A match becomes
//! several routes
//! - where backends rewrite the path differently: Envoy's weighted clusters cannot, so there is one route per backend, chosen by
//!   fraction ([`forward::shares`]);
//! - where it asks for a method and its rule has a CORS policy: preflight requests have another method ([`cors`]).

mod cors;
mod forward;
mod headers;
mod matching;
mod mirror;
mod redirect;
mod rewrite;

use std::collections::HashMap;

use portolan_model::Name;
use portolan_model::ir::{PlannedRoute, RequestMatch, RuleAction, RuleFilters};
use portolan_model::objects::HeaderModifier;
use portolan_proto::envoy::route::{DirectResponseAction, Route, RouteMatch, route::Action};
use portolan_proto::{ResourceType, Unit};
use prost::Message;

use crate::http_connection::CORS_FILTER;
use crate::version::version;
use crate::{TableContext, origin};
use forward::Share;

/// Everything that the bytes of a route depend on.
#[derive(Hash)]
struct RouteContent<'a> {
    name: String,
    request: &'a RequestMatch,
    action: &'a RuleAction,
    filters: &'a RuleFilters,
    variant: Variant,
    /// For redirects alone: others are the same under every listener
    redirect: Option<(&'a Name, TableContext)>,
}

/// Which of a match's routes.
#[derive(Clone, Copy, Hash)]
enum Variant {
    Whole,
    /// One backend's share of the requests
    Share(Share),
    /// Preflight requests of a match on a method
    Preflight,
}

/// The routes of a match under hostname `host`, in order.
pub fn units(planned: &PlannedRoute, host: &Name, context: TableContext) -> Vec<Unit> {
    let rule = &planned.rule;
    let mut variants = Vec::new();
    if rule.filters.cors.is_some() && matching::excludes_preflight(&planned.request) {
        variants.push(Variant::Preflight);
    }
    match &rule.action {
        RuleAction::Forward(plan) if forward::needs_shares(plan) => {
            variants.extend(forward::shares(plan).into_iter().map(Variant::Share));
        }
        _ => variants.push(Variant::Whole),
    }
    variants
        .into_iter()
        .map(|variant| {
            let redirect = matches!(rule.action, RuleAction::Redirect(_)).then_some((host, context));
            let (request, action, filters) = (&planned.request, &rule.action, &rule.filters);
            RouteContent { name: name(planned, variant), request, action, filters, variant, redirect }.unit(planned)
        })
        .collect()
}

/// What stands in for a match of which Envoy refused a route: the same requests are answered 500.
pub fn substitute(planned: &PlannedRoute) -> Unit {
    let name = format!("{}/refused", name(planned, Variant::Whole));
    let filters = RuleFilters::default();
    RouteContent {
        name,
        request: &planned.request,
        action: &RuleAction::Respond(500),
        filters: &filters,
        variant: Variant::Whole,
        redirect: None,
    }
    .unit(planned)
}

/// `httproute/shop/cart/0/1`: kind, namespace, name, rule, match. It stands in access logs, and the fallback of scoped routes tells
/// by it that there is a route at all.
fn name(planned: &PlannedRoute, variant: Variant) -> String {
    let kind = planned.route.kind.as_str().to_ascii_lowercase();
    let base = format!("{kind}/{}/{}/{}", planned.route.name, planned.rule.index, planned.matched);
    match variant {
        Variant::Whole => base,
        Variant::Share(share) => format!("{base}/backend-{}", share.position),
        Variant::Preflight => format!("{base}/preflight"),
    }
}

impl RouteContent<'_> {
    fn unit(&self, planned: &PlannedRoute) -> Unit {
        Unit {
            bytes: self.message().encode_to_vec().into(),
            version: version(ResourceType::Route, self),
            origin: origin::of_match(planned),
        }
    }

    fn message(&self) -> Route {
        let mut typed_per_filter_config = HashMap::new();
        // One entry at most: the bytes of a map with several would differ from run to run.
        if let Some(policy) = &self.filters.cors {
            typed_per_filter_config.insert(CORS_FILTER.into(), cors::policy(policy));
        }
        let action = self.action();
        let nothing = HeaderModifier::default();
        let (request, response) = match self.action {
            // Then they stand, merged, in each weighted cluster.
            RuleAction::Forward(plan) if forward::has_own_headers(plan) && matches!(action, Action::Route(_)) => {
                (&nothing, &nothing)
            }
            _ => (&self.filters.request_headers, &self.filters.response_headers),
        };
        Route {
            name: self.name.clone(),
            r#match: Some(self.request_match()),
            action: Some(action),
            typed_per_filter_config,
            request_headers_to_add: headers::to_add(request),
            request_headers_to_remove: headers::to_remove(request),
            response_headers_to_add: headers::to_add(response),
            response_headers_to_remove: headers::to_remove(response),
            ..Default::default()
        }
    }

    fn request_match(&self) -> RouteMatch {
        let request = matching::request_match(self.request);
        match self.variant {
            Variant::Whole => request,
            Variant::Share(share) => RouteMatch { runtime_fraction: share.fraction(), ..request },
            Variant::Preflight => matching::preflight(self.request),
        }
    }

    fn action(&self) -> Action {
        match (self.variant, self.action) {
            (Variant::Preflight, _) => forward::nowhere(),
            (Variant::Share(share), RuleAction::Forward(plan)) => {
                forward::share_action(plan, self.request, self.filters, share)
            }
            (_, RuleAction::Forward(plan)) => forward::action(plan, self.request, self.filters),
            (_, RuleAction::Redirect(plan)) => redirect::action(plan, self.request, self.redirect),
            (_, RuleAction::Respond(status)) => respond(*status),
        }
    }
}

fn respond(status: u16) -> Action {
    Action::DirectResponse(DirectResponseAction { status: status.into(), ..Default::default() })
}
