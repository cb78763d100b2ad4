//! Keeps one Envoy per Gateway running, and ends them with care.

use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use hyper::Method;
use portolan_model::NamespacedName;
use rustix::process::Signal;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};

use super::admin;
use super::log::LogReader;
use super::process::EnvoyProcess;
use super::runtime::{EnvoyFiles, EnvoyState, hash};

/// How to run Envoys.
#[derive(Clone, Debug)]
pub struct SupervisorOptions {
    pub binary: PathBuf,
    /// After `--config-path FILE`
    pub arguments: Vec<String>,
    /// How long to wait for connections to end
    pub drain_limit: Duration,
}

/// What happens to an Envoy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Report {
    Started {
        pid: u32,
    },
    /// One that an earlier process left running
    Adopted {
        pid: u32,
    },
    /// It ended although nobody asked; it is started again after the time
    Ended {
        how: String,
        wait: Duration,
    },
    /// It could not be started; tried again after the time
    NotStarted {
        reason: String,
        wait: Duration,
    },
    /// A line of its log
    Line(String),
    Stopped,
}

/// All Envoys. Dropping it leaves them running: the control plane may die, traffic goes on.
pub struct Supervisor {
    options: Arc<SupervisorOptions>,
    reports: mpsc::UnboundedSender<(NamespacedName, Report)>,
    tasks: BTreeMap<NamespacedName, Task>,
    /// Of Gateways that are gone
    ending: Vec<(NamespacedName, Task)>,
}

struct Task {
    orders: watch::Sender<Orders>,
    handle: JoinHandle<()>,
}

#[derive(Clone, Debug)]
struct Orders {
    order: Order,
    addresses: Vec<IpAddr>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    Run,
    Drain,
    Kill,
}

/// What an Envoy is started with.
#[derive(Clone, Debug)]
pub struct Start {
    pub files: EnvoyFiles,
    /// The bootstrap, JSON
    pub bootstrap: Vec<u8>,
    /// Where its listeners are, remembered for a later process; empty: all addresses
    pub addresses: Vec<IpAddr>,
    /// An Envoy of an earlier process that serves this Gateway
    pub running: Option<EnvoyState>,
}

impl Supervisor {
    /// Reports go to `reports`.
    #[must_use]
    pub fn new(options: SupervisorOptions, reports: mpsc::UnboundedSender<(NamespacedName, Report)>) -> Self {
        Self { options: Arc::new(options), reports, tasks: BTreeMap::new(), ending: Vec::new() }
    }

    /// Has an Envoy running for the Gateway from now on. An earlier process' is taken over if its bootstrap is the same, and else
    /// drained and replaced. One that is still being drained, since the Gateway was gone for a moment, ends first: both use the same
    /// files.
    pub fn run(&mut self, gateway: &NamespacedName, start: Start) {
        let (orders, receiver) = watch::channel(Orders { order: Order::Run, addresses: start.addresses.clone() });
        let mut keeper = Keeper {
            gateway: gateway.clone(),
            options: Arc::clone(&self.options),
            reports: self.reports.clone(),
            orders: receiver,
            start,
        };
        let leaving = self.ending.extract_if(.., |(ending, _)| ending == gateway).map(|(_, task)| task);
        let before: Vec<Task> = leaving.chain(self.tasks.remove(gateway)).collect();
        let handle = tokio::spawn(async move {
            for Task { orders, mut handle } in before {
                orders.send_modify(|orders| orders.order = Order::Drain);
                tokio::select! {
                    _panicked = &mut handle => continue,
                    () = killed(&mut keeper.orders) => orders.send_modify(|orders| orders.order = Order::Kill),
                }
                let _panicked = handle.await;
            }
            keeper.keep().await;
        });
        self.tasks.insert(gateway.clone(), Task { orders, handle });
    }

    /// Drains and ends an Envoy of an earlier process.
    pub fn end(&mut self, gateway: &NamespacedName, start: Start) {
        self.run(gateway, start);
        self.stop(gateway);
    }

    /// Whether an Envoy runs (or is to run) for the Gateway.
    #[must_use]
    pub fn has(&self, gateway: &NamespacedName) -> bool {
        self.tasks.contains_key(gateway)
    }

    /// Remembers other addresses for a later process.
    pub fn set_addresses(&self, gateway: &NamespacedName, addresses: Vec<IpAddr>) {
        if let Some(task) = self.tasks.get(gateway) {
            task.orders.send_modify(|orders| orders.addresses = addresses);
        }
    }

