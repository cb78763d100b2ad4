//! The supervisor with the real Envoy.

use std::path::Path;
use std::time::{Duration, Instant};

use portolan_model::NamespacedName;
use portolan_standalone::envoy::{EnvoyFiles, Identity, Places, Report, Runtime, Start, Supervisor, SupervisorOptions};
use portolan_testkit::client::{Endpoint, get};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

const PATIENCE: Duration = Duration::from_secs(20);

/// An Envoy that answers by itself, and has an admin interface where the supervisor looks for it.
fn bootstrap(files: &EnvoyFiles, port: u16) -> Vec<u8> {
    let manager = serde_json::json!({
        "@type": "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
        "stat_prefix": "test",
        "http_filters": [{"name": "r", "typed_config": {"@type": "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router"}}],
        "route_config": {"virtual_hosts": [{"name": "v", "domains": ["*"], "routes": [
            {"match": {"prefix": "/"}, "direct_response": {"status": 200, "body": {"inline_string": "here"}}}]}]},
    });
    let bootstrap = serde_json::json!({
        "node": {"id": "test", "cluster": "test"},
        "admin": {"address": {"pipe": {"path": files.admin_socket()}}},
        "static_resources": {"listeners": [{
            "name": "l",
            "address": {"socket_address": {"address": "127.0.0.1", "port_value": port}},
            "filter_chains": [{"filters": [{"name": "h", "typed_config": manager}]}],
        }]},
    });
    bootstrap.to_string().into_bytes()
}

struct Scene {
    runtime: Runtime,
    reports: UnboundedReceiver<(NamespacedName, Report)>,
    supervisor: Supervisor,
    gateway: NamespacedName,
    port: u16,
}

impl Scene {
    fn new(base: &Path, port: u16) -> Self {
        let binary = Places { given: Some(portolan_testkit::envoy::find().unwrap().to_owned()), ..Places::default() };
        let options = SupervisorOptions {
            binary: binary.find().unwrap().path,
            arguments: ["--disable-hot-restart", "--concurrency", "1", "--log-level", "info"].map(Into::into).into(),
            drain_limit: Duration::from_secs(3),
        };
        let (sender, reports) = unbounded_channel();
        let runtime = Runtime::open(&base.join("run"), Path::new("/manifests")).unwrap();
        Self {
            runtime,
            reports,
            supervisor: Supervisor::new(options, sender),
            gateway: NamespacedName::new("ns", "gw"),
            port,
        }
    }

    fn run(&mut self) {
        let files = self.runtime.files(&self.gateway).unwrap();
        let running = self.runtime.running().remove(&self.gateway);
        let start = Start { bootstrap: bootstrap(&files, self.port), files, addresses: Vec::new(), running };
        self.supervisor.run(&self.gateway, start);
    }

    async fn report(&mut self, wanted: impl Fn(&Report) -> bool) -> Report {
        let end = tokio::time::Instant::now() + PATIENCE;
        loop {
            let (_, report) = tokio::time::timeout_at(end, self.reports.recv()).await.expect("a report").unwrap();
            if wanted(&report) {
                return report;
            }
        }
    }

    async fn pid(&mut self) -> u32 {
        match self.report(|report| matches!(report, Report::Started { .. } | Report::Adopted { .. })).await {
            Report::Started { pid } | Report::Adopted { pid } => pid,
            _ => unreachable!(),
        }
    }

