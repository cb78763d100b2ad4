//! Routes: where they attach and what their rules do.
//!
//! One file per feature of the API; HTTPRoute and GRPCRoute become the same [`rule::Rule`] first and share everything after.

mod attach;
mod backends;
mod cors;
mod filters;
mod grpc;
mod http;
mod matches;
mod mirror;
mod redirect;
mod report;
mod rewrite;
mod rule;

use std::sync::Arc;

use portolan_model::ir::{ParentOutcome, ResolvedRule, RouteView};
use portolan_model::objects::{BackendRef, L4Route, Meta, Object, ParentRef, Target};
use portolan_model::{Kind, Name, ObjectKey, Reason};

use crate::World;
use report::Report;

/// What is wrong with a part of a route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    pub reason: Reason,
    pub message: String,
}

impl Finding {
    pub(crate) fn new(reason: Reason, message: impl Into<String>) -> Self {
        Self { reason, message: message.into() }
    }
}

/// What all of a route's parts are resolved with.
pub(crate) struct Context<'a> {
    pub world: &'a dyn World,
    pub route: &'a ObjectKey,
}

/// The part of a route that decides where it attaches.
struct Head<'a> {
    meta: &'a Meta,
    parents: &'a [ParentRef],
    /// Empty: those of the listener
    hostnames: &'a [Name],
    use_default_gateways: Option<&'a Name>,
}

/// A route with everything looked up; `None` where it does not exist.
pub fn view(world: &dyn World, key: &ObjectKey) -> Option<RouteView> {
    let context = Context { world, route: key };
    match world.route(key)? {
        Object::HttpRoute(route) => {
            let head = Head {
                meta: &route.meta,
                parents: &route.parents,
                hostnames: &route.hostnames,
                use_default_gateways: route.use_default_gateways.as_ref(),
            };
            let backends = route.rules.iter().flat_map(|rule| &rule.backends);
            Some(resolve(&context, &head, http::rules(&route), targets(&route.meta, backends)))
        }
        Object::GrpcRoute(route) => {
            let head = Head {
                meta: &route.meta,
                parents: &route.parents,
                hostnames: &route.hostnames,
                use_default_gateways: route.use_default_gateways.as_ref(),
            };
            let backends = route.rules.iter().flat_map(|rule| &rule.backends);
            Some(resolve(&context, &head, grpc::rules(&route), targets(&route.meta, backends)))
        }
        Object::L4Route(route) => Some(not_yet(&context, &route)),
        _ => None,
    }
}

fn resolve<'a>(
    context: &Context<'_>,
    head: &Head<'_>,
    rules: impl Iterator<Item = rule::Rule<'a>>,
    targets: Vec<ObjectKey>,
) -> RouteView {
    let mut report = Report::default();
    if head.use_default_gateways.is_some_and(|scope| &**scope != "None") {
        report.without_effect("spec.useDefaultGateways".into());
    }
    let rules: Arc<[Arc<ResolvedRule>]> =
        rules.map(|rule| Arc::new(rule::resolve(context, &rule, &mut report))).collect();
    let serves = rules.iter().any(|rule| !rule.matches.is_empty());
    let parents = parents(context, head, &report, serves, None);
    RouteView { key: context.route.clone(), meta: head.meta.clone(), parents, rules, targets }
}

/// What the backends name, as far as it is of a kind that Portolan reads.
fn targets<'a, F: 'a>(meta: &Meta, backends: impl Iterator<Item = &'a BackendRef<F>>) -> Vec<ObjectKey> {
    let mut targets: Vec<ObjectKey> = backends
        .filter_map(|backend| match backend.target.target() {
            Target::Known(kind) => Some(ObjectKey::new(kind, backend.target.resolve(&meta.name.namespace))),
            Target::Unknown => None,
        })
        .collect();
    targets.sort_unstable();
    targets.dedup();
    targets.shrink_to_fit();
    targets
}

/// Routes of kinds that are not served yet: their parents hear so, and their references are still checked.
fn not_yet(context: &Context<'_>, route: &L4Route) -> RouteView {
    let mut report = Report::default();
    for (rule, backend) in
        route.rules.iter().enumerate().flat_map(|(index, rule)| rule.backends.iter().map(move |it| (index, it)))
    {
        if let Err(finding) = backends::exists(context, &backend.target, backend.port) {
            report.unresolved(rule, finding);
        }
    }
    let head = Head {
        meta: &route.meta,
        parents: &route.parents,
        hostnames: &route.hostnames,
        use_default_gateways: route.use_default_gateways.as_ref(),
    };
    let finding = Finding::new(Reason::UnsupportedValue, format!("{} is not supported yet", route.kind));
    let parents = parents(context, &head, &report, false, Some(&finding));
    RouteView {
        key: context.route.clone(),
        meta: head.meta.clone(),
        parents,
        rules: Arc::new([]),
        targets: targets(&route.meta, route.rules.iter().flat_map(|rule| &rule.backends)),
    }
}

/// One outcome per parentRef that is Portolan's.
fn parents(
    context: &Context<'_>,
    head: &Head<'_>,
    report: &Report,
    serves: bool,
    refusal: Option<&Finding>,
) -> Vec<ParentOutcome> {
    let outcome = |(index, parent_ref): (usize, &ParentRef)| {
        let kind = parent_ref.kind().filter(|kind| matches!(kind, Kind::Gateway | Kind::ListenerSet))?;
        let parent = ObjectKey::new(kind, parent_ref.resolve(&context.route.name.namespace));
        let view = context.world.parent_view(&parent)?;
        let attached = match refusal {
            Some(finding) => Err(finding.clone()),
            None => attach::attach(context, head.hostnames, parent_ref, &parent, &view),
        };
        let (attachments, problem) = match attached {
            Ok(attachments) => (attachments, None),
            Err(finding) => (Vec::new(), Some(finding)),
        };
        Some(ParentOutcome {
            index,
            gateway: view.gateway.clone(),
            conditions: report.conditions(problem.as_ref()),
            attachments: if serves { attachments } else { Vec::new() },
        })
    };
    let mut outcomes: Vec<ParentOutcome> = head.parents.iter().enumerate().filter_map(outcome).collect();
    outcomes.shrink_to_fit();
    outcomes
}

#[cfg(test)]
mod tests;
