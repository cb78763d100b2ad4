//! One complete configuration for an Envoy that has no control plane: `portolan translate -o envoy`, and how tests put what is
//! produced before the real Envoy.

use std::collections::BTreeSet;

use portolan_proto::envoy::bootstrap::Bootstrap;
use portolan_proto::envoy::bootstrap::bootstrap::StaticResources;
use portolan_proto::envoy::cluster::cluster::{ClusterDiscoveryType, DiscoveryType};
use portolan_proto::envoy::cluster::{Cluster, cluster::EdsClusterConfig};
use portolan_proto::envoy::core::{Node, transport_socket};
use portolan_proto::envoy::endpoint::ClusterLoadAssignment;
use portolan_proto::envoy::hcm::HttpConnectionManager;
use portolan_proto::envoy::hcm::http_connection_manager::RouteSpecifier;
use portolan_proto::envoy::listener::listener::ListenerSpecifier;
use portolan_proto::envoy::listener::{Filter, FilterChain, Listener, filter};
use portolan_proto::envoy::route::RouteConfiguration;
use portolan_proto::envoy::tls::{DownstreamTlsContext, Secret};
use portolan_proto::envoy::{Any, BoolValue, pack_any};
use portolan_proto::{Resource, ResourceKey, ResourceType, Snapshot};
use prost::{DecodeError, Message, Name};

use crate::{bootstrap, http_connection, listener};

/// Why a snapshot has no static form: one of its resources cannot be read back, which is a defect of Portolan.
#[derive(Debug, thiserror::Error)]
#[error("{key} cannot be read back: {source}")]
pub struct StaticError {
    key: ResourceKey,
    source: DecodeError,
}

/// The bootstrap that holds every resource of `snapshot` itself: route tables inside their listeners, endpoints inside their
/// clusters, certificates under `static_resources.secrets`. Private keys are in it as they are; printing may redact them.
///
/// A chain whose certificates are all held is left out: without a control plane there is nothing to wait for.
///
/// # Errors
/// When a resource's bytes are no message of its type.
pub fn static_bootstrap(snapshot: &Snapshot) -> Result<Bootstrap, StaticError> {
    let mut resources = StaticResources::default();
    for resource in snapshot.iter() {
        match resource.key.kind {
            ResourceType::Cluster => resources.clusters.extend(static_cluster(snapshot, resource)?),
            ResourceType::Listener => resources.listeners.extend(static_listener(snapshot, resource)?),
            ResourceType::Secret => resources.secrets.extend(read::<Secret>(resource)?),
            ResourceType::Endpoints | ResourceType::Scope | ResourceType::Route | ResourceType::Extension => {}
        }
    }
    Ok(Bootstrap {
        node: Some(Node { id: "portolan-static".into(), cluster: "portolan-static".into(), ..Default::default() }),
        static_resources: Some(resources),
        layered_runtime: Some(bootstrap::runtime()),
        ..Default::default()
    })
}

fn read<M: Message + Default>(resource: &Resource) -> Result<Option<M>, StaticError> {
    let fail = |source| StaticError { key: resource.key.clone(), source };
    resource.body.message().map(|bytes| M::decode(bytes).map_err(fail)).transpose()
}

fn find<M: Message + Default>(snapshot: &Snapshot, kind: ResourceType, name: &str) -> Result<Option<M>, StaticError> {
    snapshot.get(&ResourceKey::new(kind, name)).map_or(Ok(None), |resource| read(resource))
}

fn static_cluster(snapshot: &Snapshot, resource: &Resource) -> Result<Option<Cluster>, StaticError> {
    let Some(mut cluster) = read::<Cluster>(resource)? else { return Ok(None) };
    if let Some(EdsClusterConfig { .. }) = cluster.eds_cluster_config.take() {
        let none = ClusterLoadAssignment { cluster_name: cluster.name.clone(), ..Default::default() };
        cluster.load_assignment = Some(find(snapshot, ResourceType::Endpoints, &cluster.name)?.unwrap_or(none));
        cluster.cluster_discovery_type = Some(ClusterDiscoveryType::Type(DiscoveryType::Static.into()));
    }
    Ok(Some(cluster))
}

fn static_listener(snapshot: &Snapshot, resource: &Resource) -> Result<Option<Listener>, StaticError> {
    let Some(mut listener) = read::<Listener>(resource)? else { return Ok(None) };
    if let Some(ListenerSpecifier::InternalListener(_)) = listener.listener_specifier {
        return Ok(None);
    }
    let fail = |source| StaticError { key: resource.key.clone(), source };
    let mut chains = Vec::new();
    for mut chain in std::mem::take(&mut listener.filter_chains) {
        if !inline_secrets(snapshot, &mut chain).map_err(fail)? {
            continue;
        }
        for filter in &mut chain.filters {
            inline_routes(snapshot, filter, &resource.key)?;
        }
        chains.push(chain);
    }
    if chains.is_empty() {
        chains.push(listener::closing());
    }
    listener.filter_chains = chains;
    Ok(Some(listener))
}

/// Points the chain's certificates at `static_resources.secrets`. False: the chain has certificates, and none is usable.
fn inline_secrets(snapshot: &Snapshot, chain: &mut FilterChain) -> Result<bool, DecodeError> {
    let Some(transport_socket::ConfigType::TypedConfig(any)) =
        chain.transport_socket.as_mut().and_then(|socket| socket.config_type.as_mut())
    else {
        return Ok(true);
    };
    let Some(mut context) = unpack::<DownstreamTlsContext>(any)? else { return Ok(true) };
    let mut usable = BTreeSet::new();
    if let Some(common) = &mut context.common_tls_context {
        common.tls_certificate_sds_secret_configs.retain_mut(|config| {
            config.sds_config = None;
            let secret = snapshot.get(&ResourceKey::new(ResourceType::Secret, config.name.as_str()));
            secret.is_some_and(|secret| !secret.is_held()) && usable.insert(config.name.clone())
        });
    }
    *any = pack_any(context);
    Ok(!usable.is_empty())
}

fn inline_routes(snapshot: &Snapshot, filter: &mut Filter, of: &ResourceKey) -> Result<(), StaticError> {
    if filter.name != http_connection::FILTER {
        return Ok(());
    }
    let Some(filter::ConfigType::TypedConfig(any)) = filter.config_type.as_mut() else { return Ok(()) };
    let fail = |source| StaticError { key: of.clone(), source };
    let Some(mut manager) = unpack::<HttpConnectionManager>(any).map_err(fail)? else { return Ok(()) };
    if let Some(RouteSpecifier::Rds(rds)) = &manager.route_specifier {
        let none = RouteConfiguration { name: rds.route_config_name.clone(), ..Default::default() };
        let mut table = find(snapshot, ResourceType::Route, &rds.route_config_name)?.unwrap_or(none);
        // As over the stream, where a route may name a cluster that does not exist.
        table.validate_clusters = Some(BoolValue { value: false });
        manager.route_specifier = Some(RouteSpecifier::RouteConfig(table));
    }
    *any = pack_any(manager);
    Ok(())
}

/// The message in `any` if it is an `M`.
fn unpack<M: Message + Name + Default>(any: &Any) -> Result<Option<M>, DecodeError> {
    (any.type_url == M::type_url()).then(|| M::decode(any.value.as_slice())).transpose()
}
