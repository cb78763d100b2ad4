//! Connections: TLS by server name, closed listeners, upgrades, backends without endpoints.

use std::io::ErrorKind;
use std::sync::Arc;

use http::StatusCode;
use portolan_model::NamespacedName;
use portolan_model::ir::*;
use portolan_testkit::certs::{Authority, Pair};
use portolan_testkit::client::{Cause, Endpoint, get};
use portolan_testkit::ports;
use portolan_translate::{cluster, listener, secret};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::cases::build::*;
use crate::proxy::Proxy;

fn usable(name: &NamespacedName, pair: &Pair) -> portolan_proto::Resource {
    let state = SecretState::Usable {
        certificate_chain: Arc::from(pair.certificate.as_bytes()),
        private_key: Arc::from(pair.key.as_bytes()),
    };
    secret(&SecretPlan { name: name.clone(), state })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_host_is_served_under_its_own_server_name() {
    let authority = Authority::new("test").unwrap();
    let [one, two] = ["one", "two"].map(|name| NamespacedName::new("infra", name));
    let port = ports::free().unwrap();
    let id = |server: &str| TableId { gateway: gateway(), port, server: Some(server.into()) };
    let chain = |server: &str, certificate: &NamespacedName| ChainPlan {
        table: id(server),
        server_names: vec![server.into()],
        certificates: vec![certificate.clone()],
        listener: None,
    };
    let chains = vec![chain("one.test", &one), chain("*.two.test", &two)];
    let serving = |server: &str, backend: &str, other: &str| {
        let own = host(id(server), server, vec![rule(any(), RuleAction::Forward(to(backend)))]);
        let domains = vec![other.into()];
        let others = HostPlan { otherwise: 421, domains, ..host(id(server), MISDIRECTED, Vec::new()) };
        table(&id(server), &[own, others])
    };
    let proxy = Proxy::start(
        port,
        [
            listener(&ListenerPlan { tls: true, chains, ..listener_plan(port, loopback()) }),
            serving("one.test", "a", "*.two.test"),
            serving("*.two.test", "b", "one.test"),
            usable(&one, &authority.server(&["one.test"]).unwrap()),
            usable(&two, &authority.server(&["*.two.test"]).unwrap()),
        ],
    )
    .await;
    let settings = authority.client_config(&["h2"]).unwrap();
    let under = |name: &str| Endpoint::http2(proxy.address()).tls(Arc::clone(&settings), name).unwrap();
    for (sni, authority, status, backend) in [
        ("one.test", "one.test", 200, Some("a")),
        ("one.test", "x.two.test", 421, None),
        ("one.test", "unknown.test", 404, None),
        ("x.two.test", "x.two.test", 200, Some("b")),
        ("x.two.test", "one.test", 421, None),
    ] {
        let exchange = get(&under(sni), &format!("https://{authority}/")).await.unwrap();
        let answer = exchange.answer().map(|answer| answer.service);
        assert_eq!((exchange.status.as_u16(), answer.as_deref()), (status, backend), "{sni} {authority}");
    }
    let failure = portolan_testkit::client::Connection::open(&under("unknown.test")).await.err().unwrap();
    assert_eq!(failure.cause, Cause::Tls, "{failure}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_listener_without_chains_takes_connections_and_closes_them() {
    let port = ports::free().unwrap();
    let plan = ListenerPlan { tls: true, chains: Vec::new(), ..listener_plan(port, loopback()) };
    let proxy = Proxy::start(port, [listener(&plan)]).await;
    let mut connection = TcpStream::connect(proxy.address()).await.unwrap();
    // Something that is no TLS greeting, so that the wait for one is over
    _ = connection.write_all(b"GET / HTTP/1.1\r\n\r\n").await;
    let mut answer = Vec::new();
    match connection.read_to_end(&mut answer).await {
        Ok(_) => assert!(answer.is_empty(), "{answer:?}"),
        Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset),
    }
}

async fn upgrade(proxy: &Proxy, path: &str) -> String {
    let mut connection = TcpStream::connect(proxy.address()).await.unwrap();
    let request = format!(
        "GET {path} HTTP/1.1\r\nhost: test\r\nconnection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n\
         sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    );
    connection.write_all(request.as_bytes()).await.unwrap();
    let mut answer = vec![0; 12];
    connection.read_exact(&mut answer).await.unwrap();
    String::from_utf8(answer).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn websockets_pass_where_the_backend_speaks_them() {
    let no = Forward { websocket: false, ..to("a") };
    let proxy =
        Proxy::http(vec![rule(prefix("/yes"), RuleAction::Forward(to("a"))), rule(any(), RuleAction::Forward(no))])
            .await;
    assert_eq!(upgrade(&proxy, "/yes").await, "HTTP/1.1 101");
    assert_eq!(upgrade(&proxy, "/no").await, "HTTP/1.1 403");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backend_without_endpoints_answers_503() {
    let port = ports::free().unwrap();
    let rules = vec![rule(any(), RuleAction::Forward(to("empty")))];
    let proxy = Proxy::start(
        port,
        [
            listener(&listener_plan(port, loopback())),
            table(&http_table(port), &[host(http_table(port), "*", rules)]),
            cluster(&ClusterPlan { key: http1("empty"), discovery: Discovery::Endpoints }),
        ],
    )
    .await;
    assert_eq!(proxy.get("/").await.status, StatusCode::SERVICE_UNAVAILABLE);
    assert!(!proxy.log().to_lowercase().contains("deprecated"), "{}", proxy.log());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_addresses_a_listener_is_everywhere() {
    let port = ports::free().unwrap();
    let plan = listener_plan(port, Binding::default());
    let proxy = Proxy::start(port, [listener(&plan), table(&http_table(port), &[])]).await;
    let exchange = get(&proxy.endpoint(), "http://test/").await.unwrap();
    assert_eq!(exchange.status, StatusCode::NOT_FOUND);
    let six = std::net::IpAddr::from(std::net::Ipv6Addr::LOCALHOST);
    if ports::free_on(six).is_ok() {
        let six = std::net::SocketAddr::from((six, port));
        assert_eq!(get(&Endpoint::http1(six), "http://test/").await.unwrap().status, StatusCode::NOT_FOUND);
    }
}
