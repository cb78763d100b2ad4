//! Envoy's messages under short names: `envoy::route::Route` instead of five levels of packages.
//!
//! One module per package that Portolan emits or reads. A package that is missing here is added here, never spelled out where it is
//! used; its descriptors come along with `examples/trim-descriptors.rs`.

use envoy_types::pb::envoy as v3;
use envoy_types::pb::envoy::extensions as ext;

pub use envoy_types::pb::google::protobuf::{Any, BoolValue, Duration, Struct, UInt32Value, UInt64Value, Value, value};
pub use envoy_types::util::pack_any;

/// `google.protobuf`: wrappers, durations, structures
pub mod protobuf {
    pub use envoy_types::pb::google::protobuf::*;
}
/// `google.rpc`: the status in a refusal
pub mod rpc {
    pub use envoy_types::pb::google::rpc::*;
}
/// `xds.core.v3` and `xds.type.matcher.v3`: the unified matcher
pub mod xds {
    pub use envoy_types::pb::xds::core::v3 as core;
    pub use envoy_types::pb::xds::r#type::matcher::v3 as matcher;
}

// Configuration proper
pub use v3::config::accesslog::v3 as accesslog;
pub use v3::config::bootstrap::v3 as bootstrap;
pub use v3::config::cluster::v3 as cluster;
pub use v3::config::common::matcher::v3 as common_matcher;
pub use v3::config::common::mutation_rules::v3 as mutation_rules;
pub use v3::config::core::v3 as core;
pub use v3::config::endpoint::v3 as endpoint;
pub use v3::config::listener::v3 as listener;
pub use v3::config::metrics::v3 as metrics;
pub use v3::config::overload::v3 as overload;
pub use v3::config::ratelimit::v3 as ratelimit_service;
pub use v3::config::rbac::v3 as rbac_rules;
pub use v3::config::route::v3 as route;
pub use v3::config::trace::v3 as trace;
pub use v3::r#type::http::v3 as type_http;
pub use v3::r#type::matcher::v3 as matcher;
pub use v3::r#type::tracing::v3 as type_tracing;
pub use v3::r#type::v3 as types;

// Services: what proxies and Portolan say to each other
pub use v3::admin::v3 as admin;
pub use v3::service::discovery::v3 as discovery;

// Listener filters
pub use ext::filters::listener::http_inspector::v3 as http_inspector;
pub use ext::filters::listener::proxy_protocol::v3 as proxy_protocol_filter;
pub use ext::filters::listener::tls_inspector::v3 as tls_inspector;

// Network and UDP filters
pub use ext::filters::network::connection_limit::v3 as connection_limit;
pub use ext::filters::network::direct_response::v3 as network_direct_response;
pub use ext::filters::network::http_connection_manager::v3 as hcm;
pub use ext::filters::network::local_ratelimit::v3 as network_local_ratelimit;
pub use ext::filters::network::rbac::v3 as network_rbac;
pub use ext::filters::network::tcp_proxy::v3 as tcp_proxy;
pub use ext::filters::udp::udp_proxy::v3 as udp_proxy;

// HTTP filters
pub use ext::filters::common::fault::v3 as common_fault;
pub use ext::filters::http::api_key_auth::v3 as api_key_auth;
pub use ext::filters::http::basic_auth::v3 as basic_auth;
pub use ext::filters::http::buffer::v3 as buffer;
pub use ext::filters::http::composite::v3 as composite;
pub use ext::filters::http::compressor::v3 as compressor;
pub use ext::filters::http::cors::v3 as cors;
pub use ext::filters::http::credential_injector::v3 as credential_injector;
pub use ext::filters::http::csrf::v3 as csrf;
pub use ext::filters::http::custom_response::v3 as custom_response;
pub use ext::filters::http::decompressor::v3 as decompressor;
pub use ext::filters::http::ext_authz::v3 as ext_authz;
pub use ext::filters::http::ext_proc::v3 as ext_proc;
pub use ext::filters::http::fault::v3 as fault;
pub use ext::filters::http::grpc_stats::v3 as grpc_stats;
pub use ext::filters::http::grpc_web::v3 as grpc_web;
pub use ext::filters::http::header_mutation::v3 as header_mutation;
pub use ext::filters::http::health_check::v3 as health_check;
pub use ext::filters::http::jwt_authn::v3 as jwt_authn;
pub use ext::filters::http::local_ratelimit::v3 as local_ratelimit;
pub use ext::filters::http::lua::v3 as lua;
pub use ext::filters::http::oauth2::v3 as oauth2;
pub use ext::filters::http::ratelimit::v3 as ratelimit;
pub use ext::filters::http::rbac::v3 as rbac;
pub use ext::filters::http::router::v3 as router;
pub use ext::filters::http::set_filter_state::v3 as set_filter_state;
pub use ext::filters::http::stateful_session::v3 as stateful_session;
pub use ext::filters::http::wasm::v3 as wasm;

