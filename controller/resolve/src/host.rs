//! Hostnames of a route table, and what a request for each meets.
//!
//! A request belongs to the best listener of its port: the most specific whose hostname covers the request's. Within a table every
//! hostname of a listener is a host even without routes, which keeps less specific listeners' routes away from it (isolation).
//! "If traffic to a Gateway does not match any Listener's hostname … the request MUST be rejected. HTTP returns a 404 status code"
//! (GatewaySpec.listeners).
//!
//! HTTPS: a connection is bound to the listener of its SNI. A request on it for a name that another listener of the port serves is
//! misdirected: 421, "If no other Listener matches the Host, the Gateway MUST return a 404" (Listener.hostname).

use std::collections::BTreeSet;
use std::sync::Arc;

use portolan_model::ir::{
    GatewayView, HostEntry, HostPlan, ListenerView, MISDIRECTED, PlannedRoute, RouteView, TableId,
};
use portolan_model::{Name, ObjectKey};

use crate::gateway::{best_listener, hostname_of, listeners_on, table_of};
use crate::{World, hostname, rank};

/// Where a route is present in the tables of one Gateway. A hostname that belongs to a better listener than the one the route is
/// attached to is left out. Sorted, without duplicates.
pub fn hosts_of(route: &RouteView, gateway: &GatewayView) -> Vec<HostEntry> {
    let mut entries = BTreeSet::new();
    let attachments =
        route.parents.iter().filter(|parent| parent.gateway == gateway.name).flat_map(|it| &it.attachments);
    for attachment in attachments {
        let Some(listener) = gateway.listeners.iter().find(|listener| listener.id == attachment.listener) else {
            continue;
        };
        let Some(table) = table_of(&gateway.name, listener) else { continue };
        for host in &attachment.hostnames {
            let best = best_listener(listeners_on(gateway, table.port, table.server.is_some()), host);
            if best.is_some_and(|best| best.id == listener.id) {
                entries.insert((table.clone(), host.clone()));
            }
        }
    }
    let entry = |(table, host)| HostEntry { table, host, route: route.key.clone() };
    entries.into_iter().map(entry).collect()
}

/// The hosts that exist without routes: in each table the hostname of its own listeners and, for HTTPS, the one that answers 421 for
/// those of other listeners. Sorted; no more than two for each listener.
pub fn listener_hosts(gateway: &GatewayView) -> Vec<(TableId, Name)> {
    let mut hosts = BTreeSet::new();
    for listener in gateway.listeners.iter().filter(|listener| listener.accepted) {
        let Some(table) = table_of(&gateway.name, listener) else { continue };
        if misdirected(gateway, &table).next().is_some() {
            hosts.insert((table.clone(), Name::from(MISDIRECTED)));
        }
        hosts.insert((table, Name::from(hostname_of(listener))));
    }
    hosts.into_iter().collect()
}

/// The hostnames of other listeners of the port that a table answers 421 for; none where it is not HTTPS. They are left out where the
/// table's `*`, that of a listener without hostname, answers 421 already.
fn misdirected<'a>(gateway: &'a GatewayView, table: &'a TableId) -> impl Iterator<Item = &'a str> {
    table.server.as_deref().into_iter().flat_map(move |server| {
        let on_port = || listeners_on(gateway, table.port, true).map(|listener| hostname_of(listener));
        let catch_all_elsewhere = server != hostname::ANY && on_port().any(|host| host == hostname::ANY);
        let is_listed =
            move |host: &str| host == hostname::ANY || !catch_all_elsewhere || hostname::covers(server, host);
        on_port().filter(move |host| *host != server && is_listed(host))
    })
}

/// The virtual host of a hostname, or of the names that are misdirected; `None` where the table has none.
pub fn plan(world: &dyn World, table: &TableId, host: &Name) -> Option<HostPlan> {
    let gateway = world.gateway_view(&table.gateway)?;
    let on_port: Vec<_> = listeners_on(&gateway, table.port, table.server.is_some()).collect();
    let is_table =
        |listener: &ListenerView| table.server.as_ref().is_none_or(|server| &**server == hostname_of(listener));
    if !on_port.iter().any(|listener| is_table(listener)) {
        return None;
    }
    let plan =
        |domains, routes, otherwise| HostPlan { table: table.clone(), host: host.clone(), domains, routes, otherwise };
    if **host == *MISDIRECTED {
        let domains: BTreeSet<&str> = misdirected(&gateway, table).collect();
        let domains: Vec<Name> = domains.into_iter().map(Name::from).collect();
        return (!domains.is_empty()).then(|| plan(domains, Vec::new(), 421));
    }
    let best = best_listener(on_port.iter().copied(), host)?;
    if !is_table(best) {
        return None;
    }
    let named = on_port.iter().any(|listener| hostname_of(listener) == &**host);
    let mut routes = own_routes(world, table, host);
    if routes.is_empty() && !named && world.routes_of_host(table, host).is_empty() {
        return None;
    }
    append_tail(world, table, host, best, &on_port, &mut routes);
    Some(plan(Vec::new(), routes, 404))
}

/// The rules of the routes under exactly this hostname, by precedence.
pub(crate) fn own_routes(world: &dyn World, table: &TableId, host: &Name) -> Vec<PlannedRoute> {
    let views = world.routes_of_host(table, host).into_iter().filter_map(|entry| world.route_view(&entry.route));
    let mut routes: Vec<PlannedRoute> = views.flat_map(|view| planned(&view, host)).collect();
    routes.sort_by(|one, other| one.rank.cmp(&other.rank));
    routes
}

fn planned(view: &RouteView, via: &Name) -> Vec<PlannedRoute> {
    let of_rule = |rule: &Arc<portolan_model::ir::ResolvedRule>| {
        let routes = rule.matches.iter().map(|(matched, request)| PlannedRoute {
            route: view.key.clone(),
            rule: Arc::clone(rule),
            matched: *matched,
            rank: rank::of(&view.key, &view.meta, rule.index, *matched, request),
            request: request.clone(),
            via: via.clone(),
        });
        routes.collect::<Vec<_>>()
    };
    view.rules.iter().flat_map(of_rule).collect()
}

/// "precedence must be given to rules from the HTTPRoute with the largest number of characters in a matching non-wildcard hostname,
/// characters in a matching hostname" (HTTPRouteSpec.hostnames): where none of the hostname's own rules matches, those of the wildcards
/// that cover it are next, as far as the same listener serves them. Envoy itself never leaves the virtual host that it has chosen. A
/// route under both hostnames is not repeated: its rules have been tried.
fn append_tail(
    world: &dyn World,
    table: &TableId,
    host: &Name,
    best: &ListenerView,
    on_port: &[&Arc<ListenerView>],
    routes: &mut Vec<PlannedRoute>,
) {
    let mut present: BTreeSet<ObjectKey> = routes.iter().map(|route| route.route.clone()).collect();
    for wildcard in hostname::wildcards_above(host) {
        let same = best_listener(on_port.iter().copied(), &wildcard).is_some_and(|listener| listener.id == best.id);
        if !same {
            continue;
        }
        let mut more = own_routes(world, table, &wildcard);
        more.retain(|route| !present.contains(&route.route));
        present.extend(more.iter().map(|route| route.route.clone()));
        routes.append(&mut more);
    }
}

#[cfg(test)]
mod tests;
