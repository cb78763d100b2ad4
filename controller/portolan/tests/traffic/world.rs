//! One Portolan, one Envoy, three backends and a load that goes on through all phases.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use bytes::Bytes;
use http::Request;
use portolan_testkit::certs::{Authority, Pair};
use portolan_testkit::client::{Endpoint, Exchange, Protocol, send};
use portolan_testkit::load::{Kind, Load, Worker, backend};
use portolan_testkit::{Dir, Echo, EchoOptions, Portolan, manifest, ports};

use crate::truth::{State, Truth};

pub const APP: &str = "app.example";
pub const OTHER: &str = "other.example";
pub const STILL: &str = "still.example";
/// How long a change may take to arrive on a machine that does much else.
pub const ARRIVAL: Duration = Duration::from_secs(10);
/// Keep-alive connections of each HTTP/1.1 worker.
const CONNECTIONS: u64 = 4;
/// Between two changes, at least: ten changes a second.
const PACE: Duration = Duration::from_millis(100);

pub struct World {
    pub dir: Dir,
    pub portolan: Portolan,
    pub truth: Arc<Truth>,
    pub authority: Authority,
    pub https: SocketAddr,
    pub http: SocketAddr,
    load: Option<Load>,
    /// Requests sent and failed before the current phase
    before: (u64, u64),
    echoes: BTreeMap<&'static str, Echo>,
}

impl World {
    /// Everything runs, and the load has begun.
    pub async fn start() -> anyhow::Result<Self> {
        let mut echoes = BTreeMap::new();
        // On addresses of their own with one port, as pods are: one EndpointSlice can name several.
        let port = ports::free()?;
        for (name, last) in ["a", "b", "c", "still", "other"].into_iter().zip(1..) {
            let listen = SocketAddr::from(([127, 0, 0, last], port));
            echoes.insert(name, Echo::start(EchoOptions { listen, ..EchoOptions::named(name) }).await?);
        }
        let authority = Authority::new("traffic")?;
        let (http, https) = (ports::address()?, ports::address()?);
        let dir = Dir::new()?;
        dir.write("gateway.yaml", manifest::gateway(http, Some(https)))?;
        let mut backends = String::new();
        for (name, echo) in &echoes {
            backends += &manifest::service(name, &[echo.address()]);
        }
        for host in [STILL, OTHER] {
            let name = host.trim_end_matches(".example");
            backends += &manifest::route(name, host, &[("/", name)], 0);
        }
        dir.write("backends.yaml", backends)?;
        let mut first = State::default().with(STILL, "/", &["still"]).with(OTHER, "/", &["other"]);
        for name in ["app", "other"] {
            let host = format!("{name}.example");
            let pair = authority.server(&[&host])?;
            dir.write(&format!("certificate-{name}.yaml"), pair.secret("default", name))?;
            first.certificates.insert(host, pair.der()?.to_vec());
        }
        let first = first.with(APP, "/one", &["a"]).with(APP, "/two", &["b"]);
        dir.write("app.yaml", manifest::route("app", APP, &[("/one", "a"), ("/two", "b")], 0))?;

        let mut portolan =
            Portolan::start(Path::new(env!("CARGO_BIN_EXE_portolan")), &dir.path(), &["--envoy-concurrency", "2"])?;
        portolan.ready(Duration::from_mins(1)).await?;
        let truth = Truth::new(first);
        let mut world = Self { dir, portolan, truth, authority, https, http, load: None, before: (0, 0), echoes };
        for path in ["/one", "/two"] {
            world.answered(APP, path, 0).await?;
        }
        let workers = world.workers()?;
        world.load = Some(Load::start(&workers));
        Ok(world)
    }

    /// 618 requests a second.
    fn workers(&self) -> anyhow::Result<Vec<Worker>> {
        let (h1, h2) = (Endpoint::http1(self.http), Endpoint::http2(self.http));
        // Every answer is judged by the truth; this is replaced.
        let any = || backend("");
        let get = |name, kind, endpoint: &Endpoint, uri: &str, rate| {
            Worker::get(name, kind, endpoint.clone(), uri, rate, any())
        };
        let (one, two) = (format!("http://{APP}/one"), format!("http://{APP}/two"));
        let still = format!("http://{STILL}/");
        let mut plain = vec![
            get("http2", Kind::Streams(8), &h2, &two, 150.0)?,
            get("websocket", Kind::Websocket, &h1, &one, 20.0)?,
            get("http2 tls", Kind::Streams(4), &self.tls(APP, Protocol::Http2)?, &format!("https://{APP}/one"), 100.0)?,
        ];
        // On several connections, so that one slow answer does not hold up the others.
        for _ in 0..CONNECTIONS {
            plain.push(get("http1", Kind::KeepAlive, &h1, &one, 40.0)?);
            plain.push(get("http1 still", Kind::KeepAlive, &h1, &still, 25.0)?);
            plain.push(Worker::post("http1 post", Kind::KeepAlive, h1.clone(), &two, 5000, 12.0, any())?);
        }
        let mut fresh = Vec::new();
        for _ in 0..2 {
            fresh.push(get(
                "new tls",
                Kind::NewConnection,
                &self.tls(APP, Protocol::Http1)?,
                &format!("https://{APP}/two"),
                12.0,
            )?);
            fresh.push(get(
                "new tls other",
                Kind::NewConnection,
                &self.tls(OTHER, Protocol::Http1)?,
                &format!("https://{OTHER}/"),
                8.0,
            )?);
        }
        let plain = plain.into_iter().map(|worker| self.truth.judge(worker, false));
        let fresh = fresh.into_iter().map(|worker| self.truth.judge(worker, true));
        Ok(plain.chain(fresh).collect())
    }

