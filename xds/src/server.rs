//! The server as the engine sees it: fleets are published to, streams are served from them.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use portolan_proto::Change;
use prometheus_client::registry::Registry;
use tokio::sync::{mpsc, watch};

use crate::core::event::Event;
use crate::core::fleet::Fleet;
use crate::core::limits::Limits;
use crate::metrics::Metrics;
use crate::transition::{FleetName, StreamId, Transition};

/// An answer after that is told: a proxy that has too much to do, or a cluster whose endpoints do not come (after 15 s it goes on without).
const LATE: Duration = Duration::from_secs(5);

/// Settings of a [`Server`].
#[derive(Clone, Debug)]
pub struct Options {
    /// Bounds per stream
    pub limits: Limits,
    /// How often each stream is looked after without any occasion (time limits, a search taken over from another stream). Default 1 s
    pub tick: Duration,
    /// HTTP/2 ping after this much silence, and how long its answer may take. Defaults 30 s and 10 s
    pub keepalive: (Duration, Duration),
    /// The largest request that is read. Default 64 MiB: on reconnecting, a proxy lists everything it has in one request
    pub request_bytes: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            limits: Limits::default(),
            tick: Duration::from_secs(1),
            keepalive: (Duration::from_secs(30), Duration::from_secs(10)),
            request_bytes: 64 << 20,
        }
    }
}

/// The delta ADS server. Clones are handles to the same server.
#[derive(Clone)]
pub struct Server {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) options: Options,
    pub(crate) metrics: Metrics,
    limits: Arc<Limits>,
    fleets: Mutex<Fleets>,
    is_open: AtomicBool,
    /// Moves when the gate opens or a fleet appears
    arrivals: watch::Sender<()>,
    /// Unbounded, but few: transitions are turns, not messages, and acknowledgements are merged per fleet
    transitions: mpsc::UnboundedSender<Transition>,
    next_stream: AtomicU64,
}

/// The fleets that are published to.
#[derive(Default)]
struct Fleets {
    hosted: BTreeMap<FleetName, Arc<Hosted>>,
    /// See [`Server::set_cut_off`]
    is_cut_off: bool,
    /// The furthest position of a fleet that has been removed. Logs begin here: what is still heard of a removed fleet must not count
    /// for another of its name
    reached: u64,
}

/// A fleet and the bell that its streams listen to.
pub(crate) struct Hosted {
    pub(crate) name: FleetName,
    fleet: Mutex<Fleet>,
    /// Rings when there are changes; says whether the fleet has been removed
    pub(crate) changed: watch::Sender<bool>,
}

impl Server {
    /// A server without fleets and with its gate closed, and what will be told about its proxies.
    pub fn new(options: Options, registry: &mut Registry) -> (Self, mpsc::UnboundedReceiver<Transition>) {
        let (transitions, receiver) = mpsc::unbounded_channel();
        let inner = Inner {
            limits: Arc::new(options.limits.clone()),
            options,
            metrics: Metrics::register(registry),
            fleets: Mutex::default(),
            is_open: AtomicBool::new(false),
            arrivals: watch::Sender::new(()),
            transitions,
            next_stream: AtomicU64::new(0),
        };
        (Self { inner: Arc::new(inner) }, receiver)
    }

    /// Puts changes of a fleet in force, together, and returns the position of its log behind them. The fleet need not exist before.
    /// The changes must leave the fleet's resources closed under references, save those that are meant to dangle.
    ///
    /// Does not wait for proxies; takes a lock that streams hold for as long as they compute what to send.
    pub fn publish(&self, fleet: &FleetName, changes: Vec<Change>) -> u64 {
        let start = Instant::now();
        let (hosted, changes) = self.inner.hosted_or_new(fleet, changes);
        let mut state = hosted.lock();
        let before = state.snapshot().position();
        let position = state.publish(changes);
        let held = state.snapshot().held();
        drop(state);
        if position != before {
            hosted.changed.send_replace(false);
        }
        self.inner.metrics.published(fleet, start.elapsed(), held);
        position
    }

    /// Opens the gate: from now on streams of known fleets are answered. Until then they are held, since an empty answer would delete
    /// what proxies have (design invariant 7).
    pub fn open(&self) {
        self.inner.is_open.store(true, Ordering::Release);
        self.inner.arrivals.send_replace(());
    }

