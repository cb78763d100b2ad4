//! TLS towards clients.

use portolan_model::NamespacedName;
use portolan_proto::envoy::core::{TransportSocket, transport_socket::ConfigType};
use portolan_proto::envoy::pack_any;
use portolan_proto::envoy::tls::{
    CommonTlsContext, DownstreamTlsContext, SdsSecretConfig, TlsParameters, tls_parameters::TlsProtocol,
};

use crate::{ADS, key};

/// Termination with these certificates, which Envoy chooses among by SNI.
pub fn downstream(certificates: &[NamespacedName]) -> TransportSocket {
    let secret = |name| SdsSecretConfig { name: key::secret_key(name).name.to_string(), sds_config: Some(ADS) };
    let context = DownstreamTlsContext {
        common_tls_context: Some(CommonTlsContext {
            tls_params: Some(TlsParameters {
                // RFC 8996 ends TLS 1.0 and 1.1.
                tls_minimum_protocol_version: TlsProtocol::TlSv12.into(),
                tls_maximum_protocol_version: TlsProtocol::TlSv13.into(),
                ..Default::default()
            }),
            tls_certificate_sds_secret_configs: certificates.iter().map(secret).collect(),
            // HTTP/2 stays on offer where certificates overlap: a request under a name of another listener gets 421.
            alpn_protocols: vec!["h2".into(), "http/1.1".into()],
            ..Default::default()
        }),
        ..Default::default()
    };
    TransportSocket {
        name: "envoy.transport_sockets.tls".into(),
        config_type: Some(ConfigType::TypedConfig(pack_any(context))),
    }
}
