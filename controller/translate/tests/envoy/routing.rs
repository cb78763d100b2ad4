//! Which backend a request reaches.

use std::collections::BTreeMap;

use bytes::Bytes;
use http::{Method, StatusCode};
use portolan_model::ir::*;
use portolan_model::objects::Fraction;
use portolan_testkit::client::{Endpoint, get};
use portolan_testkit::echo::grpc_call;
use portolan_testkit::ports;

use crate::cases::build::*;
use crate::proxy::{Proxy, seen};

fn respond(request: RequestMatch, status: u16) -> std::sync::Arc<ResolvedRule> {
    rule(request, RuleAction::Respond(status))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn matches_hold_as_the_gateway_api_says() {
    let conditions = RequestMatch {
        method: Some("POST".into()),
        headers: vec![exact("x-tier", "gold"), regex("x-version", "v[12]")],
        query: vec![exact("Page", "1")],
        ..prefix("/all")
    };
    let proxy = Proxy::http(vec![
        respond(on(PathSpec::Exact("/cart".into())), 201),
        respond(prefix("/cart"), 202),
        respond(on(PathSpec::Regex("/v[0-9]+".into())), 203),
        respond(conditions, 205),
        respond(on(PathSpec::RawPrefix("/raw/".into())), 206),
        respond(RequestMatch { grpc: true, ..any() }, 500),
    ])
    .await;
    let gold: &[(&str, &str)] = &[("X-Tier", "gold"), ("x-version", "v2")];
    for (method, path, headers, status) in [
        (Method::GET, "/cart", &[][..], 201),
        (Method::GET, "/cart?x=1", &[], 201),
        (Method::GET, "/cart/", &[], 202),
        (Method::GET, "/cart/one", &[], 202),
        (Method::GET, "/cartoon", &[], 404),
        (Method::GET, "/v12", &[], 203),
        (Method::GET, "/v12/x", &[], 404),
        (Method::POST, "/all?Page=1", gold, 205),
        (Method::GET, "/all?Page=1", gold, 404),
        (Method::POST, "/all?page=1", gold, 404),
        (Method::POST, "/all?Page=1", &[("x-tier", "gold"), ("x-version", "v3")], 404),
        (Method::POST, "/all?Page=1", &[("x-tier", "gold")], 404),
        (Method::GET, "/raw/x", &[], 206),
        (Method::GET, "/raw", &[], 404),
        // Paths are normalised before they are matched.
        (Method::GET, "/cart/../v1", &[], 203),
        (Method::GET, "//cart", &[], 201),
        (Method::GET, "/x%2Fy", &[], 307),
        (Method::GET, "/", &[("content-type", "application/grpc")], 200),
    ] {
        let exchange = proxy.send(method.clone(), path, headers).await;
        assert_eq!(exchange.status.as_u16(), status, "{method} {path} {headers:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hosts_match_without_their_port_and_reach_the_backend_as_sent() {
    let port = ports::free().unwrap();
    let id = http_table(port);
    let hosts = [
        host(id.clone(), "a.test", vec![rule(any(), RuleAction::Forward(to("a")))]),
        host(id.clone(), "*.test", vec![rule(any(), RuleAction::Forward(to("b")))]),
        HostPlan { otherwise: 421, ..host(id, "*", Vec::new()) },
    ];
    let proxy = Proxy::hosts(port, &hosts).await;
    for (name, backend) in [("a.test", "a"), ("A.test:1234", "a"), ("x.y.test:80", "b")] {
        let exchange = proxy.to(name, Method::GET, "/", &[]).await;
        assert_eq!(seen(&exchange), (backend.to_owned(), "/".to_owned(), name.to_owned()));
        assert_eq!(exchange.header("server"), None, "Envoy does not name itself");
    }
    assert_eq!(proxy.to("other.example", Method::GET, "/", &[]).await.status, StatusCode::MISDIRECTED_REQUEST);
}

async fn tally(proxy: &Proxy, path: &str, requests: usize) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for _ in 0..requests {
        let exchange = proxy.get(path).await;
        let who = match exchange.status {
            StatusCode::OK => {
                let (service, path, _) = seen(&exchange);
                format!("{service}{path}")
            }
            status => status.as_u16().to_string(),
        };
        *counts.entry(who).or_default() += 1;
    }
    counts
}

/// Within five standard deviations of a share.
fn assert_share(counts: &BTreeMap<String, usize>, who: &str, share: f64) {
    let total = counts.values().sum::<usize>() as f64;
    let count = *counts.get(who).unwrap_or(&0) as f64;
    let deviation = (total * share * (1.0 - share)).sqrt();
    assert!((count - total * share).abs() <= 5.0 * deviation, "{who} should have {share}: {counts:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn weights_are_kept_and_invalid_shares_answer_500() {
    let own_path = |name, weight, path: &str| WeightedBackend {
        path_rewrite: Some(PathRewrite::Full(path.into())),
        ..backend(name, weight)
    };
    // The second rule's sum is that of the fractions' denominator: with one drawn number for both, one backend would get all.
    let differ = vec![
        own_path("a", 300_000, "/one"),
        own_path("b", 500_000, "/two"),
        own_path("a", 100_000, "/three"),
        invalid(100_000),
    ];
    let proxy = Proxy::http(vec![
        rule(prefix("/weights"), RuleAction::Forward(forward(vec![backend("a", 60), backend("b", 10), invalid(30)]))),
        rule(prefix("/differ"), RuleAction::Forward(forward(differ))),
        rule(prefix("/invalid"), RuleAction::Forward(forward(vec![invalid(1)]))),
    ])
    .await;
    let counts = tally(&proxy, "/weights", 600).await;
    for (who, share) in [("a/weights", 0.6), ("b/weights", 0.1), ("500", 0.3)] {
        assert_share(&counts, who, share);
    }
    let counts = tally(&proxy, "/differ", 600).await;
    for (who, share) in [("a/one", 0.3), ("b/two", 0.5), ("a/three", 0.1), ("500", 0.1)] {
        assert_share(&counts, who, share);
    }
    assert_eq!(proxy.get("/invalid").await.status, StatusCode::INTERNAL_SERVER_ERROR);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mirrors_get_their_fraction() {
    let mirror = MirrorPlan { cluster: http1("b"), fraction: Fraction { numerator: 1, denominator: 4 } };
    let plan = Forward { mirrors: vec![mirror], ..to("a") };
    let proxy = Proxy::http(vec![rule(any(), RuleAction::Forward(plan))]).await;
    for _ in 0..400 {
        assert_eq!(seen(&proxy.get("/x").await).0, "a");
    }
    let mirrored = usize::try_from(proxy.backends[1].requests()).unwrap();
    assert_share(&BTreeMap::from([("b".into(), mirrored), ("not".into(), 400 - mirrored)]), "b", 0.25);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn grpc_and_http2_in_clear_text() {
    let plan = |name| {
        let target = WeightedTarget::Cluster(service(name, UpstreamProtocol::Http2));
        Forward { backends: vec![WeightedBackend { target, ..backend(name, 1) }], websocket: false, ..to(name) }
    };
    let grpc = RequestMatch {
        grpc: true,
        ..on(PathSpec::RawPrefix(format!("/{}/", portolan_testkit::echo::GRPC_SERVICE).into()))
    };
    let proxy = Proxy::http(vec![
        rule(grpc, RuleAction::Forward(plan("a"))),
        rule(prefix("/plain"), RuleAction::Forward(plan("b"))),
    ])
    .await;
    let h2c = Endpoint::http2(proxy.address());
    let (status, answer, _) = grpc_call(&h2c, "test", "Echo", &[("x-a", "1")]).await.unwrap();
    assert_eq!((status, answer.unwrap().assertions.unwrap().service()), (0, "a"));
    let answer = get(&h2c, "http://test/plain").await.unwrap().answer().unwrap();
    assert_eq!((answer.service.as_str(), answer.proto.as_str()), ("b", "HTTP/2.0"));
    // No such service: UNIMPLEMENTED, as gRPC clients expect of a server without the method
    let request = http::Request::post("http://test/no.Such/Method").header("content-type", "application/grpc");
    let exchange = portolan_testkit::client::send(&h2c, request.body(Bytes::new()).unwrap()).await.unwrap();
    assert_eq!((exchange.status.as_u16(), exchange.header("grpc-status")), (200, Some("12")));
}
