//! The real Envoy as the other tests use it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

use std::time::Duration;

use portolan_testkit::client::{Address, Endpoint};
use portolan_testkit::envoy::{self, Envoy, EnvoyOptions};
use portolan_testkit::load::{Kind, Load, Worker, backend};
use portolan_testkit::{Echo, EchoOptions, ports};

const LIMIT: Duration = Duration::from_secs(20);

/// One listener that forwards everything, websockets too, to one address.
fn proxy(admin: &str, listen: u16, backend: std::net::SocketAddr) -> String {
    format!(
        r#"{{"admin": {{"address": {admin}}},
        "static_resources": {{
          "listeners": [{{"name": "l", "address": {{"socket_address": {{"address": "127.0.0.1", "port_value": {listen}}}}},
            "filter_chains": [{{"filters": [{{"name": "envoy.filters.network.http_connection_manager", "typed_config": {{
              "@type": "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
              "stat_prefix": "l", "upgrade_configs": [{{"upgrade_type": "websocket"}}],
              "route_config": {{"virtual_hosts": [{{"name": "all", "domains": ["*"], "routes": [{{"match": {{"prefix": "/"}}, "route": {{"cluster": "c"}}}}]}}]}},
              "http_filters": [{{"name": "router", "typed_config": {{"@type": "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router"}}}}]
            }}}}]}}]}}],
          "clusters": [{{"name": "c", "connect_timeout": "1s", "load_assignment": {{"cluster_name": "c", "endpoints": [{{"lb_endpoints": [{{"endpoint":
            {{"address": {{"socket_address": {{"address": "{}", "port_value": {}}}}}}}}}]}}]}}}}]
        }}}}"#,
        backend.ip(),
        backend.port()
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn traffic_flows_through_it_and_its_end_is_noticed() {
    let echo = Echo::start(EchoOptions::named("a")).await.unwrap();
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("admin.sock");
    let listen = ports::address().unwrap();
    let admin = format!(r#"{{"pipe": {{"path": "{}"}}}}"#, socket.display());
    let config = proxy(&admin, listen.port(), echo.address());
    envoy::validate(&config).unwrap();

    let mut proxy = Envoy::start(&EnvoyOptions::new(config, Address::Unix(socket))).unwrap();
    proxy.ready(LIMIT).await.unwrap();
    let worker =
        |name, kind, endpoint: Endpoint| Worker::get(name, kind, endpoint, "http://a/", 100.0, backend("a")).unwrap();
    let load = Load::start(&[
        worker("http1", Kind::KeepAlive, Endpoint::http1(listen)),
        worker("http2", Kind::Streams(2), Endpoint::http2(listen)),
        worker("websocket", Kind::Websocket, Endpoint::http1(listen)),
    ]);
    load.further(200, LIMIT).await.unwrap();

    // Envoy announces on every connection that it drains, and goes on serving: no failure, but new connections.
    proxy.admin_post("/healthcheck/fail").await.unwrap();
    load.further(200, LIMIT).await.unwrap();
    assert_eq!(load.failed(), 0, "{}", load.stop().await.unwrap());
    assert!(proxy.stat("http.l.downstream_rq_total").await.unwrap().unwrap() >= 200);
    assert_eq!(proxy.stat("no.such.stat").await.unwrap(), None);

    proxy.process.kill().unwrap();
    load.further(100, LIMIT).await.unwrap();
    let report = load.stop().await.unwrap();
    assert!(report.failed() > 50, "{report}");
    assert!(report.workers["http1"].connections > 10 && report.workers["http2"].connections > 10, "{report}");
    assert!(proxy.admin("/ready").await.is_err());
}

#[tokio::test]
async fn what_envoy_refuses_is_an_error_in_its_words() {
    let error = envoy::validate(r#"{"static_resources": {"clusters": [{"name": ""}]}}"#).unwrap_err().to_string();
    assert!(error.contains("Name: value length must be at least 1"), "{error}");

    let port = ports::free().unwrap();
    let admin: std::net::SocketAddr = ([127, 0, 0, 1], port).into();
    let mut envoy = Envoy::start(&EnvoyOptions::new(r#"{"no_such_field": 1}"#, admin)).unwrap();
    let error = envoy.ready(LIMIT).await.unwrap_err().to_string();
    assert!(error.contains("no_such_field"), "{error}");
}
