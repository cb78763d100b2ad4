//! How Envoy reaches Portolan.

use std::collections::HashMap;

use portolan_proto::envoy::bootstrap::bootstrap::DynamicResources;
use portolan_proto::envoy::cluster::Cluster;
use portolan_proto::envoy::cluster::cluster::{ClusterDiscoveryType, DiscoveryType};
use portolan_proto::envoy::core::api_config_source::ApiType;
use portolan_proto::envoy::core::config_source::ConfigSourceSpecifier;
use portolan_proto::envoy::core::grpc_service::{EnvoyGrpc, TargetSpecifier};
use portolan_proto::envoy::core::{
    Address, ApiConfigSource, ApiVersion, BackoffStrategy, ConfigSource, DataSource, GrpcService, Http2ProtocolOptions,
    KeepaliveSettings, PathConfigSource, RetryPolicy, TransportSocket, data_source::Specifier, transport_socket,
};
use portolan_proto::envoy::endpoint::{
    ClusterLoadAssignment, Endpoint, LbEndpoint, LocalityLbEndpoints, lb_endpoint::HostIdentifier,
};
use portolan_proto::envoy::http_protocol_options::HttpProtocolOptions;
use portolan_proto::envoy::http_protocol_options::http_protocol_options::{
    ExplicitHttpConfig, UpstreamProtocolOptions, explicit_http_config::ProtocolConfig,
};
use portolan_proto::envoy::matcher::{StringMatcher, string_matcher::MatchPattern};
use portolan_proto::envoy::tls::common_tls_context::{CombinedCertificateValidationContext, ValidationContextType};
use portolan_proto::envoy::tls::subject_alt_name_matcher::SanType;
use portolan_proto::envoy::tls::{
    CertificateValidationContext, CommonTlsContext, SdsSecretConfig, SubjectAltNameMatcher, TlsCertificate,
    TlsParameters, UpstreamTlsContext, tls_parameters::TlsProtocol,
};
use portolan_proto::envoy::{Any, Duration, pack_any};

use crate::http_connection::seconds;
use crate::{ADS, address};

/// Name of the cluster that is Portolan itself.
pub const XDS_CLUSTER: &str = "portolan/xds";

// How late a proxy hears of a change when its replica of Portolan goes away follows from these four (ARCHITECTURE.md, "Late proxies").

/// How often a proxy asks whether its replica is there; Envoy adds up to 15 %.
const PING: Duration = seconds(5);
/// How long the answer may take. A replica that has much to do answers late; a proxy that takes it for gone has to tell another all that it has.
const PONG: Duration = seconds(5);
/// How long a connection may take, with TLS. A Service leads to a node that is gone until that has been noticed, after 40 s by default.
const CONNECT: Duration = seconds(2);
/// The longest wait until the next attempt. Envoy's own is half a minute.
const RECONNECT: Duration = seconds(2);

/// Where Portolan serves xDS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum XdsServer {
    /// A Unix socket, whose permissions say who may connect
    Unix {
        /// Of the socket, as the proxy sees it
        path: String,
    },
    /// Over the network, both sides with certificates
    Tcp {
        /// Name or address
        host: String,
        /// Where Portolan listens
        port: u16,
        /// The proxy's credentials, and whom it trusts
        tls: ServerTls,
    },
}

/// Files and names for mutual TLS with Portolan, as the proxy sees them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerTls {
    /// PEM file: the proxy's certificate with its chain
    pub certificate: String,
    /// PEM file: its key
    pub private_key: String,
    /// PEM file: the authorities that Portolan's certificate must come from
    pub authorities: String,
    /// The name that Portolan's certificate must have
    pub server_name: String,
    /// `Some`: the proxy reads the PEM files again when they change, through these files
    pub secrets: Option<SecretFiles>,
}

/// What Envoy needs to follow files that change, which it does only for secrets that SDS delivers; here SDS is a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretFiles {
    /// File with a DiscoveryResponse that holds [`IDENTITY_SECRET`]
    pub identity: String,
    /// File with a DiscoveryResponse that holds [`AUTHORITIES_SECRET`]
    pub authorities: String,
}

/// Name of the SDS resource with the proxy's certificate.
pub const IDENTITY_SECRET: &str = "portolan/identity";
/// Name of the SDS resource that says whom the proxy trusts.
pub const AUTHORITIES_SECRET: &str = "portolan/authorities";

/// Listeners and clusters over one delta stream, on which everything else follows.
pub fn dynamic_resources() -> DynamicResources {
    let reconnect = BackoffStrategy {
        base_interval: Some(Duration { seconds: 0, nanos: 100_000_000 }),
        max_interval: Some(RECONNECT),
    };
    let server = EnvoyGrpc {
        cluster_name: XDS_CLUSTER.into(),
        // Otherwise the cluster's name, whose slash is no part of an authority (RFC 3986 3.2): HTTP/2 servers refuse such requests.
        authority: "portolan".into(),
        retry_policy: Some(RetryPolicy { retry_back_off: Some(reconnect), ..Default::default() }),
        ..Default::default()
    };
    DynamicResources {
        lds_config: Some(ADS),
        cds_config: Some(ADS),
        ads_config: Some(ApiConfigSource {
            api_type: ApiType::DeltaGrpc.into(),
            transport_api_version: ApiVersion::V3.into(),
            grpc_services: vec![GrpcService {
                target_specifier: Some(TargetSpecifier::EnvoyGrpc(server)),
                ..Default::default()
            }],
            set_node_on_first_message_only: true,
            ..Default::default()
        }),
        ..Default::default()
    }
}