    fn tls(&self, host: &str, protocol: Protocol) -> anyhow::Result<Endpoint> {
        let alpn = if protocol == Protocol::Http2 { "h2" } else { "http/1.1" };
        Endpoint::new(self.https, protocol).tls(self.authority.client_config(&[alpn])?, host)
    }

    pub fn address(&self, echo: &str) -> SocketAddr {
        self.echoes[echo].address()
    }

    /// One request on a new plain-text connection.
    pub async fn ask(&self, host: &str, path: &str) -> anyhow::Result<Exchange> {
        let request = Request::get(format!("http://{host}{path}")).body(Bytes::new())?;
        Ok(send(&Endpoint::http1(self.http), request).await?)
    }

    /// The certificate that a new connection for this host is shown.
    pub async fn certificate(&self, host: &str) -> anyhow::Result<Vec<u8>> {
        let request = Request::get(format!("https://{host}/two")).body(Bytes::new())?;
        let exchange = send(&self.tls(host, Protocol::Http1)?, request).await?;
        Ok(exchange.certificate.context("no certificate")?.to_vec())
    }

    /// Waits until a path of the host is answered by the newest state's backends, with this `x-version`. Until then only the state before may
    /// answer.
    pub async fn answered(&self, host: &str, path: &str, version: usize) -> anyhow::Result<()> {
        let (end, version) = (Instant::now() + ARRIVAL, version.to_string());
        let key = (host.to_owned(), path.to_owned());
        loop {
            let allowed = self.truth.allowed(Duration::MAX);
            let exchange = self.ask(host, path).await?;
            let answer = exchange.answer().with_context(|| format!("{host}{path}: {}", exchange.status))?;
            let by = |state: &Arc<State>| state.backends.get(&key).is_some_and(|names| names.contains(&answer.service));
            ensure!(
                allowed.iter().any(by),
                "{host}{path} is answered by {}, which is right in none of {allowed:?}",
                answer.service
            );
            if allowed.last().is_some_and(by) && answer.header("x-version") == Some(&version) {
                return Ok(());
            }
            ensure!(
                Instant::now() < end,
                "{host}{path} is still answered by {} with x-version {:?}, not {version}\n{}",
                answer.service,
                answer.header("x-version"),
                self.portolan.log()
            );
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Writes `app.yaml` and waits until `/one` and `/two` are answered by it.
    pub async fn put_app(&self, manifest: &str, state: State, version: usize) -> anyhow::Result<()> {
        let start = Instant::now();
        self.truth.becomes(state);
        self.dir.write("app.yaml", manifest)?;
        for path in ["/one", "/two"] {
            self.answered(APP, path, version).await?;
        }
        pace(start).await;
        Ok(())
    }

    /// Resources of these types sent so far by this process.
    pub async fn sent(&self, types: &[&str]) -> anyhow::Result<f64> {
        let metrics = self.portolan.metrics().await?;
        let of = |kind: &&str| {
            let label = format!("type=\"{kind}\"");
            metrics.sum("portolan_xds_sent_resources_total", &[&label])
                + metrics.sum("portolan_xds_sent_removals_total", &[&label])
        };
        Ok(types.iter().map(of).sum())
    }

    /// Ends a phase and reports it.
    pub fn phase(&mut self, name: &str, changes: usize, start: Instant) {
        let now = self.load.as_ref().map_or((0, 0), |load| (load.sent(), load.failed()));
        let (sent, failed) = (now.0 - self.before.0, now.1 - self.before.1);
        self.before = now;
        let (p99, took) = (self.truth.p99().as_secs_f64() * 1e3, start.elapsed().as_secs_f64());
        println!(
            "{name:<46} {changes:>3} changes {sent:>6} requests {failed:>3} failed, p99 {p99:>6.1} ms, {took:>5.1} s"
        );
    }

    /// Ends the load and Portolan: nothing has failed at all.
    pub async fn finish(mut self) -> anyhow::Result<()> {
        let report = self.load.take().context("the load has ended")?.stop().await?;
        println!("{report}");
        ensure!(report.failed() == 0, "{} requests failed\n{}", report.failed(), self.portolan.log());
        ensure!(report.rate() >= 500.0, "only {:.0} requests a second", report.rate());
        // Neither a listener nor a table was replaced in a way that ends connections.
        for (name, wanted) in [
            ("http1", CONNECTIONS),
            ("http1 post", CONNECTIONS),
            ("http1 still", CONNECTIONS),
            ("http2", 1),
            ("http2 tls", 1),
            ("websocket", 1),
        ] {
            let connections = report.workers[name].connections;
            ensure!(connections == wanted, "{name} needed {connections} connections instead of {wanted}");
        }
        let (status, log) = self.portolan.stop(Duration::from_secs(30)).await?;
        ensure!(status.success(), "portolan ended with {status}:\n{log}");
        Ok(())
    }
}

/// Waits until a change that began at `start` has had its time.
pub async fn pace(start: Instant) {
    tokio::time::sleep(PACE.saturating_sub(start.elapsed())).await;
}

/// A new pair for the names of a certificate, and its DER.
pub fn rotated(world: &World, host: &str) -> anyhow::Result<(Pair, Vec<u8>)> {
    let pair = world.authority.server(&[host])?;
    let der = pair.der()?.to_vec();
    Ok((pair, der))
}
