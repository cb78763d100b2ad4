//! What is right at each moment, and the judgement of every answer by it.
//!
//! A change needs time to arrive, so from the moment before it is written both the state before and the state after are right; the one before
//! that is not any more. A request may be answered by any state that was right between its start and its end.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use http::HeaderValue;
use portolan_testkit::client::{Cause, Failure};
use portolan_testkit::load::{Worker, backends};

/// The request header that tells when a request was made: microseconds since the start.
const MADE: &str = "x-made";

/// What is right once a change has arrived.
#[derive(Clone, Default)]
pub struct State {
    /// By host and path, the backends of which one answers
    pub backends: BTreeMap<(String, String), Vec<String>>,
    /// By host, the certificate (DER) that a new connection is shown
    pub certificates: BTreeMap<String, Vec<u8>>,
}

/// Without certificates, which nobody can read.
impl fmt::Debug for State {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_map().entries(&self.backends).finish()
    }
}

impl State {
    /// The same with these backends for a host's path.
    #[must_use]
    pub fn with(mut self, host: &str, path: &str, names: &[&str]) -> Self {
        self.backends.insert((host.to_owned(), path.to_owned()), names.iter().map(ToString::to_string).collect());
        self
    }
}

/// The states so far, oldest first.
pub struct Truth {
    start: Instant,
    states: Mutex<Vec<(Duration, Arc<State>)>>,
    /// Microseconds
    latencies: Mutex<Vec<u32>>,
}

impl Truth {
    pub fn new(first: State) -> Arc<Self> {
        let states = Mutex::new(vec![(Duration::ZERO, Arc::new(first))]);
        Arc::new(Self { start: Instant::now(), states, latencies: Mutex::default() })
    }

    /// What will be right once the change that is about to be written has arrived.
    pub fn becomes(&self, state: State) {
        lock(&self.states).push((self.start.elapsed(), Arc::new(state)));
    }

    /// The newest state.
    pub fn newest(&self) -> State {
        lock(&self.states).last().map(|(_, state)| State::clone(state)).unwrap_or_default()
    }

    /// The states that may answer a request made then.
    pub fn allowed(&self, made: Duration) -> Vec<Arc<State>> {
        let states = lock(&self.states);
        let newest_then = states.partition_point(|(since, _)| *since <= made).saturating_sub(1);
        states[newest_then.saturating_sub(1)..].iter().map(|(_, state)| Arc::clone(state)).collect()
    }

    /// The 99th percentile of the latencies since the last call, from when a request was made to its answer.
    pub fn p99(&self) -> Duration {
        let mut latencies = std::mem::take(&mut *lock(&self.latencies));
        latencies.sort_unstable();
        let index = latencies.len().saturating_sub(1) * 99 / 100;
        Duration::from_micros(latencies.get(index).copied().unwrap_or_default().into())
    }

    /// The worker with requests that tell when they were made, and answers judged by the states of that time; `certificate`: also what the
    /// connection showed, which must then be a new one for each request.
    pub fn judge(self: &Arc<Self>, mut worker: Worker, certificate: bool) -> Worker {
        let (request, truth) = (Arc::clone(&worker.request), Arc::clone(self));
        worker.request = Arc::new(move |serial| {
            let mut made = request(serial);
            let since = u64::try_from(truth.start.elapsed().as_micros()).unwrap_or(u64::MAX);
            made.headers_mut().insert(MADE, HeaderValue::from(since));
            made
        });
        let truth = Arc::clone(self);
        worker.expect = Arc::new(move |request, exchange| {
            let made = request.headers().get(MADE).and_then(|made| made.to_str().ok()?.parse().ok());
            let made = Duration::from_micros(made.unwrap_or_default());
            let key = (request.uri().host().unwrap_or_default().to_owned(), request.uri().path().to_owned());
            let allowed = truth.allowed(made);
            let names: Vec<&str> =
                allowed.iter().filter_map(|state| state.backends.get(&key)).flatten().map(String::as_str).collect();
            backends(&names)(request, exchange)?;
            if certificate {
                let shown = exchange.certificate.as_ref().map(|certificate| certificate.as_ref().to_vec());
                let mut known = allowed.iter().filter_map(|state| state.certificates.get(&key.0));
                if !known.any(|known| Some(known) == shown.as_ref()) {
                    return Err(Failure::new(Cause::Identity, format!("a certificate of {} that was replaced", key.0)));
                }
            }
            let took = truth.start.elapsed().saturating_sub(made);
            lock(&truth.latencies).push(u32::try_from(took.as_micros()).unwrap_or(u32::MAX));
            Ok(())
        });
        worker
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[test]
fn the_state_before_the_last_is_wrong_for_requests_made_after_the_last_write() {
    let state = |name: &str| State::default().with("h", "/", &[name]);
    let truth = Truth::new(state("a"));
    let pause = || std::thread::sleep(Duration::from_millis(2));
    pause();
    let early = truth.start.elapsed();
    pause();
    truth.becomes(state("b"));
    truth.becomes(state("c"));
    let names = |made| -> Vec<String> {
        truth.allowed(made).iter().flat_map(|state| state.backends.values().flatten().cloned()).collect()
    };
    assert_eq!(names(early), ["a", "b", "c"]);
    assert_eq!(names(truth.start.elapsed()), ["b", "c"]);
}
