//! Where Envoy gets what a resource names: always from the stream that delivered the resource.

use portolan_proto::envoy::core::{
    AggregatedConfigSource, ApiVersion, ConfigSource, config_source::ConfigSourceSpecifier,
};

/// The one ConfigSource in everything Portolan sends.
///
/// Frozen: Envoy tells subscriptions apart by the bytes of this message. With other bytes a secret that Envoy already watches is
/// watched anew without a request, and its listener opens without a certificate (envoyproxy/envoy#47309, which upgrades of Envoy
/// Gateway ran into). So no `initial_fetch_timeout` either, whatever its value.
pub const ADS: ConfigSource = ConfigSource {
    authorities: Vec::new(),
    initial_fetch_timeout: None,
    resource_api_version: ApiVersion::V3 as i32,
    config_source_specifier: Some(ConfigSourceSpecifier::Ads(AggregatedConfigSource {})),
};

#[cfg(test)]
mod tests {
    use super::*;
    use prost::Message;

    #[test]
    fn the_bytes_are_frozen() {
        // Field 3 (ads): empty message. Field 6 (resource_api_version): 2.
        assert_eq!(ADS.encode_to_vec(), [0x1a, 0x00, 0x30, 0x02]);
    }
}
