//! The HTTP connection manager: what is done to a request before any route.

use portolan_model::objects::AccessLog;
use portolan_proto::envoy::core::{CidrRange, Http2ProtocolOptions, HttpProtocolOptions};
use portolan_proto::envoy::hcm::http_connection_manager::{
    CodecType, InternalAddressConfig, PathWithEscapedSlashesAction, RouteSpecifier, ServerHeaderTransformation,
    UpgradeConfig,
};
use portolan_proto::envoy::hcm::{HttpConnectionManager, HttpFilter, Rds, http_filter::ConfigType};
use portolan_proto::envoy::listener::{Filter, filter};
use portolan_proto::envoy::{Any, BoolValue, Duration, UInt32Value, cors, pack_any, router};

use crate::ADS;
use crate::access_log::access_log;

/// Name of the filter that routes with a CORS policy configure.
pub const CORS_FILTER: &str = "envoy.filters.http.cors";
/// Name of the filter, as type URLs and static configuration find it.
pub const FILTER: &str = "envoy.filters.network.http_connection_manager";

/// A stream on which nothing moves for this long is ended; a route with a longer timeout extends it. Envoy's default and its
/// recommendation for edge proxies.
pub const STREAM_IDLE_SECONDS: i64 = 300;
/// Time for a client to send its headers, against clients that send them drop by drop.
const REQUEST_HEADERS_SECONDS: i64 = 30;
/// HTTP/2 limits of Envoy's guide "Configuring Envoy as an edge proxy".
const HTTP2_STREAMS: u32 = 100;
const HTTP2_STREAM_WINDOW: u32 = 64 * 1024;
const HTTP2_CONNECTION_WINDOW: u32 = 1024 * 1024;

/// The network filter that serves HTTP by the route table `table`.
pub fn filter(stat_prefix: &str, table: &str, access_logs: &[AccessLog]) -> Filter {
    let manager = HttpConnectionManager {
        access_log: access_logs.iter().map(access_log).collect(),
        ..connection_manager(stat_prefix, table)
    };
    Filter { name: FILTER.into(), config_type: Some(filter::ConfigType::TypedConfig(pack_any(manager))) }
}

/// Settings follow Envoy's guide for edge proxies, with these differences:
/// - `headers_with_underscores_action` stays at ALLOW: HTTPHeaderMatch admits names with underscores, and a match on a header that
///   is removed before could never hold.
/// - no `request_timeout`: it would cut long uploads. Slow headers have a limit of their own, silence too.
///
/// Paths are normalised (dot segments, doubled slashes, escaped slashes) so that `/public/../admin` meets the rules for `/admin`; a
/// request with an escaped slash is redirected to its plain form, as the guide says.
fn connection_manager(stat_prefix: &str, table: &str) -> HttpConnectionManager {
    HttpConnectionManager {
        // HTTP/2 by ALPN, or in clear text by its preface (h2c with prior knowledge)
        codec_type: CodecType::Auto.into(),
        stat_prefix: stat_prefix.into(),
        route_specifier: Some(RouteSpecifier::Rds(Rds { config_source: Some(ADS), route_config_name: table.into() })),
        http_filters: http_filters(),
        // The client is who connects: what it says in X-Forwarded-For is passed on but not believed.
        use_remote_address: Some(BoolValue { value: true }),
        xff_num_trusted_hops: 0,
        internal_address_config: Some(nobody_internal()),
        normalize_path: Some(BoolValue { value: true }),
        merge_slashes: true,
        path_with_escaped_slashes_action: PathWithEscapedSlashesAction::UnescapeAndRedirect.into(),
        upgrade_configs: vec![UpgradeConfig { upgrade_type: "websocket".into(), ..Default::default() }],
        common_http_protocol_options: Some(HttpProtocolOptions {
            idle_timeout: Some(seconds(3600)),
            ..Default::default()
        }),
        http2_protocol_options: Some(Http2ProtocolOptions {
            max_concurrent_streams: Some(UInt32Value { value: HTTP2_STREAMS }),
            initial_stream_window_size: Some(UInt32Value { value: HTTP2_STREAM_WINDOW }),
            initial_connection_window_size: Some(UInt32Value { value: HTTP2_CONNECTION_WINDOW }),
            ..Default::default()
        }),
        stream_idle_timeout: Some(seconds(STREAM_IDLE_SECONDS)),
        request_headers_timeout: Some(seconds(REQUEST_HEADERS_SECONDS)),
        // The backend's own `Server` header, or none.
        server_header_transformation: ServerHeaderTransformation::PassThrough.into(),
        ..Default::default()
    }
}

/// Clients inside are no more to be trusted than others: behind a load balancer everybody has an internal address, and `x-envoy-*`
/// headers of an internal client would set timeouts and retries. Without any range Envoy takes the private ones, so there is one that
/// no client can have (the broadcast address).
fn nobody_internal() -> InternalAddressConfig {
    InternalAddressConfig {
        cidr_ranges: vec![CidrRange {
            address_prefix: "255.255.255.255".into(),
            prefix_len: Some(UInt32Value { value: 32 }),
        }],
        ..Default::default()
    }
}

/// The filters of every HTTP listener, installed once: each does nothing until a route configures it, and decides that per request.
/// Never `disabled: true`, which Envoy evaluates with the first route only (design section 5).
fn http_filters() -> Vec<HttpFilter> {
    vec![
        http_filter(CORS_FILTER, pack_any(cors::Cors::default())),
        http_filter(
            "envoy.filters.http.router",
            // Backends and clients get none of Envoy's own x-envoy-* headers.
            pack_any(router::Router { suppress_envoy_headers: true, ..Default::default() }),
        ),
    ]
}

fn http_filter(name: &str, config: Any) -> HttpFilter {
    HttpFilter { name: name.into(), config_type: Some(ConfigType::TypedConfig(config)), ..Default::default() }
}

pub const fn seconds(seconds: i64) -> Duration {
    Duration { seconds, nanos: 0 }
}
