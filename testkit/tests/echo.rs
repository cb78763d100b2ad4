//! The echo server, over every protocol that it speaks.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

use bytes::Bytes;
use http::{Request, StatusCode};
use portolan_testkit::certs::Authority;
use portolan_testkit::client::{Cause, Endpoint, Protocol, get, send};
use portolan_testkit::echo::{GRPC_SERVICE, body_hash, grpc_call};
use portolan_testkit::{Echo, EchoOptions, Process};

async fn named(name: &str) -> Echo {
    Echo::start(EchoOptions::named(name)).await.unwrap()
}

#[tokio::test]
async fn it_says_what_arrived_and_who_received_it() {
    let echo =
        Echo::start(EchoOptions { namespace: "shop".into(), pod: "cart-7".into(), ..EchoOptions::named("cart") })
            .await
            .unwrap();
    for (protocol, proto) in [(Protocol::Http1, "HTTP/1.1"), (Protocol::Http2, "HTTP/2.0")] {
        let request = Request::post("http://shop.example:81/a/b?c=d")
            .header("x-two", "1")
            .header("x-two", "2")
            .header("x-echo-set-header", "x-set: yes")
            .body(Bytes::from_static(b"hello"))
            .unwrap();
        let exchange = send(&Endpoint::new(echo.address(), protocol), request).await.unwrap();
        let answer = exchange.answer().unwrap();
        assert_eq!(exchange.status, StatusCode::OK);
        assert_eq!(exchange.header("x-set"), Some("yes"));
        assert_eq!(exchange.header("x-echo-service"), Some("cart"));
        assert_eq!(
            (answer.service.as_str(), answer.namespace.as_str(), answer.pod.as_str()),
            ("cart", "shop", "cart-7")
        );
        assert_eq!((answer.method.as_str(), answer.path.as_str(), answer.proto.as_str()), ("POST", "/a/b?c=d", proto));
        assert_eq!(answer.host, "shop.example:81");
        assert_eq!(answer.headers["x-two"], ["1", "2"]);
        assert_eq!((answer.body_length, answer.body_hash), (5, body_hash(b"hello")));
        assert_eq!(answer.tls, None);
    }
    assert_eq!(echo.requests(), 2);
}

#[tokio::test]
async fn statuses_delays_and_breaks() {
    let echo = named("a").await;
    let endpoint = Endpoint::http1(echo.address());
    let exchange = get(&endpoint, "http://a/status/503").await.unwrap();
    assert_eq!(exchange.status, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(exchange.answer().unwrap().service, "a");

    let before = std::time::Instant::now();
    get(&endpoint, "http://a/delay?ms=120").await.unwrap();
    assert!(before.elapsed().as_millis() >= 120);

    assert_eq!(get(&endpoint, "http://a/close").await.unwrap().header("connection"), Some("close"));

    let request = Request::get("http://a/break").body(Bytes::new()).unwrap();
    assert_eq!(send(&endpoint, request).await.unwrap_err().cause, Cause::Broken);
}

#[tokio::test]
async fn tls_shows_names_and_certificates() {
    let authority = Authority::new("test").unwrap();
    let pair = authority.server(&["*.shop.example"]).unwrap();
    let echo =
        Echo::start(EchoOptions { tls: Some(pair.server_config().unwrap()), ..EchoOptions::named("a") }).await.unwrap();

    for (protocol, alpn) in [(Protocol::Http1, "http/1.1"), (Protocol::Http2, "h2")] {
        let config = authority.client_config(&[alpn]).unwrap();
        let endpoint = Endpoint::new(echo.address(), protocol).tls(config, "cart.shop.example").unwrap();
        let exchange = get(&endpoint, "https://cart.shop.example/").await.unwrap();
        let tls = exchange.answer().unwrap().tls.unwrap();
        assert_eq!(
            (tls.server_name.as_str(), tls.negotiated_protocol.as_str(), tls.version.as_str()),
            ("cart.shop.example", alpn, "TLSv1.3")
        );
        assert_eq!(exchange.certificate, Some(pair.der().unwrap()));
    }

    // A name that the certificate lacks, and an authority that did not sign it.
    let other = Authority::new("other").unwrap();
    for (config, name) in [
        (authority.client_config(&[]).unwrap(), "bank.example"),
        (other.client_config(&[]).unwrap(), "cart.shop.example"),
    ] {
        let endpoint = Endpoint::http1(echo.address()).tls(config, name).unwrap();
        let request = Request::get("https://x/").body(Bytes::new()).unwrap();
        assert_eq!(send(&endpoint, request).await.unwrap_err().cause, Cause::Tls);
    }
}

#[tokio::test]
async fn grpc_calls_and_unknown_methods() {
    let echo = named("greeter").await;
    let endpoint = Endpoint::http2(echo.address());
    let (status, response, _) = grpc_call(&endpoint, "grpc.example", "Echo", &[("x-user", "ann")]).await.unwrap();
    let assertions = response.unwrap().assertions.unwrap();
    assert_eq!(status, 0);
    assert_eq!(assertions.fully_qualified_method, format!("/{GRPC_SERVICE}/Echo"));
    assert_eq!(
        (assertions.service(), assertions.namespace(), assertions.authority.as_str()),
        ("greeter", "default", "grpc.example")
    );
    assert_eq!(assertions.header("x-user"), Some("ann"));

    let (status, response, _) = grpc_call(&endpoint, "grpc.example", "EchoThree", &[]).await.unwrap();
    assert_eq!((status, response), (12, None));
}

#[tokio::test]
async fn draining_finishes_what_is_in_hand() {
    let echo = named("a").await;
    let endpoint = Endpoint::http2(echo.address());
    let slow = tokio::spawn(async move { get(&endpoint, "http://a/delay?ms=300").await });
    while echo.requests() == 0 {
        tokio::task::yield_now().await;
    }
    let address = echo.address();
    echo.drain().await;
    assert_eq!(slow.await.unwrap().unwrap().status, StatusCode::OK);
    let request = Request::get("http://a/").body(Bytes::new()).unwrap();
    assert_eq!(send(&Endpoint::http1(address), request).await.unwrap_err().cause, Cause::Connect);
}

#[tokio::test]
async fn the_program_serves_until_it_is_interrupted() {
    let limit = std::time::Duration::from_secs(10);
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_portolan-echo"));
    command.args(["--listen", "127.0.0.1:0", "--name", "cart", "--namespace", "shop"]);
    let mut program = Process::start(command).unwrap();
    program.wait_for_log("\n", limit).await.unwrap();
    let address: std::net::SocketAddr = program.log().trim().strip_prefix("listening on ").unwrap().parse().unwrap();
    let answer = get(&Endpoint::http1(address), "http://a/").await.unwrap().answer().unwrap();
    assert_eq!((answer.service.as_str(), answer.namespace.as_str(), answer.pod.as_str()), ("cart", "shop", "cart"));
    program.signal("INT").unwrap();
    assert!(program.wait(limit).await.unwrap().success());
}
