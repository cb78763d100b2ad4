//! Listeners: sockets with their filter chains.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use portolan_model::Name;
use portolan_model::ir::{Binding, ChainPlan, ListenerPlan};
use portolan_model::objects::AccessLog;
use portolan_proto::envoy::core::Address;
use portolan_proto::envoy::listener::{
    AdditionalAddress, Filter, FilterChain, FilterChainMatch, Listener, ListenerFilter, filter, listener_filter,
};
use portolan_proto::envoy::{UInt32Value, network_direct_response, pack_any, tls_inspector};
use portolan_proto::{Body, Content, Resource, ResourceKey, ResourceType, Version};
use prost::Message;

use crate::version::version;
use crate::{address, http_connection, key, origin, tls};

/// Bytes buffered per connection and direction before Envoy stops reading: Envoy's recommendation for edge proxies.
const CONNECTION_BUFFER: u32 = 32 * 1024;

/// The listener of a port. It refers to the route tables of its chains and to their certificates.
#[must_use]
pub fn listener(plan: &ListenerPlan) -> Resource {
    let key = key::listener_key(plan.port, plan.tls);
    let chains = served_chains(plan);
    let mut addresses = addresses(&plan.binding, plan.port).into_iter();
    let stat_prefix = key.name.replace('/', "-");
    let mut filter_chains: Vec<FilterChain> =
        chains.iter().map(|chain| filter_chain(chain, &stat_prefix, &plan.access_logs)).collect();
    if filter_chains.is_empty() {
        filter_chains.push(closing());
    }
    let message = Listener {
        name: key.name.to_string(),
        stat_prefix,
        address: addresses.next(),
        additional_addresses: addresses
            .map(|address| AdditionalAddress { address: Some(address), ..Default::default() })
            .collect(),
        filter_chains,
        listener_filters: if plan.tls { vec![read_sni()] } else { Vec::new() },
        per_connection_buffer_limit_bytes: Some(UInt32Value { value: CONNECTION_BUFFER }),
        ..Default::default()
    };
    Resource {
        key,
        version: listener_version(plan),
        body: Body::new(Content::Message(message.encode_to_vec().into())),
        references: references(&chains),
        origins: origin::of_socket(plan).into(),
    }
}

/// Where the listener's addresses and objects are reported is no part of it.
fn listener_version(plan: &ListenerPlan) -> Version {
    let ListenerPlan { gateway: _, port, tls, binding, chains, access_logs, listeners: _ } = plan;
    let Binding { addresses, port_offset, status: _, unusable: _, logs: _ } = binding;
    let chains: Vec<_> = chains
        .iter()
        .map(|ChainPlan { table, server_names, certificates, listener: _ }| {
            (table.resource_name(), server_names, certificates)
        })
        .collect();
    let content = (port, tls, addresses, port_offset, chains);
    // Listeners that log nothing have the bytes that they had before there were logs.
    if access_logs.is_empty() {
        return version(ResourceType::Listener, &content);
    }
    version(ResourceType::Listener, &(content, access_logs))
}

/// A chain with the names it is matched by.
struct ServedChain<'a> {
    plan: &'a ChainPlan,
    server_names: Vec<&'a Name>,
    /// Unique within the listener
    name: String,
    tls: bool,
}

/// The chains that Envoy is given. Envoy refuses a listener in which two chains match the same, so a server name belongs to the first
/// chain that claims it; a TLS chain without certificate cannot serve.
fn served_chains(plan: &ListenerPlan) -> Vec<ServedChain<'_>> {
    let mut claimed = BTreeSet::new();
    let mut claimed_rest = false;
    let mut chains = Vec::new();
    for chain in plan.chains.iter().filter(|chain| !plan.tls || !chain.certificates.is_empty()) {
        let server_names: Vec<&Name> = chain.server_names.iter().filter(|name| claimed.insert(*name)).collect();
        let taken = if chain.server_names.is_empty() {
            std::mem::replace(&mut claimed_rest, true)
        } else {
            server_names.is_empty()
        };
        if taken {
            continue;
        }
        let name = match server_names.first() {
            Some(server) => format!("{}|{server}", chain.table.resource_name()),
            None => chain.table.resource_name(),
        };
        chains.push(ServedChain { plan: chain, server_names, name, tls: plan.tls });
    }
    chains
}

fn filter_chain(chain: &ServedChain<'_>, stat_prefix: &str, access_logs: &[AccessLog]) -> FilterChain {
    FilterChain {
        name: chain.name.clone(),
        filter_chain_match: (!chain.server_names.is_empty()).then(|| FilterChainMatch {
            server_names: chain.server_names.iter().map(ToString::to_string).collect(),
            ..Default::default()
        }),
        filters: vec![http_connection::filter(stat_prefix, &chain.plan.table.resource_name(), access_logs)],
        transport_socket: chain.tls.then(|| tls::downstream(&chain.plan.certificates)),
        ..Default::default()
    }
}

fn references(chains: &[ServedChain<'_>]) -> Arc<[ResourceKey]> {
    let named: BTreeSet<ResourceKey> = chains
        .iter()
        .flat_map(|chain| {
            let secrets = if chain.tls { chain.plan.certificates.as_slice() } else { &[] };
            std::iter::once(key::table_key(&chain.plan.table)).chain(secrets.iter().map(key::secret_key))
        })
        .collect();
    named.into_iter().collect()
}

fn addresses(binding: &Binding, port: u16) -> Vec<Address> {
    // There is no plan for such a port. Envoy refuses a listener without an address.
    let Some(port) = binding.port(port) else { return Vec::new() };
    if binding.addresses.is_empty() || binding.addresses.contains(&IpAddr::V6(Ipv6Addr::UNSPECIFIED)) {
        return vec![address::everywhere(port)];
    }
    // Envoy cannot bind an address twice.
    let mut bound = BTreeSet::new();
    binding.addresses.iter().filter(|ip| bound.insert(*ip)).map(|ip| address::ip(*ip, port)).collect()
}

/// Reads the server name from the client's greeting, for the choice of the chain.
fn read_sni() -> ListenerFilter {
    ListenerFilter {
        name: "envoy.filters.listener.tls_inspector".into(),
        config_type: Some(listener_filter::ConfigType::TypedConfig(pack_any(tls_inspector::TlsInspector::default()))),
        ..Default::default()
    }
}

/// A chain that closes every connection: Envoy refuses a listener without chains, and a port that refuses connections altogether is
/// not what the Gateway API expects of a listener whose certificates are missing.
pub fn closing() -> FilterChain {
    FilterChain {
        name: "portolan/closed".into(),
        filters: vec![Filter {
            name: "envoy.filters.network.direct_response".into(),
            config_type: Some(filter::ConfigType::TypedConfig(pack_any(network_direct_response::Config::default()))),
        }],
        ..Default::default()
    }
}
