//! The load generator finds nothing where nothing is wrong, and everything where something is.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use portolan_testkit::certs::Authority;
use portolan_testkit::client::{Cause, Endpoint, Protocol};
use portolan_testkit::load::{Expect, Kind, Load, Mix, Report, Worker, backend, backends};
use portolan_testkit::{Echo, EchoOptions};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

const LIMIT: Duration = Duration::from_secs(20);

async fn named(name: &str) -> Echo {
    Echo::start(EchoOptions::named(name)).await.unwrap()
}

fn steady(kind: Kind, endpoint: Endpoint, uri: &str, expect: Expect) -> Worker {
    Worker::get("steady", kind, endpoint, uri, 200.0, expect).unwrap()
}

/// Runs one worker for so many requests.
async fn load(worker: Worker, requests: u64) -> Report {
    let load = Load::start(&[worker]);
    load.further(requests, LIMIT).await.unwrap();
    load.stop().await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_kind_against_an_honest_server_fails_nothing() {
    let plain = named("a").await;
    let authority = Authority::new("test").unwrap();
    let pair = authority.server(&["a.example"]).unwrap();
    let secure =
        Echo::start(EchoOptions { tls: Some(pair.server_config().unwrap()), ..EchoOptions::named("a") }).await.unwrap();
    let expect = backend("a");
    let mix =
        Mix { http: plain.address(), https: Some((secure.address(), &authority)), host: "a.example", expect: &expect };
    let mut workers = mix.workers().unwrap();
    let h1 = Endpoint::http1(plain.address());
    let wss = Endpoint::http1(secure.address()).tls(authority.client_config(&[]).unwrap(), "a.example").unwrap();
    // Each answer announces the end of its connection.
    workers.push(Worker::get("close", Kind::KeepAlive, h1, "http://a/close", 50.0, expect.clone()).unwrap());
    workers.push(
        Worker::get("websocket tls", Kind::Websocket, wss, "https://a.example/ws", 20.0, expect.clone()).unwrap(),
    );

    let load = Load::start(&workers);
    tokio::time::sleep(Duration::from_secs(3)).await;
    let live = (load.sent(), load.failed());
    let report = load.stop().await.unwrap();

    assert_eq!(report.failed(), 0, "{report}");
    assert!(report.rate() >= 500.0, "{report}");
    assert!(live.0 > 1000 && live.1 == 0);
    let connections = |name: &str| report.workers[name].connections;
    assert_eq!(
        (connections("http1"), connections("http2"), connections("http2 tls"), connections("websocket")),
        (1, 1, 1, 1),
        "{report}"
    );
    assert_eq!(connections("new tls"), report.workers["new tls"].sent, "{report}");
    assert!(connections("close") >= report.workers["close"].sent, "{report}");
    assert!(report.workers.values().all(|tally| tally.latency(0.5) > Duration::ZERO), "{report}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wrong_status_backend_or_body_is_counted_as_such() {
    let liar: fn(&mut portolan_testkit::echo::Answer) = |answer| answer.body_hash = "0".into();
    let honest = named("a").await;
    let lying = Echo::start(EchoOptions { alter: Some(liar), ..EchoOptions::named("a") }).await.unwrap();
    for (address, uri, expected, cause) in [
        (honest.address(), "http://a/status/503", "a", Cause::Status),
        (honest.address(), "http://a/", "b", Cause::Identity),
        (lying.address(), "http://a/", "a", Cause::Body),
    ] {
        for endpoint in [Endpoint::http1(address), Endpoint::http2(address)] {
            let report = load(steady(Kind::KeepAlive, endpoint, uri, backend(expected)), 20).await;
            assert!(report.failed() >= 20 && report.failed_by(cause) == report.sent(), "{cause}: {report}");
        }
    }
    let report = load(steady(Kind::Websocket, Endpoint::http1(honest.address()), "http://a/", backend("b")), 5).await;
    assert_eq!(report.failed_by(Cause::Identity), report.sent(), "{report}");
    assert_eq!(
        load(steady(Kind::KeepAlive, Endpoint::http1(honest.address()), "http://a/", backends(&["b", "a"])), 20)
            .await
            .failed(),
        0
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_server_fails_requests_of_every_kind() {
    for (kind, protocol) in [
        (Kind::KeepAlive, Protocol::Http1),
        (Kind::Streams(3), Protocol::Http2),
        (Kind::NewConnection, Protocol::Http1),
        (Kind::Websocket, Protocol::Http1),
    ] {
        let echo = named("a").await;
        // Slow answers, so that some are in flight when the server dies.
        let worker = steady(kind, Endpoint::new(echo.address(), protocol), "http://a/delay?ms=30", backend("a"));
        let load = Load::start(&[worker]);
        load.further(10, LIMIT).await.unwrap();
        assert_eq!(load.failed(), 0, "{kind:?}");
        drop(echo);
        load.further(10, LIMIT).await.unwrap();
        let report = load.stop().await.unwrap();
        assert!(report.failed_by(Cause::Broken) + report.failed_by(Cause::Connect) >= 5, "{kind:?}: {report}");
        assert!(report.failed_by(Cause::Connect) > 0, "{kind:?}: {report}");
        if kind != Kind::NewConnection {
            assert!(report.failed_by(Cause::Broken) > 0, "{kind:?}: a break in flight must count: {report}");
        }
    }
}

/// A server that goes away as it should loses nobody's requests.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_drained_http2_server_loses_no_request() {
    // A relay in front keeps the port open while the servers behind it change.
    let backend_address = Arc::new(Mutex::new(None));
    let relay = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = relay.local_addr().unwrap();
    let target = Arc::clone(&backend_address);
    tokio::spawn(async move {
        while let Ok((mut client, _)) = relay.accept().await {
            let target = (*target.lock().unwrap()).unwrap();
            tokio::spawn(async move {
                let mut server = tokio::net::TcpStream::connect::<std::net::SocketAddr>(target).await.unwrap();
                let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
            });
        }
    });

    let mut current = named("a").await;
    *backend_address.lock().unwrap() = Some(current.address());
    let load = Load::start(&[steady(Kind::Streams(5), Endpoint::http2(address), "http://a/delay?ms=10", backend("a"))]);
    for _ in 0..10 {
        load.further(20, LIMIT).await.unwrap();
        let next = named("a").await;
        *backend_address.lock().unwrap() = Some(next.address());
        std::mem::replace(&mut current, next).drain().await;
    }
    load.further(20, LIMIT).await.unwrap();
    let report = load.stop().await.unwrap();
    assert_eq!(report.failed(), 0, "{report}");
    assert!(report.workers["steady"].connections >= 11, "{report}");
}

/// A raw server that answers one request a connection and then closes: announced or not is what makes the difference.
async fn one_shot(announce: bool, cut: Arc<AtomicBool>) -> std::net::SocketAddr {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let body = r#"{"path":"/","host":"a","method":"GET","proto":"","headers":{},"httpPort":"","namespace":"","ingress":"","service":"a","pod":"","bodyLength":0,"bodyHash":"HASH"}"#
        .replace("HASH", &portolan_testkit::echo::body_hash(b""));
    let connection = if announce { "connection: close\r\n" } else { "" };
    let response = format!("HTTP/1.1 200 OK\r\n{connection}content-length: {}\r\n\r\n{body}", body.len());
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let (response, cut) = (response.clone(), Arc::clone(&cut));
            tokio::spawn(async move {
                let mut buffer = [0; 2048];
                if stream.read(&mut buffer).await.unwrap_or(0) == 0 {
                    return;
                }
                // Half an answer, and the end.
                let bytes = if cut.load(Ordering::Relaxed) {
                    &response.as_bytes()[..response.len() / 2]
                } else {
                    response.as_bytes()
                };
                let _ = stream.write_all(bytes).await;
            });
        }
    });
    address
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_that_end_between_requests_are_replaced_but_not_those_that_end_within_one() {
    for announce in [true, false] {
        let cut = Arc::new(AtomicBool::new(false));
        let address = one_shot(announce, Arc::clone(&cut)).await;
        // 50 a second leave 20 ms between requests, in which the end arrives.
        let worker =
            Worker::get("steady", Kind::KeepAlive, Endpoint::http1(address), "http://a/", 50.0, backend("a")).unwrap();
        let load = Load::start(&[worker]);
        load.further(20, LIMIT).await.unwrap();
        assert_eq!(load.failed(), 0, "announced: {announce}");
        cut.store(true, Ordering::Relaxed);
        load.further(10, LIMIT).await.unwrap();
        let report = load.stop().await.unwrap();
        assert!(report.failed_by(Cause::Broken) >= 9, "announced: {announce}: {report}");
    }
}

/// A server that takes connections and never answers must not be waited for without end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_silent_server_is_a_timeout() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let worker = steady(Kind::KeepAlive, Endpoint::http1(listener.local_addr().unwrap()), "http://a/", backend("a"));
    let report = load(Worker { limit: Duration::from_millis(100), ..worker }, 3).await;
    assert!(report.failed_by(Cause::Timeout) >= 3, "{report}");
}
