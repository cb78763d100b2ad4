//! 200 proxies in step over 10,000 resources: what a stream costs the server, and what an update without effect sends.

use std::io::{BufRead as _, BufReader, Lines, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use portolan_engine::{Engine, Event, Options};
use portolan_proto::ResourceType;
use portolan_testkit::portolan::Metrics;
use portolan_xds::{FleetName, Server};
use prometheus_client::registry::Registry;
use tokio::net::UnixListener;
use tokio::task::JoinSet;
use tokio_stream::wrappers::UnixListenerStream;
use tonic::transport::server::UdsConnectInfo;

use crate::client::{Names, Received, follow};
use crate::measure::{Row, megabytes, milliseconds, peak, resident};
use crate::scene;

/// Each with a cluster and endpoints: 10,000 resources.
const ROUTES: usize = 5_000;
const STREAMS: u64 = 200;
/// The bar, in bytes.
const PER_STREAM: u64 = 50_000;
const SETTLING: Duration = Duration::from_secs(2);
const LIMIT: Duration = Duration::from_mins(2);

/// The server. A word per line of its input, a number per line of its output: `same` and `changed` publish a world, and are answered by how many
/// changes that were; `in-step` by how many streams are.
pub fn child(socket: &Path) -> anyhow::Result<()> {
    let fleet = FleetName::new(scene::gateway_name().to_string());
    let mut engine = Engine::new(Options::default());
    let mut registry = Registry::default();
    let (server, _transitions) = Server::new(portolan_xds::Options::default(), &mut registry);
    let mut publish = |events: Vec<Event>| {
        let output = engine.apply(events);
        let changes: Vec<_> = output.fleets.into_values().flatten().collect();
        println!("{}", changes.len());
        server.publish(&fleet, changes);
    };
    publish(scene::world(ROUTES));
    server.open();

    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let listener = runtime.block_on(async { UnixListener::bind(socket) })?;
    let (serving, name) = (server.clone(), fleet.clone());
    runtime.spawn(async move {
        let identify = move |_: &UdsConnectInfo| Some(name.clone());
        serving.serve(UnixListenerStream::new(listener), identify, std::future::pending()).await
    });
    println!("ready");
    for line in std::io::stdin().lines() {
        match line?.as_str() {
            "same" => publish(scene::world(ROUTES)),
            "changed" => publish(vec![scene::own_host(ROUTES / 2, 1)]),
            "in-step" => {
                let mut text = String::new();
                prometheus_client::encoding::text::encode(&mut text, &registry)?;
                println!("{}", Metrics::read(&text).sum("portolan_xds_streams", &["state=\"in_step\""]));
            }
            other => anyhow::bail!("{other:?} is no word of this protocol"),
        }
    }
    Ok(())
}

struct ServerProcess {
    process: Child,
    orders: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
}

impl ServerProcess {
    fn start(socket: &Path) -> anyhow::Result<Self> {
        let mut process = Command::new(std::env::current_exe()?)
            .args(["--child", "streams", "--socket"])
            .arg(socket)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let orders = process.stdin.take().context("no pipe")?;
        let lines = BufReader::new(process.stdout.take().context("no pipe")?).lines();
        Ok(Self { process, orders, lines })
    }

    fn line(&mut self) -> anyhow::Result<String> {
        Ok(self.lines.next().context("the server has ended")??)
    }

    fn order(&mut self, word: &str) -> anyhow::Result<usize> {
        writeln!(self.orders, "{word}")?;
        Ok(self.line()?.parse()?)
    }

    /// Once the allocator has given back what it does not need.
    async fn settled(&self) -> u64 {
        tokio::time::sleep(SETTLING).await;
        resident(self.process.id())
    }

    fn peak(&self) -> u64 {
        peak(self.process.id())
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

pub fn rows() -> anyhow::Result<Vec<Row>> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(measure())
}

async fn measure() -> anyhow::Result<Vec<Row>> {
    let directory = tempfile::tempdir()?;
    let socket = directory.path().join("xds.sock");
    let mut server = ServerProcess::start(&socket)?;
    let resources: u64 = server.line()?.parse()?;
    ensure!(resources >= 10_000, "only {resources} resources");
    ensure!(server.line()? == "ready", "the server does not serve");

    let mut proxies =
        Proxies { socket, names: Arc::new(names()), received: Arc::default(), tasks: JoinSet::new(), resources };
    // One after another: what the allocator keeps of a moment with many proxies that hold nothing yet is no cost of a stream in step, and has a
    // row of its own. The first are not counted: with them comes what the server needs once.
    for _ in 0..20 {
        proxies.join(1, &mut server).await?;
    }
    let without = server.settled().await;
    for _ in 0..STREAMS {
        proxies.join(1, &mut server).await?;
    }
    let with = server.settled().await;
    let per_stream = with.saturating_sub(without) / STREAMS;

    let (streams, received) = (proxies.tasks.len() as u64, Arc::clone(&proxies.received));
    let before = received.responses.load(Ordering::Relaxed);
    ensure!(server.order("same")? == 0, "the engine sees changes where there are none");
    tokio::time::sleep(Duration::from_secs(2)).await;
    let for_nothing = received.responses.load(Ordering::Relaxed) - before;
    // The streams do live: a change reaches each of them, as one response.
    let start = Instant::now();
    ensure!(server.order("changed")? == 1, "one table changes");
    received.reach((resources + 1) * streams).await?;
    let fan_out = start.elapsed();
    let answers = received.responses.load(Ordering::Relaxed) - before - for_nothing;
    ensure!(answers == streams, "{answers} responses for one change on {streams} streams");

    received.resources.store(resources * streams, Ordering::Relaxed);
    let start = Instant::now();
    proxies.join(STREAMS, &mut server).await?;
    let joined = start.elapsed();
    let settled = server.settled().await;

    Ok(vec![
        Row {
            what: "memory per stream, 200 streams in step over 10,000 resources",
            bar: "≤ 50 kB",
            measured: format!("{:.1} kB ({} in all)", per_stream as f64 / 1e3, megabytes(with)),
            kept: Some(per_stream <= PER_STREAM),
        },
        Row {
            what: "an update without effect, on those streams",
            bar: "0 bytes",
            measured: format!("{for_nothing} responses"),
            kept: Some(for_nothing == 0),
        },
        Row {
            what: "200 more proxies that all come at once: until they hold everything; memory at most and after",
            bar: "reported",
            measured: format!("{:.1} s; {}; {}", joined.as_secs_f64(), megabytes(server.peak()), megabytes(settled)),
            kept: None,
        },
        Row {
            what: "one changed route until 220 proxies have received the table",
            bar: "reported",
            measured: milliseconds(fan_out),
            kept: None,
        },
    ])
}

/// The clients.
struct Proxies {
    socket: PathBuf,
    names: Arc<Names>,
    received: Arc<Received>,
    tasks: JoinSet<anyhow::Result<()>>,
    /// Of the world
    resources: u64,
}

impl Proxies {
    /// So many more connect; waits until they hold everything, once, and the server knows it.
    async fn join(&mut self, count: u64, server: &mut ServerProcess) -> anyhow::Result<()> {
        for _ in 0..count {
            self.tasks.spawn(follow(self.socket.clone(), Arc::clone(&self.names), Arc::clone(&self.received)));
        }
        let all = self.tasks.len();
        self.received.reach(self.resources * all as u64).await?;
        let end = Instant::now() + LIMIT;
        loop {
            let in_step = server.order("in-step")?;
            if in_step == all {
                return Ok(());
            }
            if let Some(ended) = self.tasks.try_join_next() {
                ended??;
                anyhow::bail!("the server has ended a stream");
            }
            ensure!(Instant::now() < end, "only {in_step} of {all} streams are in step");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

impl Received {
    /// Waits until all clients together have received so many resources.
    async fn reach(&self, resources: u64) -> anyhow::Result<()> {
        let end = Instant::now() + LIMIT;
        loop {
            let now = self.resources.load(Ordering::Relaxed);
            if now == resources {
                return Ok(());
            }
            ensure!(now < resources, "{now} resources were received, {resources} are right: something was sent twice");
            ensure!(Instant::now() < end, "only {now} of {resources} resources were received within {LIMIT:?}");
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
}

/// What a proxy asks for by name.
fn names() -> Names {
    let mut engine = Engine::new(Options::default());
    engine.apply(scene::world(ROUTES));
    let of = |kind| {
        let snapshot = engine.snapshot(&scene::gateway_name()).into_iter();
        snapshot.flat_map(|snapshot| snapshot.of_kind(kind)).map(|resource| resource.key.name.to_string()).collect()
    };
    Names { endpoints: of(ResourceType::Endpoints), tables: of(ResourceType::Route) }
}