    /// Drains the Gateway's Envoy and stops it, meanwhile.
    pub fn stop(&mut self, gateway: &NamespacedName) {
        if let Some(task) = self.tasks.remove(gateway) {
            task.orders.send_modify(|orders| orders.order = Order::Drain);
            self.ending.push((gateway.clone(), task));
        }
        self.ending.retain(|(_, task)| !task.handle.is_finished());
    }

    /// Drains and stops all; at once when `hurry` resolves.
    pub async fn shut_down(mut self, hurry: impl Future<Output = ()>) {
        let ending = std::mem::take(&mut self.ending).into_iter().map(|(_, task)| task);
        let tasks: Vec<Task> = std::mem::take(&mut self.tasks).into_values().chain(ending).collect();
        let order = |order: Order| tasks.iter().for_each(|task| task.orders.send_modify(|orders| orders.order = order));
        order(Order::Drain);
        let orders: Vec<_> = tasks.iter().map(|task| task.orders.clone()).collect();
        let all = async {
            for task in tasks {
                let _panicked = task.handle.await;
            }
        };
        tokio::pin!(all);
        tokio::select! {
            () = &mut all => {}
            () = hurry => {
                for orders in &orders {
                    orders.send_modify(|orders| orders.order = Order::Kill);
                }
                all.await;
            }
        }
    }
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        // An Envoy that nobody watches over must not be started again by a task that was left behind.
        let ending = self.ending.iter().map(|(_, task)| task);
        self.tasks.values().chain(ending).for_each(|task| task.handle.abort());
    }
}

/// How often the log is read and connections are counted.
const TICK: Duration = Duration::from_millis(100);
/// An Envoy that does not end by itself within this time is killed.
const STUBBORN: Duration = Duration::from_secs(5);

struct Keeper {
    gateway: NamespacedName,
    options: Arc<SupervisorOptions>,
    reports: mpsc::UnboundedSender<(NamespacedName, Report)>,
    orders: watch::Receiver<Orders>,
    start: Start,
}

impl Keeper {
    async fn keep(mut self) {
        let mut log = LogReader::at_end(self.start.files.log());
        let mut backoff = Backoff::default();
        let mut running = self.start.running.take();
        while self.order() == Order::Run {
            let process = match running.take() {
                Some(state) if state.bootstrap == hash(&self.start.bootstrap) => {
                    self.report(Report::Adopted { pid: state.process.pid });
                    EnvoyProcess::adopt(state.process)
                }
                Some(state) => {
                    self.end(EnvoyProcess::adopt(state.process), &mut log).await;
                    continue;
                }
                None => match self.launch() {
                    Ok(process) => {
                        self.report(Report::Started { pid: process.identity.pid });
                        process
                    }
                    Err(error) => {
                        let wait = backoff.next(Duration::ZERO);
                        self.report(Report::NotStarted { reason: error.to_string(), wait });
                        self.pause(wait).await;
                        continue;
                    }
                },
            };
            let began = Instant::now();
            match self.attend(process, &mut log).await {
                Attended::Ended(how) => {
                    let wait = backoff.next(began.elapsed());
                    self.report(Report::Ended { how, wait });
                    self.pause(wait).await;
                }
                Attended::Ordered(process) => self.end(process, &mut log).await,
            }
        }
        if let Some(state) = running {
            self.end(EnvoyProcess::adopt(state.process), &mut log).await;
        }
        self.start.files.clean();
        self.report(Report::Stopped);
    }

    fn launch(&self) -> io::Result<EnvoyProcess> {
        let files = &self.start.files;
        std::fs::write(files.bootstrap(), &self.start.bootstrap)?;
        let process = EnvoyProcess::start(&self.options.binary, files, &self.options.arguments)?;
        if let Err(error) = self.remember(&process) {
            process.signal(Signal::KILL);
            return Err(error);
        }
        Ok(process)
    }

    fn remember(&self, process: &EnvoyProcess) -> io::Result<()> {
        self.start.files.remember(&EnvoyState {
            namespace: self.gateway.namespace.to_string(),
            name: self.gateway.name.to_string(),
            process: process.identity,
            bootstrap: hash(&self.start.bootstrap),
            addresses: self.orders.borrow().addresses.clone(),
        })
    }

