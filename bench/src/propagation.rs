//! From a changed manifest to the first right answer, with 10,000 hosts present: `portolan run` and the real Envoy.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context as _, ensure};
use bytes::Bytes;
use http::Request;
use portolan_testkit::client::{Connection, Endpoint, Unsent};
use portolan_testkit::echo::IDENTITY;
use portolan_testkit::load::{Kind, Load, Worker, backend};
use portolan_testkit::manifest::{gateway, plain_route, service};
use portolan_testkit::portolan::Metrics;
use portolan_testkit::{Dir, Echo, EchoOptions, Portolan, ports};

use crate::measure::{Row, megabytes, middle, milliseconds, peak, resident};

const HOSTS: usize = 10_000;
const PER_FILE: usize = 100;
const CHANGES: usize = 21;
const LIMIT: Duration = Duration::from_mins(1);
/// The host whose route changes.
const MOVED: &str = "moved.example.com";

pub fn rows(portolan: Option<PathBuf>) -> anyhow::Result<Vec<Row>> {
    let beside = || Some(std::env::current_exe().ok()?.with_file_name("portolan"));
    let portolan = portolan.or_else(beside).context("no name of this program")?;
    ensure!(portolan.exists(), "{} is not there: `make bench` builds it", portolan.display());
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(measure(&portolan))
}

/// Sums of seconds that the metrics know.
#[derive(Clone, Copy)]
struct Parts {
    engine: f64,
    publish: f64,
    acknowledged: f64,
}

impl Parts {
    fn of(metrics: &Metrics) -> Self {
        Self {
            engine: metrics.sum("portolan_engine_seconds_sum", &[]),
            publish: metrics.sum("portolan_xds_publish_seconds_sum", &[]),
            acknowledged: metrics.sum("portolan_xds_answer_seconds_sum", &["type=\"route\""]),
        }
    }
}

async fn measure(binary: &std::path::Path) -> anyhow::Result<Vec<Row>> {
    let (a, b) = (Echo::start(EchoOptions::named("a")).await?, Echo::start(EchoOptions::named("b")).await?);
    let http = ports::address()?;
    let dir = Dir::new()?;
    dir.write("gateway.yaml", gateway(http, None))?;
    for file in 0..HOSTS / PER_FILE {
        let hosts = file * PER_FILE..(file + 1) * PER_FILE;
        let text: String = hosts.map(|number| host(number, a.address())).collect();
        dir.write(&format!("hosts-{file}.yaml"), text)?;
    }
    dir.write("services.yaml", service("to-a", &[a.address()]) + &service("to-b", &[b.address()]))?;
    dir.write("moved.yaml", plain_route("moved", MOVED, "to-a"))?;

    let start = Instant::now();
    let mut portolan = Portolan::start(binary, &dir.path(), &["--envoy-concurrency", "2"])?;
    portolan.ready(LIMIT).await?;
    let mut client = Client::new(http);
    client.until("a", "a").await?;
    let ready = start.elapsed();
    let (top, settled) = (peak(portolan.id()), resident(portolan.id()));

    let other = Worker::get(
        "another host",
        Kind::KeepAlive,
        Endpoint::http1(http),
        "http://host-1.example.com/",
        100.0,
        backend("a"),
    )?;
    let load = Load::start(&[other]);
    let (mut totals, mut parts): (Vec<Duration>, [Vec<Duration>; 5]) = (Vec::new(), Default::default());
    let (mut from, mut to) = ("a", "b");
    for _ in 0..CHANGES {
        let before = Parts::of(&portolan.metrics().await?);
        let (start, written) = (Instant::now(), SystemTime::now());
        dir.write("moved.yaml", plain_route("moved", MOVED, &format!("to-{to}")))?;
        client.until(from, to).await?;
        let total = start.elapsed();
        tokio::time::sleep(Duration::from_millis(200)).await;
        let metrics = portolan.metrics().await?;
        let taken_up = metrics.sum("portolan_last_event_timestamp_seconds", &[]);
        let after = Parts::of(&metrics);
        let spans = [
            taken_up - written.duration_since(SystemTime::UNIX_EPOCH)?.as_secs_f64(),
            after.engine - before.engine,
            after.publish - before.publish,
            after.acknowledged - before.acknowledged,
        ]
        .map(|seconds| Duration::from_secs_f64(seconds.max(0.0)));
        let rest = total.saturating_sub(spans.iter().sum());
        for (values, span) in parts.iter_mut().zip(spans.into_iter().chain([rest])) {
            values.push(span);
        }
        totals.push(total);
        std::mem::swap(&mut from, &mut to);
    }
    let report = load.stop().await?;
    let (median, largest) = middle(totals);
    let [watcher, engine, publish, acknowledged, rest] = parts.map(|spans| milliseconds(middle(spans).0));
    Ok(vec![
        Row {
            what: "written manifest to the first right answer of Envoy, 10,000 hosts",
            bar: "only the old or the new answer",
            measured: format!(
                "{} (largest {}), {} other answers",
                milliseconds(median),
                milliseconds(largest),
                client.wrong
            ),
            kept: Some(client.wrong == 0),
        },
        Row {
            what: "of that: watcher / engine / publish / xDS to Envoy and its ACK / rest (medians)",
            bar: "reported",
            measured: [watcher, engine, publish, acknowledged, rest].join(" / "),
            kept: None,
        },
        Row {
            what: "requests to another host meanwhile",
            bar: "0 failed",
            measured: format!("{} of {} failed", report.failed(), report.sent()),
            kept: Some(report.failed() == 0),
        },
        Row {
            what: "`portolan run` with 10,000 routes: start to the first answer; peak and settled memory",
            bar: "reported",
            measured: format!("{:.2} s; {}; {}", ready.as_secs_f64(), megabytes(top), megabytes(settled)),
            kept: None,
        },
    ])
}

/// Asks the moved host again and again on one connection.
struct Client {
    endpoint: Endpoint,
    connection: Option<Connection>,
    /// Answers that were neither the old nor the new one
    wrong: u64,
}

impl Client {
    fn new(address: SocketAddr) -> Self {
        Self { endpoint: Endpoint::http1(address), connection: None, wrong: 0 }
    }

    async fn until(&mut self, from: &str, to: &str) -> anyhow::Result<()> {
        let end = Instant::now() + LIMIT;
        loop {
            let answer = self.ask().await?;
            if answer == to {
                return Ok(());
            }
            self.wrong += u64::from(answer != from);
            ensure!(Instant::now() < end, "still answered by {answer:?}, not by {to}");
        }
    }

    async fn ask(&mut self) -> anyhow::Result<String> {
        let mut connection = match self.connection.take().filter(Connection::is_open) {
            Some(open) => open,
            None => Connection::open(&self.endpoint).await?,
        };
        let request = Request::get(format!("http://{MOVED}/")).body(Bytes::new())?;
        match connection.send(request).await {
            Ok(exchange) => {
                self.connection = Some(connection);
                let status = || exchange.status.to_string();
                Ok(exchange.header(IDENTITY).map_or_else(status, ToOwned::to_owned))
            }
            Err(Unsent::Again(_)) => Ok(String::from("a connection at its end")),
            Err(Unsent::Failed(failure)) => Ok(failure.to_string()),
        }
    }
}

fn host(number: usize, at: SocketAddr) -> String {
    let name = format!("host-{number}");
    let mut text = service(&name, &[at]);
    let _infallible = write!(text, "{}", plain_route(&name, &format!("{name}.example.com"), &name));
    text
}