// Parts of the HTTP connection manager and of routes
pub use ext::http::early_header_mutation::header_mutation::v3 as early_header_mutation;
pub use ext::http::header_formatters::preserve_case::v3 as preserve_case;
pub use ext::http::original_ip_detection::custom_header::v3 as custom_header_ip_detection;
pub use ext::http::original_ip_detection::xff::v3 as xff_ip_detection;
pub use ext::http::stateful_session::cookie::v3 as session_cookie;
pub use ext::http::stateful_session::header::v3 as session_header;
pub use ext::path::r#match::uri_template::v3 as uri_template_match;
pub use ext::path::rewrite::uri_template::v3 as uri_template_rewrite;
pub use ext::request_id::uuid::v3 as uuid_request_id;
pub use ext::retry::host::previous_hosts::v3 as previous_hosts;

// Clusters
pub use ext::clusters::common::dns::v3 as common_dns;
pub use ext::clusters::dns::v3 as dns_cluster;
pub use ext::clusters::dynamic_forward_proxy::v3 as dynamic_forward_proxy_cluster;
pub use ext::load_balancing_policies::common::v3 as lb_common;
pub use ext::load_balancing_policies::least_request::v3 as least_request;
pub use ext::load_balancing_policies::maglev::v3 as maglev;
pub use ext::load_balancing_policies::random::v3 as random;
pub use ext::load_balancing_policies::ring_hash::v3 as ring_hash;
pub use ext::load_balancing_policies::round_robin::v3 as round_robin;
pub use ext::network::dns_resolver::cares::v3 as cares;
pub use ext::upstreams::http::v3 as http_protocol_options;
pub use ext::upstreams::tcp::v3 as tcp_protocol_options;

// Transport sockets and secrets
pub use ext::transport_sockets::internal_upstream::v3 as internal_upstream;
pub use ext::transport_sockets::proxy_protocol::v3 as upstream_proxy_protocol;
pub use ext::transport_sockets::quic::v3 as quic;
pub use ext::transport_sockets::raw_buffer::v3 as raw_buffer;
pub use ext::transport_sockets::tls::v3 as tls;

// Access logs, formatters, matching, process
pub use ext::access_loggers::file::v3 as file_access_log;
pub use ext::access_loggers::grpc::v3 as grpc_access_log;
pub use ext::access_loggers::open_telemetry::v3 as otel_access_log;
pub use ext::access_loggers::stream::v3 as stream_access_log;
pub use ext::bootstrap::internal_listener::v3 as internal_listener;
pub use ext::compression::brotli::compressor::v3 as brotli_compressor;
pub use ext::compression::gzip::compressor::v3 as gzip_compressor;
pub use ext::compression::zstd::compressor::v3 as zstd_compressor;
pub use ext::formatter::req_without_query::v3 as req_without_query;
pub use ext::matching::common_inputs::network::v3 as network_inputs;
pub use ext::matching::common_inputs::ssl::v3 as ssl_inputs;
pub use ext::regex_engines::v3 as regex_engines;
pub use ext::resource_monitors::downstream_connections::v3 as downstream_connections;
pub use ext::resource_monitors::fixed_heap::v3 as fixed_heap;