    /// Relays the log until Envoy ends or is ordered to.
    async fn attend(&mut self, mut process: EnvoyProcess, log: &mut LogReader) -> Attended {
        loop {
            let event = tokio::select! {
                how = process.ended() => Event::Ended(how),
                Ok(()) = self.orders.changed() => Event::Ordered,
                () = sleep(TICK) => Event::Tick,
            };
            self.relay(log);
            match event {
                Event::Ended(how) => return Attended::Ended(how),
                Event::Ordered if self.order() != Order::Run => return Attended::Ordered(process),
                Event::Ordered => {
                    if let Err(error) = self.remember(&process) {
                        tracing::warn!(%error, gateway = %self.gateway, "cannot remember the addresses of Envoy");
                    }
                }
                Event::Tick => {}
            }
        }
    }

    /// Asks clients to go, waits for them, then ends Envoy. `POST /healthcheck/fail` closes each connection with its next response.
    async fn end(&mut self, mut process: EnvoyProcess, log: &mut LogReader) {
        let socket = self.start.files.admin_socket();
        let deadline = Instant::now() + self.options.drain_limit;
        // One that does not answer has no connections to wait for, or is beyond asking.
        let mut draining =
            self.order() != Order::Kill && admin::request(&socket, Method::POST, "/healthcheck/fail").await.is_ok();
        while draining && self.order() != Order::Kill && Instant::now() < deadline && process.identity.is_alive() {
            draining = admin::connections(&socket).await.is_ok_and(|open| open > 0);
            if draining {
                let _ordered = timeout(TICK, self.orders.changed()).await;
            }
        }
        process.signal(if self.order() == Order::Kill { Signal::KILL } else { Signal::TERM });
        let has_ended = tokio::select! {
            _ = process.ended() => true,
            () = sleep(STUBBORN) => false,
            () = killed(&mut self.orders) => false,
        };
        if !has_ended {
            process.kill().await;
        }
        self.relay(log);
    }

    /// Waits, unless ordered to stop.
    async fn pause(&mut self, wait: Duration) {
        let stopped = async { while self.order() == Order::Run && self.orders.changed().await.is_ok() {} };
        let _over = timeout(wait, stopped).await;
    }

    fn order(&self) -> Order {
        // A supervisor that is gone gives no orders: the Envoys stay.
        self.orders.borrow().order
    }

    fn relay(&self, log: &mut LogReader) {
        for line in log.lines().unwrap_or_default() {
            self.report(Report::Line(line));
        }
    }

    fn report(&self, report: Report) {
        // Nobody listens any more only when the process is about to end.
        let _gone = self.reports.send((self.gateway.clone(), report));
    }
}

enum Event {
    Ended(String),
    Ordered,
    Tick,
}

enum Attended {
    Ended(String),
    Ordered(EnvoyProcess),
}

/// Resolves when the order is to kill.
async fn killed(orders: &mut watch::Receiver<Orders>) {
    while orders.borrow().order != Order::Kill {
        if orders.changed().await.is_err() {
            return std::future::pending().await;
        }
    }
}

/// The wait before each start: none before the first restart, then doubling. An Envoy that ran for a minute starts it over.
#[derive(Debug, Default)]
struct Backoff {
    failures: u32,
}

impl Backoff {
    const HEALTHY: Duration = Duration::from_mins(1);
    const FIRST: Duration = Duration::from_millis(500);
    const LONGEST: Duration = Duration::from_secs(30);

    fn next(&mut self, ran: Duration) -> Duration {
        if ran >= Self::HEALTHY {
            self.failures = 0;
        }
        let doublings = self.failures.checked_sub(1);
        self.failures = self.failures.saturating_add(1);
        doublings.map_or(Duration::ZERO, |doublings| (Self::FIRST * 2u32.pow(doublings.min(10))).min(Self::LONGEST))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_restart_is_immediate_and_later_ones_wait_longer() {
        let mut backoff = Backoff::default();
        let short = Duration::from_secs(1);
        let waits: Vec<u128> = (0..9).map(|_| backoff.next(short).as_millis()).collect();
        assert_eq!(waits, [0, 500, 1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000]);
        assert_eq!(backoff.next(Duration::from_secs(61)), Duration::ZERO);
        assert_eq!(backoff.next(short).as_millis(), 500);
    }
}
