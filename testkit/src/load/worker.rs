//! Sends requests when they are due, and judges what comes back.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::Request;
use tokio::sync::{Mutex, watch};
use tokio::task::JoinSet;
use tokio::time::{Interval, MissedTickBehavior, timeout};

use super::{Expect, Kind, Live, Tally, Worker, websocket};
use crate::client::{Cause, Connection, Endpoint, Exchange, Failure, Unsent, only};

/// A request that finds a connection at its end so often in a row has failed: the server accepts connections but serves none.
const ATTEMPTS: u32 = 5;

/// Starts the tasks of a worker: one, or one for each stream.
pub(super) fn spawn(
    worker: &Worker,
    stopped: &watch::Receiver<bool>,
    live: &Arc<Live>,
    tasks: &mut JoinSet<(&'static str, Tally)>,
) {
    let streams = match worker.kind {
        Kind::Streams(streams) => streams.max(1),
        _ => 1,
    };
    let shared = Arc::new(Mutex::new(None));
    let serial = Arc::new(AtomicU64::new(0));
    for _ in 0..streams {
        let pace = Pace {
            rate: worker.rate / streams as f64,
            stopped: stopped.clone(),
            live: Arc::clone(live),
            started: Instant::now(),
        };
        let (worker, serial) = (worker.clone(), Arc::clone(&serial));
        if worker.kind == Kind::Websocket {
            tasks.spawn(websocket::run(worker, pace));
            continue;
        }
        let connections = match worker.kind {
            Kind::Streams(_) => Connections::Shared(Arc::clone(&shared)),
            Kind::NewConnection => Connections::Fresh,
            _ => Connections::Own(None),
        };
        tasks.spawn(run(worker, connections, pace, serial));
    }
}

/// When requests are due, and where they are counted.
pub(super) struct Pace {
    rate: f64,
    stopped: watch::Receiver<bool>,
    live: Arc<Live>,
    started: Instant,
}

impl Pace {
    pub(super) fn ticks(&self) -> Interval {
        let period = Duration::from_secs_f64(1.0 / self.rate.max(0.01));
        let mut interval = tokio::time::interval(period);
        // What a stall delayed is still due: the rate is kept on average.
        interval.set_missed_tick_behavior(MissedTickBehavior::Burst);
        interval
    }

    /// When the next request was due; none once the load is stopped.
    pub(super) async fn next(&mut self, ticks: &mut Interval) -> Option<Instant> {
        if *self.stopped.borrow() {
            return None;
        }
        tokio::select! {
            due = ticks.tick() => Some(due.into_std()),
            _ = self.stopped.changed() => None,
        }
    }

    pub(super) fn count(&self, tally: &mut Tally, due: Instant, outcome: Result<(), Failure>) {
        self.live.sent.fetch_add(1, Ordering::Relaxed);
        match outcome {
            Ok(()) => tally.succeeded(due.elapsed()),
            Err(failure) => {
                self.live.failed.fetch_add(1, Ordering::Relaxed);
                tally.failed(self.started.elapsed(), &failure);
            }
        }
    }
}

async fn run(
    worker: Worker,
    mut connections: Connections,
    mut pace: Pace,
    serial: Arc<AtomicU64>,
) -> (&'static str, Tally) {
    let mut tally = Tally::default();
    let mut ticks = pace.ticks();
    while let Some(due) = pace.next(&mut ticks).await {
        let request = (worker.request)(serial.fetch_add(1, Ordering::Relaxed));
        let outcome =
            match timeout(worker.limit, exchange(&mut connections, &worker.endpoint, &request, &mut tally)).await {
                Ok(outcome) => outcome,
                Err(_) => {
                    connections.forget();
                    Err(Failure::new(Cause::Timeout, format!("{} after {:?}", request.uri(), worker.limit)))
                }
            };
        pace.count(&mut tally, due, outcome.and_then(|exchange| judge(&worker.expect, &request, &exchange)));
    }
    (worker.name, tally)
}

pub(super) fn judge(expect: &Expect, request: &Request<Bytes>, exchange: &Exchange) -> Result<(), Failure> {
    expect(request, exchange)
}

async fn exchange(
    connections: &mut Connections,
    endpoint: &Endpoint,
    request: &Request<Bytes>,
    tally: &mut Tally,
) -> Result<Exchange, Failure> {
    let mut last = String::new();
    for _ in 0..ATTEMPTS {
        let request = match connections {
            Connections::Fresh => only(request.clone(), endpoint.protocol),
            _ => request.clone(),
        };
        let sent = match connections {
            Connections::Own(own) => {
                let mut connection = match own.take().filter(Connection::is_open) {
                    Some(open) => open,
                    None => open(endpoint, tally).await?,
                };
                let sent = connection.send(request).await;
                // After a failure it is unknown what would arrive next.
                *own = sent.is_ok().then_some(connection);
                sent
            }
            Connections::Fresh => open(endpoint, tally).await?.send(request).await,
            Connections::Shared(shared) => stream(shared, endpoint, tally).await?.send(request).await,
        };
        match sent {
            Ok(exchange) => return Ok(exchange),
            Err(Unsent::Failed(failure)) => return Err(failure),
            Err(Unsent::Again(why)) => {
                tally.again += 1;
                last = why;
            }
        }
    }
    Err(Failure::new(Cause::Broken, format!("{ATTEMPTS} connections in a row ended before a request: {last}")))
}

/// Where a worker takes its connections from.
enum Connections {
    Own(Option<Connection>),
    Fresh,
    Shared(Arc<Mutex<Option<Connection>>>),
}

impl Connections {
    /// A connection on which an answer is overdue is not used again, unless other streams still do.
    fn forget(&mut self) {
        if let Self::Own(own) = self {
            *own = None;
        }
    }
}

async fn open(endpoint: &Endpoint, tally: &mut Tally) -> Result<Connection, Failure> {
    tally.connections += 1;
    Connection::open(endpoint).await
}

/// A handle to the connection that all streams share, opened again by the first one to find it at its end.
async fn stream(
    shared: &Mutex<Option<Connection>>,
    endpoint: &Endpoint,
    tally: &mut Tally,
) -> Result<Connection, Failure> {
    let mut slot = shared.lock().await;
    if let Some(open) = slot.as_ref().filter(|connection| connection.is_open()).and_then(Connection::share) {
        return Ok(open);
    }
    let connection = open(endpoint, tally).await?;
    let handle =
        connection.share().ok_or_else(|| Failure::new(Cause::Connect, "several streams need an endpoint of HTTP/2"))?;
    *slot = Some(connection);
    Ok(handle)
}
