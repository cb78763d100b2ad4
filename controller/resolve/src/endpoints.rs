//! Endpoints of a cluster.

use std::collections::BTreeMap;

use portolan_model::Kind;
use portolan_model::Name;
use portolan_model::ir::{
    ClusterKey, ClusterPlan, Discovery, EndpointAddress, EndpointPlan, EndpointsPlan, LocalityPlan,
};
use portolan_model::objects::{
    AddressType, BackendEndpoint, Endpoint, EndpointSlice, IpFamily, Service, TransportProtocol,
};

use crate::World;
use crate::backend::{self, service_port};

/// What is known of an address: whether it drains, and its zone.
type Found = BTreeMap<EndpointAddress, (bool, Name)>;

/// The endpoints of a cluster whose discovery is by EDS; `None` for any other. No endpoint is a valid answer (503 for that backend).
pub fn plan(world: &dyn World, key: &ClusterKey) -> Option<EndpointsPlan> {
    of_cluster(world, &backend::cluster(world, key)?)
}

/// The endpoints of a cluster, whether or not it may be used.
pub fn of_cluster(world: &dyn World, cluster: &ClusterPlan) -> Option<EndpointsPlan> {
    let key = &cluster.key;
    if cluster.discovery != Discovery::Endpoints {
        return None;
    }
    let found = if key.backend.kind == Kind::Service {
        of_service(world, &*world.service(&key.backend.name)?, key.backend.port)
    } else {
        of_backend(&world.backend(&key.backend.name)?.endpoints)
    };
    let mut zones: BTreeMap<Name, Vec<EndpointPlan>> = BTreeMap::new();
    for (address, (draining, zone)) in found {
        zones.entry(zone).or_default().push(EndpointPlan { address, draining });
    }
    let localities = zones.into_iter().map(|(zone, endpoints)| LocalityPlan { zone, endpoints }).collect();
    Some(EndpointsPlan { cluster: key.clone(), localities })
}

fn of_backend(endpoints: &[BackendEndpoint]) -> Found {
    let address = |endpoint: &BackendEndpoint| match endpoint {
        BackendEndpoint::Ip { address, port } => Some(EndpointAddress::Socket(*address, *port)),
        BackendEndpoint::Unix { path } => Some(EndpointAddress::Unix(path.clone())),
        BackendEndpoint::Fqdn { .. } => None,
    };
    endpoints.iter().filter_map(address).map(|address| (address, (false, Name::from("")))).collect()
}

/// A dual-stack Service has slices of both families and each pod in both: one family is used, the first in the Service's order that
/// has something to offer.
fn of_service(world: &dyn World, service: &Service, port: u16) -> Found {
    let slices = world.endpoint_slices(&service.meta.name);
    let mut families = service.ip_families.clone();
    families.extend([IpFamily::V4, IpFamily::V6].into_iter().filter(|family| !service.ip_families.contains(family)));
    let by_family: Vec<Found> = families.iter().map(|family| of_family(&slices, *family, service, port)).collect();
    let has_ready = |found: &&Found| found.values().any(|(draining, _)| !draining);
    by_family
        .iter()
        .find(has_ready)
        .or_else(|| by_family.iter().find(|found| !found.is_empty()))
        .cloned()
        .unwrap_or_default()
}

fn of_family(slices: &[std::sync::Arc<EndpointSlice>], family: IpFamily, service: &Service, port: u16) -> Found {
    let kind = match family {
        IpFamily::V4 => AddressType::V4,
        IpFamily::V6 => AddressType::V6,
    };
    let Some(service_port) = service_port(service, port) else { return Found::new() };
    let mut found = Found::new();
    for slice in slices.iter().filter(|slice| slice.address_type == kind) {
        let ports = slice
            .ports
            .iter()
            .filter(|slice_port| slice_port.name == service_port.name && slice_port.protocol == TransportProtocol::Tcp);
        // Without a number the slice means all ports.
        for target in ports.map(|slice_port| slice_port.port.unwrap_or(port)) {
            for endpoint in &slice.endpoints {
                let (Some(draining), Some(address)) = (draining(endpoint), endpoint.addresses.first()) else {
                    continue;
                };
                let zone = endpoint.zone.clone().unwrap_or_else(|| "".into());
                // An address in two slices, as while it moves between them: the better state counts.
                found
                    .entry(EndpointAddress::Socket(*address, target))
                    .and_modify(|known| *known = std::cmp::min(known.clone(), (draining, zone.clone())))
                    .or_insert_with(|| (draining, zone.clone()));
            }
        }
    }
    found
}

/// `Some(true)`: terminating but still serving, for use while no ready one is left. `None`: not to be used.
fn draining(endpoint: &Endpoint) -> Option<bool> {
    if endpoint.ready {
        return Some(false);
    }
    (endpoint.serving && endpoint.terminating).then_some(true)
}
