//! Virtual hosts: what a request for one hostname meets, first match first.

use std::collections::BTreeSet;
use std::sync::Arc;

use portolan_model::ir::{HostPlan, PlannedRoute};
use portolan_model::{Name, NamespacedName};
use portolan_proto::envoy::route::{
    DirectResponseAction, Route, RouteMatch, VirtualHost, route::Action, route_match::PathSpecifier,
};
use portolan_proto::{ResourceType, Unit, VirtualHostBody};
use prost::Message;

use crate::version::version;
use crate::{origin, route};

/// Name of the route that answers where no rule matches: access logs show it.
const OTHERWISE: &str = "portolan/otherwise";
/// Name of the route that answers under a hostname that Envoy refused.
const REFUSED: &str = "portolan/refused";

/// The listener as clients of a table see it: redirects derive their target from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TableContext {
    /// Whether clients speak TLS
    pub tls: bool,
    /// The port that clients connect to
    pub port: u16,
}

/// The virtual host of a hostname. `refused` says whether Envoy refused a route with this content ([`Unit::version`]) before: the
/// match then answers 500, and where Envoy refuses even that (the fault is in what is matched), it is left out.
#[must_use]
pub fn virtual_host(
    plan: &HostPlan,
    context: TableContext,
    refused: &mut dyn FnMut(&PlannedRoute, u128) -> Option<()>,
) -> VirtualHostBody {
    let mut units = Vec::with_capacity(plan.routes.len() + 1);
    let mut clusters = BTreeSet::new();
    for planned in &plan.routes {
        let made = route::units(planned, &plan.host, context);
        if !made.iter().any(|unit| refused(planned, unit.version.0).is_some()) {
            clusters.extend(planned.rule.clusters().map(crate::cluster::name_of));
            units.extend(made);
            continue;
        }
        let substitute = route::substitute(planned);
        if refused(planned, substitute.version.0).is_none() {
            units.push(substitute);
        }
    }
    units.push(everything(OTHERWISE, plan.otherwise, &plan.table.gateway));
    let domains = if plan.domains.is_empty() { std::slice::from_ref(&plan.host) } else { &*plan.domains };
    let head = VirtualHost {
        name: plan.host.to_string(),
        domains: domains.iter().map(ToString::to_string).collect(),
        ..Default::default()
    };
    let versions: Vec<u128> = units.iter().map(|unit| unit.version.0).collect();
    let version = match &*plan.domains {
        [] => version(ResourceType::Route, &(&plan.host, versions)),
        domains => version(ResourceType::Route, &(&plan.host, domains, versions)),
    };
    VirtualHostBody {
        name: Arc::clone(&plan.host),
        head: head.encode_to_vec().into(),
        routes: units.into(),
        clusters: clusters.into_iter().collect::<Vec<Name>>().into(),
        version,
    }
}

/// What stands in for a virtual host that Envoy refused though none of its routes is to blame alone: everything under its domains
/// is answered 500. To leave it out would hand its requests to the routes of less specific hostnames.
#[must_use]
pub fn refused_host(host: &VirtualHostBody, gateway: &NamespacedName) -> VirtualHostBody {
    VirtualHostBody {
        name: Arc::clone(&host.name),
        head: host.head.clone(),
        routes: Arc::from([everything(REFUSED, 500, gateway)]),
        clusters: Arc::from([]),
        version: version(ResourceType::Route, &(REFUSED, host.version.0)),
    }
}

/// A route that answers every request.
fn everything(name: &str, status: u16, gateway: &NamespacedName) -> Unit {
    let message = Route {
        name: name.into(),
        r#match: Some(RouteMatch { path_specifier: Some(PathSpecifier::Prefix("/".into())), ..Default::default() }),
        action: Some(Action::DirectResponse(DirectResponseAction {
            status: status.into(),
            body: None,
            ..Default::default()
        })),
        ..Default::default()
    };
    Unit {
        bytes: message.encode_to_vec().into(),
        version: version(ResourceType::Route, &(name, status)),
        origin: origin::of_gateway(gateway),
    }
}
