//! Clusters: how Envoy speaks to a backend.

use std::collections::HashMap;
use std::sync::Arc;

use portolan_model::Name;
use portolan_model::ir::{ClusterKey, ClusterPlan, Discovery, UpstreamProtocol};
use portolan_proto::envoy::cluster::cluster::{
    ClusterDiscoveryType, CustomClusterType, DiscoveryType, EdsClusterConfig, LbPolicy,
};
use portolan_proto::envoy::cluster::{CircuitBreakers, Cluster, circuit_breakers::Thresholds};
use portolan_proto::envoy::common_dns::DnsLookupFamily;
use portolan_proto::envoy::dns_cluster::DnsCluster;
use portolan_proto::envoy::endpoint::{
    ClusterLoadAssignment, Endpoint, LbEndpoint, LocalityLbEndpoints, lb_endpoint::HostIdentifier,
};
use portolan_proto::envoy::http_protocol_options::HttpProtocolOptions;
use portolan_proto::envoy::http_protocol_options::http_protocol_options::{
    ExplicitHttpConfig, UpstreamProtocolOptions, explicit_http_config::ProtocolConfig,
};
use portolan_proto::envoy::{Duration, UInt32Value, core, pack_any};
use portolan_proto::{Body, Content, Resource, ResourceType};
use prost::Message;

use crate::version::version;
use crate::{ADS, address, key, origin};

/// Name of the cluster that stands for a backend that cannot be used. No such cluster ever exists, so that the backend's share of
/// the requests is answered 500 (HTTPRouteRule.backendRefs: "500 status code").
pub const INVALID_CLUSTER: &str = "portolan/invalid";

/// Envoy waits this long for a connection; its own default, written down so that it is ours.
const CONNECT_TIMEOUT_SECONDS: i64 = 5;

const PROTOCOL_OPTIONS: &str = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions";

/// The cluster of a backend. It refers to its endpoints, which must follow it on every push (envoy.md: Envoy does not ask again).
#[must_use]
pub fn cluster(plan: &ClusterPlan) -> Resource {
    let name: Arc<str> = plan.key.resource_name().into();
    let mut message = base(&name, plan.key.protocol);
    let references = match &plan.discovery {
        Discovery::Endpoints => {
            message.cluster_discovery_type = Some(ClusterDiscoveryType::Type(DiscoveryType::Eds.into()));
            // No service_name: endpoints have the cluster's own name. Two clusters must not share one (Envoy would not ask for
            // the endpoints of the second).
            message.eds_cluster_config = Some(EdsClusterConfig { eds_config: Some(ADS), ..Default::default() });
            Arc::from([key::endpoints_key(&name)])
        }
        Discovery::Dns(hosts) => {
            message.cluster_discovery_type = Some(by_dns());
            message.load_assignment = Some(named_hosts(&name, hosts));
            Arc::from([])
        }
    };
    Resource {
        key: key::cluster_key(&name),
        version: version(ResourceType::Cluster, plan),
        body: Body::new(Content::Message(message.encode_to_vec().into())),
        references,
        origins: Arc::from([origin::of_backend(&plan.key.backend)]),
    }
}

/// What clusters have in common, whatever tells them their endpoints.
fn base(name: &str, protocol: UpstreamProtocol) -> Cluster {
    Cluster {
        name: name.into(),
        connect_timeout: Some(Duration { seconds: CONNECT_TIMEOUT_SECONDS, nanos: 0 }),
        // Of two endpoints picked at random the one with fewer requests in flight: as fair as round robin when all are equal, and
        // kinder to one that is slow or has just started.
        lb_policy: LbPolicy::LeastRequest.into(),
        circuit_breakers: Some(unlimited()),
        // An endpoint that leaves the endpoints leaves Envoy at once.
        ignore_health_on_host_removal: true,
        typed_extension_protocol_options: HashMap::from([(PROTOCOL_OPTIONS.into(), protocol_options(protocol))]),
        ..Default::default()
    }
}

/// Envoy's default of 1,024 requests in flight answers 503 where nobody asked for a limit (design invariant 8).
pub fn unlimited() -> CircuitBreakers {
    let maximum = Some(UInt32Value { value: u32::MAX });
    CircuitBreakers {
        thresholds: vec![Thresholds {
            max_connections: maximum,
            max_pending_requests: maximum,
            max_requests: maximum,
            max_retries: maximum,
            ..Default::default()
        }],
        ..Default::default()
    }
}

fn protocol_options(protocol: UpstreamProtocol) -> portolan_proto::envoy::Any {
    let config = match protocol {
        UpstreamProtocol::Http2 => ProtocolConfig::Http2ProtocolOptions(core::Http2ProtocolOptions::default()),
        // A websocket is an upgrade of HTTP/1.1.
        UpstreamProtocol::Http1 | UpstreamProtocol::WebSocket => {
            ProtocolConfig::HttpProtocolOptions(core::Http1ProtocolOptions::default())
        }
    };
    pack_any(HttpProtocolOptions {
        upstream_protocol_options: Some(UpstreamProtocolOptions::ExplicitHttpConfig(ExplicitHttpConfig {
            protocol_config: Some(config),
        })),
        ..Default::default()
    })
}

/// Strict DNS: every address that a name resolves to is an endpoint, as clients inside the cluster see an ExternalName Service.
/// IPv4 where there is any, since proxies without IPv6 are common; IPv6 else.
fn by_dns() -> ClusterDiscoveryType {
    ClusterDiscoveryType::ClusterType(CustomClusterType {
        name: "envoy.clusters.dns".into(),
        typed_config: Some(pack_any(DnsCluster {
            respect_dns_ttl: true,
            dns_lookup_family: DnsLookupFamily::V4Preferred.into(),
            ..Default::default()
        })),
    })
}

fn named_hosts(cluster: &str, hosts: &[(Name, u16)]) -> ClusterLoadAssignment {
    let endpoint = |(host, port): &(Name, u16)| LbEndpoint {
        host_identifier: Some(HostIdentifier::Endpoint(Endpoint {
            address: Some(address::socket(&**host, *port)),
            ..Default::default()
        })),
        ..Default::default()
    };
    ClusterLoadAssignment {
        cluster_name: cluster.into(),
        endpoints: vec![LocalityLbEndpoints {
            lb_endpoints: hosts.iter().map(endpoint).collect(),
            ..Default::default()
        }],
        ..Default::default()
    }
}

/// The name under which routes refer to a cluster.
pub fn name_of(key: &ClusterKey) -> Name {
    key.resource_name().into()
}