    async fn answers(&self) {
        let end = Instant::now() + PATIENCE;
        let endpoint = Endpoint::http1(std::net::SocketAddr::from(([127, 0, 0, 1], self.port)));
        while !get(&endpoint, "http://any/").await.is_ok_and(|answer| &*answer.body == b"here") {
            assert!(Instant::now() < end, "Envoy does not answer");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

fn kill(signal: &str, pid: u32) {
    assert!(std::process::Command::new("kill").args([signal, &pid.to_string()]).status().unwrap().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_envoy_that_is_killed_is_started_again_and_in_the_end_stopped() {
    let base = tempfile::tempdir().unwrap();
    let mut scene = Scene::new(base.path(), portolan_testkit::ports::free().unwrap());
    scene.run();
    let first = scene.pid().await;
    scene.answers().await;
    kill("-KILL", first);
    let ended = scene.report(|report| matches!(report, Report::Ended { .. })).await;
    assert!(matches!(&ended, Report::Ended { how, wait } if how.contains("signal: 9") && wait.is_zero()), "{ended:?}");
    let second = scene.pid().await;
    assert_ne!(first, second);
    scene.answers().await;
    assert!(
        matches!(scene.report(|report| matches!(report, Report::Line(_))).await, Report::Line(line) if !line.is_empty())
    );
    let identity = Identity::of(second).unwrap().unwrap();
    let Scene { supervisor, mut reports, .. } = scene;
    supervisor.shut_down(std::future::pending()).await;
    assert!(!identity.is_alive());
    let mut last = None;
    while let Some((_, report)) = reports.recv().await {
        last = Some(report);
    }
    assert_eq!(last, Some(Report::Stopped));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_envoy_survives_its_supervisor_and_is_taken_over() {
    let base = tempfile::tempdir().unwrap();
    let port = portolan_testkit::ports::free().unwrap();
    let mut scene = Scene::new(base.path(), port);
    scene.run();
    let pid = scene.pid().await;
    scene.answers().await;
    drop(scene);
    tokio::time::sleep(Duration::from_millis(300)).await;

    let mut scene = Scene::new(base.path(), port);
    scene.answers().await;
    scene.run();
    assert_eq!(
        scene.report(|report| matches!(report, Report::Started { .. } | Report::Adopted { .. })).await,
        Report::Adopted { pid }
    );
    scene.answers().await;
    // It is watched over like any other.
    kill("-KILL", pid);
    let second = scene.pid().await;
    assert_ne!(pid, second);
    scene.answers().await;
    // With another bootstrap it is replaced rather than taken over.
    drop(scene);
    let port = portolan_testkit::ports::free().unwrap();
    let mut scene = Scene::new(base.path(), port);
    scene.run();
    let third = scene.report(|report| matches!(report, Report::Started { .. } | Report::Adopted { .. })).await;
    assert!(matches!(third, Report::Started { pid } if pid != second), "{third:?}");
    assert_eq!(Identity::of(second).unwrap(), None);
    scene.answers().await;
    scene.supervisor.shut_down(std::future::pending()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_are_waited_for_and_a_second_signal_does_not_wait() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let base = tempfile::tempdir().unwrap();
    for (hurried, at_least, at_most) in [(false, 2.5, 10.0), (true, 0.0, 2.0)] {
        let mut scene = Scene::new(base.path(), portolan_testkit::ports::free().unwrap());
        scene.run();
        scene.pid().await;
        scene.answers().await;
        // An idle keep-alive connection: only the limit ends it.
        let mut idle = tokio::net::TcpStream::connect(("127.0.0.1", scene.port)).await.unwrap();
        idle.write_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
        let mut answer = [0; 1024];
        assert!(idle.read(&mut answer).await.unwrap() > 0);
        let began = Instant::now();
        let hurry = async {
            if !hurried {
                std::future::pending::<()>().await;
            }
            tokio::time::sleep(Duration::from_millis(300)).await;
        };
        scene.supervisor.shut_down(hurry).await;
        let took = began.elapsed().as_secs_f64();
        assert!((at_least..at_most).contains(&took), "hurried: {hurried}, took {took} s");
    }
}

/// The Gateway was gone for a moment: both Envoys would use the same files.
#[tokio::test(flavor = "multi_thread")]
async fn an_envoy_that_still_drains_ends_before_the_next_one_begins() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let base = tempfile::tempdir().unwrap();
    let mut scene = Scene::new(base.path(), portolan_testkit::ports::free().unwrap());
    scene.run();
    let first = Identity::of(scene.pid().await).unwrap().unwrap();
    scene.answers().await;
    // Keeps the first one draining.
    let mut idle = tokio::net::TcpStream::connect(("127.0.0.1", scene.port)).await.unwrap();
    idle.write_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    assert!(idle.read(&mut [0; 1024]).await.unwrap() > 0);
    let files = scene.runtime.files(&scene.gateway).unwrap();
    std::fs::write(files.xds_socket(), "").unwrap();
    scene.supervisor.stop(&scene.gateway);
    let start =
        Start { bootstrap: bootstrap(&files, scene.port), files: files.clone(), addresses: Vec::new(), running: None };
    scene.supervisor.run(&scene.gateway, start);
    let second = scene.pid().await;
    assert!(!first.is_alive());
    scene.answers().await;
    assert_eq!(scene.runtime.running()[&scene.gateway].process.pid, second, "it would be found by a later process");
    assert!(files.xds_socket().exists(), "who listens there is another's business");
    scene.supervisor.shut_down(std::future::pending()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_started_is_tried_again() {
    let base = tempfile::tempdir().unwrap();
    let options =
        SupervisorOptions { binary: "/no/such/envoy".into(), arguments: Vec::new(), drain_limit: Duration::ZERO };
    let (sender, mut reports) = unbounded_channel();
    let runtime = Runtime::open(&base.path().join("run"), Path::new("/manifests")).unwrap();
    let gateway = NamespacedName::new("ns", "gw");
    let mut supervisor = Supervisor::new(options, sender);
    let files = runtime.files(&gateway).unwrap();
    supervisor.run(&gateway, Start { files, bootstrap: Vec::new(), addresses: Vec::new(), running: None });
    let mut waits = Vec::new();
    while waits.len() < 3 {
        if let (_, Report::NotStarted { wait, .. }) = reports.recv().await.unwrap() {
            waits.push(wait.as_millis());
        }
    }
    assert_eq!(waits, [0, 500, 1000]);
    supervisor.shut_down(std::future::pending()).await;
}
