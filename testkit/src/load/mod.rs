//! Load that judges every answer.
//!
//! A [`Worker`] sends requests of one kind at a steady rate and hands each answer to its [`Expect`]ation; a [`Load`] runs workers until it is stopped
//! and yields a [`Report`].
//!
//! A request fails when its status, backend or body is wrong, when no connection comes about, when the connection breaks under it, or when it takes longer than
//! the worker's limit. It does not fail, but is sent again on a new connection, when the server cannot have acted on it: the connection ended after the server
//! announced it (`connection: close`, GOAWAY) or while nothing was in flight (RFC 9112, 9.5; RFC 9113, 6.8). Such reconnects are counted beside.
//!
//! Latencies count from when a request was due, not from when it could be sent: a stall shows in every request that it delayed.

mod expect;
mod mix;
mod report;
mod websocket;
mod worker;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::Request;
use tokio::sync::watch;
use tokio::task::JoinSet;

pub use expect::{Expect, backend, backends};
pub use mix::Mix;
pub use report::{Failures, Report, Tally};

use crate::client::Endpoint;

/// The usual limit of a worker.
pub const LIMIT: Duration = Duration::from_secs(10);

/// How a worker uses connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// One connection after another, each as long as the server keeps it: HTTP/1.1 keep-alive, or one HTTP/2 stream at a time.
    KeepAlive,
    /// One HTTP/2 connection with so many streams at a time.
    Streams(usize),
    /// A new connection for each request, with TLS where the endpoint has it.
    NewConnection,
    /// One websocket that is held open and echoes; its end is a failure.
    Websocket,
}

/// One source of requests.
#[derive(Clone)]
pub struct Worker {
    /// The name of its line in the report; workers of one name are added up.
    pub name: &'static str,
    /// How it uses connections.
    pub kind: Kind,
    /// Where it connects to.
    pub endpoint: Endpoint,
    /// Requests (or websocket messages) per second.
    pub rate: f64,
    /// Makes the nth request, with an absolute URI. A websocket takes the path and headers of request 0 for each handshake.
    pub request: Arc<dyn Fn(u64) -> Request<Bytes> + Send + Sync>,
    /// Judges an answer; a websocket's handshake too.
    pub expect: Expect,
    /// A request without an answer for so long has failed.
    pub limit: Duration,
}

impl Worker {
    /// A worker that sends `GET uri` and expects what `expect` says.
    ///
    /// # Errors
    /// When the URI is not one.
    pub fn get(
        name: &'static str,
        kind: Kind,
        endpoint: Endpoint,
        uri: &str,
        rate: f64,
        expect: Expect,
    ) -> anyhow::Result<Self> {
        let request = Request::get(uri).body(Bytes::new())?;
        Ok(Self { name, kind, endpoint, rate, request: Arc::new(move |_| request.clone()), expect, limit: LIMIT })
    }

    /// The same worker sending a body of `length` bytes by POST, different for each request.
    ///
    /// # Errors
    /// When the URI is not one.
    pub fn post(
        name: &'static str,
        kind: Kind,
        endpoint: Endpoint,
        uri: &str,
        length: usize,
        rate: f64,
        expect: Expect,
    ) -> anyhow::Result<Self> {
        let template = Request::post(uri).body(Bytes::new())?;
        let request = move |serial: u64| {
            let pattern = serial.to_string();
            let body: Vec<u8> = pattern.bytes().chain(std::iter::once(b' ')).cycle().take(length).collect();
            template.clone().map(|_| Bytes::from(body))
        };
        Ok(Self { name, kind, endpoint, rate, request: Arc::new(request), expect, limit: LIMIT })
    }
}

/// Counts that can be read while the load runs.
#[derive(Default)]
struct Live {
    sent: AtomicU64,
    failed: AtomicU64,
}

/// Running load. Dropping it stops the workers without a report.
pub struct Load {
    stop: watch::Sender<bool>,
    tasks: JoinSet<(&'static str, Tally)>,
    live: Arc<Live>,
    started: Instant,
}

impl Load {
    /// Starts the workers on the current tokio runtime; give a test that starts load a runtime with two threads.
    pub fn start(workers: &[Worker]) -> Self {
        let (stop, stopped) = watch::channel(false);
        let live = Arc::new(Live::default());
        let mut tasks = JoinSet::new();
        for worker in workers {
            worker::spawn(worker, &stopped, &live, &mut tasks);
        }
        Self { stop, tasks, live, started: Instant::now() }
    }

    /// Requests sent so far.
    pub fn sent(&self) -> u64 {
        self.live.sent.load(Ordering::Relaxed)
    }

    /// Requests failed so far.
    pub fn failed(&self) -> u64 {
        self.live.failed.load(Ordering::Relaxed)
    }

    /// Waits until so many requests have been sent since now.
    ///
    /// # Errors
    /// When that takes longer than the limit.
    pub async fn further(&self, requests: u64, limit: Duration) -> anyhow::Result<()> {
        let (from, end) = (self.sent(), Instant::now() + limit);
        while self.sent() < from + requests {
            anyhow::ensure!(
                Instant::now() < end,
                "only {} of {requests} requests were sent in {limit:?}",
                self.sent() - from
            );
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        Ok(())
    }

    /// Stops: requests in flight are finished and counted, nothing more is sent.
    ///
    /// # Errors
    /// When a worker panicked, as an expectation of a test may.
    pub async fn stop(mut self) -> anyhow::Result<Report> {
        let elapsed = self.started.elapsed();
        // Without receivers all workers have ended already.
        let _ = self.stop.send(true);
        let mut report = Report::new(elapsed);
        while let Some(finished) = self.tasks.join_next().await {
            let (name, tally) = finished?;
            report.add(name, tally);
        }
        Ok(report)
    }
}
