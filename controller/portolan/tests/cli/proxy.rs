//! `portolan proxy` beside a real Envoy, whose listeners and clusters come from files here.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::process::Command;
use std::time::{Duration, Instant};

use portolan_testkit::client::{Endpoint, get, send};
use portolan_testkit::envoy::{Envoy, EnvoyOptions};
use portolan_testkit::{Process, ports};
use serde_json::json;

use crate::fixture::PATIENCE;

struct Pod {
    envoy: Envoy,
    sidecar: Process,
    kubelet: Endpoint,
    dir: tempfile::TempDir,
    port: SocketAddr,
}

impl Pod {
    fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let file = |name: &str| dir.path().join(name).display().to_string();
        let files = |name: &str| json!({"path_config_source": {"path": file(name)}, "resource_api_version": "V3"});
        // Nothing is known yet: empty answers count as none for neither.
        std::fs::write(file("cds.json"), "{\"resources\": []}").unwrap();
        std::fs::write(file("lds.json"), "not yet").unwrap();
        let config = json!({
            "node": {"id": "a", "cluster": "b"},
            "admin": {"address": {"pipe": {"path": file("admin.sock")}}},
            "dynamic_resources": {"cds_config": files("cds.json"), "lds_config": files("lds.json")},
        });
        let admin = std::path::PathBuf::from(file("admin.sock"));
        let envoy = Envoy::start(&EnvoyOptions::new(config.to_string(), admin.as_path())).unwrap();
        let (address, port) = (ports::address().unwrap(), ports::address().unwrap());
        let mut command = Command::new(env!("CARGO_BIN_EXE_portolan"));
        command.args(["proxy", "--admin-socket", &file("admin.sock"), "--port", &address.port().to_string()]);
        command.args(["--drain-wait", "1", "--drain-limit", "4", "--drain-token", "secret"]);
        let sidecar = Process::start(command).unwrap();
        Self { envoy, sidecar, kubelet: Endpoint::http1(address), dir, port }
    }

    /// As Portolan would: one listener that answers everything.
    fn configure(&self) {
        let manager = json!({
            "@type": "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
            "stat_prefix": "web",
            "route_config": {"virtual_hosts": [{"name": "all", "domains": ["*"], "routes": [
                {"match": {"prefix": "/"}, "direct_response": {"status": 200}},
            ]}]},
            "http_filters": [{"name": "envoy.filters.http.router", "typed_config": {
                "@type": "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router",
            }}],
        });
        let listener = json!({
            "@type": "type.googleapis.com/envoy.config.listener.v3.Listener",
            "name": "web",
            "address": {"socket_address": {"address": "127.0.0.1", "port_value": self.port.port()}},
            "filter_chains": [{"filters": [
                {"name": "envoy.filters.network.http_connection_manager", "typed_config": manager},
            ]}],
        });
        // By renaming, as volumes change.
        let new = self.dir.path().join("new");
        std::fs::write(&new, json!({"resources": [listener]}).to_string()).unwrap();
        std::fs::rename(new, self.dir.path().join("lds.json")).unwrap();
    }

    async fn ask(&self, path: &str) -> (u16, String) {
        match get(&self.kubelet, &format!("http://kubelet{path}")).await {
            Ok(exchange) => (exchange.status.as_u16(), String::from_utf8_lossy(&exchange.body).trim().to_owned()),
            Err(error) => (0, error.to_string()),
        }
    }

    async fn until(&mut self, expected: u16, words: &str) {
        let end = Instant::now() + PATIENCE;
        loop {
            let (status, text) = self.ask("/ready").await;
            if status == expected && text.contains(words) {
                return;
            }
            assert!(Instant::now() < end, "{status} {text}\n{}\n{}", self.sidecar.log(), self.envoy.process.log());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

fn request(connection: &mut TcpStream) -> String {
    connection.write_all(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n").unwrap();
    let mut answer = [0; 4096];
    let length = connection.read(&mut answer).unwrap();
    String::from_utf8_lossy(&answer[..length]).into_owned()
}

#[tokio::test]
async fn a_proxy_is_ready_with_its_configuration_and_drains_before_its_end() {
    let mut pod = Pod::start();
    pod.until(503, "no listeners").await;
    pod.configure();
    pod.until(200, "ready").await;

    // Two clients: one that goes on asking, and one that is silent.
    let mut busy = TcpStream::connect(pod.port).unwrap();
    let mut silent = TcpStream::connect(pod.port).unwrap();
    assert!(!request(&mut busy).contains("connection: close"));
    assert!(request(&mut silent).starts_with("HTTP/1.1 200"));

    assert_eq!(pod.ask("/drain").await.0, 403, "whoever has no token");
    assert_eq!(pod.ask("/ready").await.0, 200);

    let begun = Instant::now();
    let drain = http::Request::get("http://kubelet/drain").header(portolan_fleet::DRAIN_TOKEN_HEADER, "secret");
    let drain = drain.body(bytes::Bytes::new()).unwrap();
    let kubelet = pod.kubelet.clone();
    let drained = tokio::spawn(async move { send(&kubelet, drain).await.unwrap() });
    pod.until(503, "draining").await;
    assert!(!request(&mut busy).contains("connection: close"), "load balancers may still send here");
    tokio::time::sleep(Duration::from_millis(1500).saturating_sub(begun.elapsed())).await;
    assert!(request(&mut busy).contains("connection: close"));
    drop(busy);
    let answer = drained.await.unwrap();
    assert_eq!(String::from_utf8_lossy(&answer.body), "1 connections are left\n");
    assert!((3..8).contains(&begun.elapsed().as_secs()), "{:?}", begun.elapsed());

    // Kubelet ends Envoy, then the sidecar.
    pod.sidecar.signal("TERM").unwrap();
    let end = Instant::now() + PATIENCE;
    let status = loop {
        if let Some(status) = pod.sidecar.exited().unwrap() {
            break status;
        }
        assert!(Instant::now() < end);
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    assert_eq!(status.code(), Some(0));
}

#[tokio::test]
async fn an_envoy_that_is_gone_is_not_ready() {
    let mut pod = Pod::start();
    pod.configure();
    pod.until(200, "ready").await;
    pod.envoy.process.kill().unwrap();
    pod.until(503, "does not answer").await;
}

#[test]
fn a_port_that_is_taken_is_told() {
    let taken = std::net::TcpListener::bind("[::]:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let mut command = Command::new(env!("CARGO_BIN_EXE_portolan"));
    let output =
        command.args(["proxy", "--admin-socket", "/x", "--port", &port, "--drain-token", "a"]).output().unwrap();
    assert_eq!(output.status.code(), Some(3));
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(words.contains(&port) && words.contains("probe port"), "{words}");
}
