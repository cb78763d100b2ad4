//! Sockets and filter chains of a Gateway.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use portolan_model::ir::{Binding, ChainPlan, GatewayView, ListenerPlan, ListenerView, TableId};
use portolan_model::objects::{AccessLog, Protocol};
use portolan_model::{Name, NamespacedName};

use crate::gateway::{best_listener, hostname_of, listeners_on, parameters, table_of};
use crate::{World, hostname};

/// Most certificates in one filter chain: Envoy's cost is quadratic in them (design section 5).
const MAX_CERTIFICATES: usize = 16;

/// What the proxies of a Gateway listen on, by port. Empty until it is decided where they listen. A port that the offset moves out of
/// range has none; its listeners' status says so.
pub fn plans(world: &dyn World, gateway: &NamespacedName) -> Vec<ListenerPlan> {
    let (Some(view), Some(binding)) = (world.gateway_view(gateway), world.binding(gateway)) else { return Vec::new() };
    if binding.addresses.is_empty() && !binding.unusable.is_empty() {
        // No address stands for all of them only where none was asked for.
        return Vec::new();
    }
    let ports: BTreeSet<(u16, bool)> = view
        .listeners
        .iter()
        .filter(|listener| listener.accepted)
        .filter_map(|listener| match listener.protocol {
            Protocol::Http => Some((listener.port, false)),
            Protocol::Https => Some((listener.port, true)),
            _ => None,
        })
        .collect();
    let listened_on = ports.into_iter().filter(|(port, _)| binding.port(*port).is_some());
    let logs = access_logs(world, gateway, &binding);
    listened_on.filter_map(|(port, tls)| plan(&view, port, tls, &binding, &logs)).collect()
}

/// As the class's parameters say, or else as is usual where the proxies run.
fn access_logs(world: &dyn World, gateway: &NamespacedName, binding: &Binding) -> Arc<[AccessLog]> {
    let said = parameters(world, gateway).class.and_then(|class| class.access_logs.clone());
    said.unwrap_or_else(|| if binding.logs { [AccessLog::standard()].into() } else { Arc::default() })
}

fn plan(
    view: &GatewayView,
    port: u16,
    tls: bool,
    binding: &Binding,
    access_logs: &Arc<[AccessLog]>,
) -> Option<ListenerPlan> {
    let listeners: Vec<_> = listeners_on(view, port, tls).collect();
    if listeners.is_empty() {
        return None;
    }
    let chains = if tls {
        listeners.iter().flat_map(|listener| tls_chains(view, listener, &listeners)).collect()
    } else {
        let table = TableId { gateway: view.name.clone(), port, server: None };
        vec![ChainPlan { table, server_names: Vec::new(), certificates: Vec::new(), listener: None }]
    };
    Some(ListenerPlan {
        gateway: view.name.clone(),
        port,
        tls,
        binding: binding.clone(),
        chains,
        access_logs: Arc::clone(access_logs),
        listeners: listeners.iter().map(|listener| listener.id.clone()).collect(),
    })
}

/// The chains of an HTTPS listener: none without a certificate (then no name of its own is served, not even by a wildcard listener,
/// whose table answers 421), one with up to 16, else one per certificate.
fn tls_chains(view: &GatewayView, listener: &ListenerView, on_port: &[&Arc<ListenerView>]) -> Vec<ChainPlan> {
    let Some(table) = table_of(&view.name, listener) else { return Vec::new() };
    let chain = |server_names, certificates| ChainPlan {
        table: table.clone(),
        server_names,
        certificates,
        listener: Some(listener.id.clone()),
    };
    let own_names: Vec<Name> = listener.hostname.iter().cloned().collect();
    let secrets: Vec<NamespacedName> = listener.certificates.iter().map(|view| view.secret.clone()).collect();
    let Some(first) = secrets.first() else { return Vec::new() };
    if secrets.len() <= MAX_CERTIFICATES {
        return vec![chain(own_names, secrets)];
    }
    // "MUST use the longest matching SNI out of all available certificates" (Listener.tls): Envoy does so among chains. A name goes
    // to the first certificate that has it; what no certificate names gets the first, as within one chain.
    let server = Name::from(hostname_of(listener));
    let is_own = |name: &Name| best_listener(on_port.iter().copied(), name).is_some_and(|best| best.id == listener.id);
    let mut taken = BTreeMap::new();
    for (index, certificate) in listener.certificates.iter().enumerate() {
        let names = certificate.dns_names.iter().filter_map(|name| hostname::intersection(&server, name));
        for name in names.filter(|name| is_own(name) && **name != *hostname::ANY) {
            taken.entry(name).or_insert(index);
        }
    }
    let mut chains: Vec<_> = secrets
        .iter()
        .enumerate()
        .map(|(index, secret)| {
            let names = taken.iter().filter(|(_, owner)| **owner == index).map(|(name, _)| name.clone());
            chain(names.collect::<Vec<_>>(), vec![secret.clone()])
        })
        .filter(|chain| !chain.server_names.is_empty())
        .collect();
    if !taken.contains_key(&server) {
        chains.push(chain(own_names, vec![first.clone()]));
    }
    chains
}
