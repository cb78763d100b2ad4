//! An Envoy with a static configuration in front of echo backends.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request};
use portolan_model::ir::*;
use portolan_proto::Resource;
use portolan_proto::envoy::bootstrap::Admin;
use portolan_proto::envoy::core::{Address, Pipe, address};
use portolan_testkit::client::{Endpoint, Exchange, send};
use portolan_testkit::envoy::{Envoy, EnvoyOptions};
use portolan_testkit::{Dir, Echo, EchoOptions, ports};
use portolan_translate::{cluster, endpoints, listener, static_bootstrap};

use crate::accepted;
use crate::cases::build::*;

pub struct Proxy {
    pub port: u16,
    pub backends: Vec<Echo>,
    envoy: Envoy,
    _dir: Dir,
}

/// A cluster over these endpoints.
pub fn upstream(key: &ClusterKey, addresses: &[SocketAddr]) -> [Resource; 2] {
    let endpoint = |address: &SocketAddr| EndpointPlan {
        address: EndpointAddress::Socket(address.ip(), address.port()),
        draining: false,
    };
    let locality = LocalityPlan { zone: "".into(), endpoints: addresses.iter().map(endpoint).collect() };
    [
        cluster(&ClusterPlan { key: key.clone(), discovery: Discovery::Endpoints }),
        endpoints(&EndpointsPlan { cluster: key.clone(), localities: vec![locality] }),
    ]
}

impl Proxy {
    /// One host `*` with these rules, and backends `a` and `b` (both also over HTTP/2).
    pub async fn http(rules: Vec<Arc<ResolvedRule>>) -> Self {
        let port = ports::free().unwrap();
        let id = http_table(port);
        Self::hosts(port, &[host(id, "*", rules)]).await
    }

    pub async fn hosts(port: u16, hosts: &[HostPlan]) -> Self {
        Self::start(port, [listener(&listener_plan(port, loopback())), table(&http_table(port), hosts)]).await
    }

    pub async fn start(port: u16, resources: impl IntoIterator<Item = Resource>) -> Self {
        let dir = Dir::new().unwrap();
        let (mut backends, mut all) = (Vec::new(), resources.into_iter().collect::<Vec<_>>());
        for name in ["a", "b"] {
            let echo = Echo::start(EchoOptions::named(name)).await.unwrap();
            for protocol in [UpstreamProtocol::Http1, UpstreamProtocol::Http2] {
                all.extend(upstream(&service(name, protocol), &[echo.address()]));
            }
            backends.push(echo);
        }
        let admin = dir.file("admin.sock");
        let mut message = static_bootstrap(&snapshot(all)).unwrap();
        let pipe = Pipe { path: admin.display().to_string(), mode: 0o600 };
        let address = Some(Address { address: Some(address::Address::Pipe(pipe)) });
        message.admin = Some(Admin { address, ..Default::default() });
        let mut envoy = Envoy::start(&EnvoyOptions::new(accepted::json(&message), admin.as_path())).unwrap();
        envoy.ready(Duration::from_secs(20)).await.unwrap();
        Self { port, backends, envoy, _dir: dir }
    }

    pub fn address(&self) -> SocketAddr {
        ([127, 0, 0, 1], self.port).into()
    }

    pub fn endpoint(&self) -> Endpoint {
        Endpoint::http1(self.address())
    }

    pub async fn get(&self, path: &str) -> Exchange {
        self.send(Method::GET, path, &[]).await
    }

    /// A request for `http://test` and this path, with these headers.
    pub async fn send(&self, method: Method, path: &str, headers: &[(&str, &str)]) -> Exchange {
        self.to("test", method, path, headers).await
    }

    pub async fn to(&self, host: &str, method: Method, path: &str, headers: &[(&str, &str)]) -> Exchange {
        let mut request = Request::builder().method(method).uri(format!("http://{host}{path}"));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let endpoint = self.endpoint();
        let answer = send(&endpoint, request.body(Bytes::new()).unwrap());
        tokio::time::timeout(Duration::from_secs(20), answer).await.unwrap().unwrap()
    }

    pub fn log(&self) -> String {
        self.envoy.process.log()
    }
}

/// Which backend answered, and the path and host it saw.
pub fn seen(exchange: &Exchange) -> (String, String, String) {
    let answer = exchange.answer().unwrap_or_else(|| panic!("{exchange:?}"));
    (answer.service, answer.path, answer.host)
}