pub fn cluster(server: &XdsServer) -> Cluster {
    let (discovery, server_address, transport_socket) = match server {
        XdsServer::Unix { path } => (DiscoveryType::Static, address::unix(path, 0), None),
        XdsServer::Tcp { host, port, tls } => {
            (DiscoveryType::StrictDns, address::socket(host, *port), Some(transport_socket(tls)))
        }
    };
    Cluster {
        name: XDS_CLUSTER.into(),
        cluster_discovery_type: Some(ClusterDiscoveryType::Type(discovery.into())),
        connect_timeout: Some(CONNECT),
        load_assignment: Some(one_endpoint(server_address)),
        typed_extension_protocol_options: HashMap::from([(
            "envoy.extensions.upstreams.http.v3.HttpProtocolOptions".into(),
            http2_with_keepalive(),
        )]),
        transport_socket,
        ..Default::default()
    }
}

fn one_endpoint(at: Address) -> ClusterLoadAssignment {
    ClusterLoadAssignment {
        cluster_name: XDS_CLUSTER.into(),
        endpoints: vec![LocalityLbEndpoints {
            lb_endpoints: vec![LbEndpoint {
                host_identifier: Some(HostIdentifier::Endpoint(Endpoint { address: Some(at), ..Default::default() })),
                ..Default::default()
            }],
            ..Default::default()
        }],
        ..Default::default()
    }
}

/// A replica whose node is gone says nothing of it: without keep-alive a proxy waits for it until TCP gives up, a quarter of an hour.
fn http2_with_keepalive() -> Any {
    pack_any(HttpProtocolOptions {
        upstream_protocol_options: Some(UpstreamProtocolOptions::ExplicitHttpConfig(ExplicitHttpConfig {
            protocol_config: Some(ProtocolConfig::Http2ProtocolOptions(Http2ProtocolOptions {
                connection_keepalive: Some(KeepaliveSettings {
                    interval: Some(PING),
                    timeout: Some(PONG),
                    ..Default::default()
                }),
                ..Default::default()
            })),
        })),
        ..Default::default()
    })
}

fn transport_socket(tls: &ServerTls) -> TransportSocket {
    let name =
        StringMatcher { match_pattern: Some(MatchPattern::Exact(tls.server_name.clone())), ..Default::default() };
    let names =
        vec![SubjectAltNameMatcher { san_type: SanType::Dns.into(), matcher: Some(name), ..Default::default() }];
    let mut common = CommonTlsContext {
        tls_params: Some(TlsParameters {
            tls_minimum_protocol_version: TlsProtocol::TlSv13.into(),
            tls_maximum_protocol_version: TlsProtocol::TlSv13.into(),
            ..Default::default()
        }),
        alpn_protocols: vec!["h2".into()],
        ..Default::default()
    };
    let mut validation = CertificateValidationContext { match_typed_subject_alt_names: names, ..Default::default() };
    common.validation_context_type = Some(match &tls.secrets {
        Some(secrets) => {
            common.tls_certificate_sds_secret_configs = vec![sds_file(IDENTITY_SECRET, &secrets.identity)];
            ValidationContextType::CombinedValidationContext(CombinedCertificateValidationContext {
                default_validation_context: Some(validation),
                validation_context_sds_secret_config: Some(sds_file(AUTHORITIES_SECRET, &secrets.authorities)),
                ..Default::default()
            })
        }
        None => {
            common.tls_certificates = vec![TlsCertificate {
                certificate_chain: Some(file(&tls.certificate)),
                private_key: Some(file(&tls.private_key)),
                ..Default::default()
            }];
            validation.trusted_ca = Some(file(&tls.authorities));
            ValidationContextType::ValidationContext(validation)
        }
    });
    let context =
        UpstreamTlsContext { sni: tls.server_name.clone(), common_tls_context: Some(common), ..Default::default() };
    TransportSocket {
        name: "envoy.transport_sockets.tls".into(),
        config_type: Some(transport_socket::ConfigType::TypedConfig(pack_any(context))),
    }
}

fn file(path: &str) -> DataSource {
    DataSource { specifier: Some(Specifier::Filename(path.into())), ..Default::default() }
}

fn sds_file(name: &str, path: &str) -> SdsSecretConfig {
    SdsSecretConfig {
        name: name.into(),
        sds_config: Some(ConfigSource {
            resource_api_version: ApiVersion::V3.into(),
            config_source_specifier: Some(ConfigSourceSpecifier::PathConfigSource(PathConfigSource {
                path: path.into(),
                ..Default::default()
            })),
            ..Default::default()
        }),
    }
}