    /// Says whether what is published may be out of date, since this replica does not hear what is going on. While it is so, proxies are only
    /// helped (design invariant 17): one that holds a configuration gets the names that it asks for and lacks, and no change and no removal;
    /// one that holds none gets everything, as it was last. Afterwards all get what was withheld.
    ///
    /// Whoever says that it is so no more has published everything before.
    pub fn set_cut_off(&self, is_cut_off: bool) {
        let mut fleets = self.inner.lock_fleets();
        if std::mem::replace(&mut fleets.is_cut_off, is_cut_off) == is_cut_off {
            return;
        }
        for hosted in fleets.hosted.values() {
            hosted.lock().set_cut_off(is_cut_off);
            hosted.changed.send_replace(false);
        }
        drop(fleets);
        self.inner.metrics.cut_off(is_cut_off);
    }

    /// Forgets a fleet and ends its streams. Proxies that connect again are held. Nothing is told of what it accepts or refuses from
    /// now on.
    pub fn remove_fleet(&self, fleet: &FleetName) {
        let mut fleets = self.inner.lock_fleets();
        let removed = fleets.hosted.remove(fleet);
        if let Some(hosted) = &removed {
            fleets.reached = fleets.reached.max(hosted.lock().retire());
        }
        drop(fleets);
        if let Some(hosted) = removed {
            hosted.changed.send_replace(true);
            self.inner.metrics.forget(fleet);
        }
    }
}

impl Inner {
    fn lock_fleets(&self) -> MutexGuard<'_, Fleets> {
        self.fleets.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The fleet, and what is still to be published to it: a new one appears with its first resources in it, since a proxy that waits
    /// for it would be told of an empty one that everything is gone.
    fn hosted_or_new(&self, name: &FleetName, changes: Vec<Change>) -> (Arc<Hosted>, Vec<Change>) {
        let mut fleets = self.lock_fleets();
        if let Some(hosted) = fleets.hosted.get(name) {
            return (Arc::clone(hosted), changes);
        }
        let mut fleet = Fleet::new(Arc::clone(&self.limits), fleets.reached);
        fleet.set_cut_off(fleets.is_cut_off);
        fleet.publish(changes);
        let hosted =
            Arc::new(Hosted { name: name.clone(), fleet: Mutex::new(fleet), changed: watch::Sender::new(false) });
        fleets.hosted.insert(name.clone(), Arc::clone(&hosted));
        drop(fleets);
        self.arrivals.send_replace(());
        (hosted, Vec::new())
    }

    /// Waits until the gate is open and the fleet is known.
    pub(crate) async fn wait_for(&self, name: &FleetName) -> Arc<Hosted> {
        let mut arrivals = self.arrivals.subscribe();
        loop {
            arrivals.borrow_and_update();
            let is_open = self.is_open.load(Ordering::Acquire);
            if is_open && let Some(hosted) = self.lock_fleets().hosted.get(name) {
                return Arc::clone(hosted);
            }
            // The sender is `self`'s, so it lives.
            _ = arrivals.changed().await;
        }
    }

    pub(crate) fn new_stream(&self) -> StreamId {
        StreamId(self.next_stream.fetch_add(1, Ordering::Relaxed))
    }

    /// Nobody listening any more is no matter of the streams.
    pub(crate) fn tell(&self, transition: Transition) {
        _ = self.transitions.send(transition);
    }

    /// Passes on what has happened in a fleet. Called with the fleet locked, so that transitions are told in their order.
    pub(crate) fn tell_events(&self, name: &FleetName, fleet: &mut Fleet) {
        for event in fleet.take_events() {
            let fleet = name.clone();
            match event {
                Event::Acked { position, first } => self.tell(Transition::Acked { fleet, position, first }),
                Event::Refused { key, version, part, origins, text } => {
                    tracing::warn!(%fleet, %key, text, "a proxy refuses this configuration");
                    self.tell(Transition::Refused { fleet, key, version, part, origins, text });
                }
                Event::RefusalCleared { key } => self.tell(Transition::RefusalCleared { fleet, key }),
                Event::Missing { key } => {
                    tracing::error!(%fleet, %key, "a proxy asks for a configuration that does not exist");
                    self.metrics.missing(name, key.kind);
                }
                Event::Answered { kind, after, refusal } => {
                    if let Some(text) = &refusal {
                        tracing::debug!(%fleet, ?kind, text, "a proxy refuses a response");
                    }
                    if after >= LATE {
                        tracing::info!(%fleet, ?kind, ?after, "a proxy answers late; what follows had to wait");
                    }
                    self.metrics.answered(name, kind, after, refusal.is_some());
                }
                Event::UnknownType { type_url } => {
                    tracing::debug!(%fleet, type_url, "a proxy asks for a type that is not served");
                }
            }
        }
    }
}

impl Hosted {
    pub(crate) fn lock(&self) -> MutexGuard<'_, Fleet> {
        self.fleet.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
