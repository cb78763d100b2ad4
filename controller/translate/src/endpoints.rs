//! Endpoints of a cluster.

use std::sync::Arc;

use portolan_model::Name;
use portolan_model::ir::{EndpointAddress, EndpointPlan, EndpointsPlan};
use portolan_proto::envoy::core::{Address, Locality};
use portolan_proto::envoy::endpoint::{
    ClusterLoadAssignment, Endpoint, LbEndpoint, LocalityLbEndpoints, lb_endpoint::HostIdentifier,
};
use portolan_proto::{Body, Content, Resource, ResourceType};
use prost::Message;

use crate::bootstrap::LOCAL_CLUSTER;
use crate::version::version;
use crate::{address, key, origin};

/// The endpoints of a cluster. None at all is a valid answer: requests then get 503.
///
/// Endpoints that are about to go are named only while none is ready (KEP-1669, terminating endpoints): Envoy finishes the requests
/// in flight to an endpoint that is no longer named.
#[must_use]
pub fn endpoints(plan: &EndpointsPlan) -> Resource {
    let name: Arc<str> = plan.cluster.resource_name().into();
    let zones = used_endpoints(plan);
    let message = ClusterLoadAssignment {
        cluster_name: name.to_string(),
        endpoints: zones.iter().map(|(zone, addresses)| in_zone(zone, addresses)).collect(),
        ..Default::default()
    };
    Resource {
        key: key::endpoints_key(&name),
        version: version(ResourceType::Endpoints, &(&plan.cluster, &zones)),
        body: Body::new(Content::Message(message.encode_to_vec().into())),
        references: Arc::from([]),
        origins: Arc::from([origin::of_backend(&plan.cluster.backend)]),
    }
}

/// The endpoints that Envoy is given, by zone.
fn used_endpoints(plan: &EndpointsPlan) -> Vec<(&Name, Vec<&EndpointAddress>)> {
    let any_ready = plan.localities.iter().flat_map(|locality| &locality.endpoints).any(|endpoint| !endpoint.draining);
    let used = |endpoint: &&EndpointPlan| !(any_ready && endpoint.draining);
    plan.localities
        .iter()
        .map(|locality| {
            (&locality.zone, locality.endpoints.iter().filter(used).map(|endpoint| &endpoint.address).collect())
        })
        .filter(|(_, addresses): &(_, Vec<_>)| !addresses.is_empty())
        .collect()
}

/// The endpoints of the cluster that stands for the proxies themselves ([`LOCAL_CLUSTER`]): none yet, which leaves zone-aware
/// routing off.
#[must_use]
pub fn local_endpoints() -> Resource {
    let message = ClusterLoadAssignment { cluster_name: LOCAL_CLUSTER.into(), ..Default::default() };
    Resource {
        key: key::endpoints_key(&LOCAL_CLUSTER.into()),
        version: version(ResourceType::Endpoints, &LOCAL_CLUSTER),
        body: Body::new(Content::Message(message.encode_to_vec().into())),
        references: Arc::from([]),
        origins: Arc::from([]),
    }
}

fn in_zone(zone: &Name, addresses: &[&EndpointAddress]) -> LocalityLbEndpoints {
    LocalityLbEndpoints {
        locality: (!zone.is_empty()).then(|| Locality { zone: zone.to_string(), ..Default::default() }),
        lb_endpoints: addresses.iter().map(|address| endpoint(address)).collect(),
        ..Default::default()
    }
}

fn endpoint(address: &EndpointAddress) -> LbEndpoint {
    LbEndpoint {
        host_identifier: Some(HostIdentifier::Endpoint(Endpoint {
            address: Some(place(address)),
            ..Default::default()
        })),
        ..Default::default()
    }
}

fn place(of: &EndpointAddress) -> Address {
    match of {
        EndpointAddress::Socket(ip, port) => address::ip(*ip, *port),
        EndpointAddress::Unix(path) => address::unix(&**path, 0),
    }
}
