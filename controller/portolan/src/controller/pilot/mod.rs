//! The thread that owns all state: what the API server has, the engine, what proxies said.

mod fleets;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant, SystemTime};

use portolan_engine::{Engine, Event, Options, Refused};
use portolan_fleet::{Heard, Platform, gateway_of};
use portolan_kubernetes::report::{Own, Refusal, Report};
use portolan_kubernetes::status::says_programmed;
use portolan_kubernetes::watch::{Following, Found, Place};
use portolan_kubernetes::{KindState, Manifests, Meta, Notice, Observed, Statuses};
use portolan_model::ir::Status;
use portolan_model::objects::Object;
use portolan_model::{CONTROLLER_NAME, Kind, Name, NamespacedName, ObjectKey};
use portolan_resolve::World as _;
use portolan_xds::{FleetName, Server, Transition};
use tokio::sync::watch;

use super::classes::Classes;
use super::installation::Installation;
use super::keeper::Fleets;
use super::own::Objects;
use super::troubles::Troubles;
use crate::load::seconds;
use crate::run::metrics::Times;

/// What reaches the pilot.
pub enum Message {
    /// The API server has something new
    Notice(Notice),
    /// What Portolan has made for fleets is new, different or gone
    Own(Found),
    /// A proxy said something
    Transition(Transition),
    /// What of fleets could not be made
    Troubles(Troubles),
    /// What the other replicas know, by pod
    Reports(BTreeMap<Arc<str>, Report>),
    /// Whether this replica is cut off from the API server. After everything that it has heard before
    CutOff(bool),
}

/// What readiness is about.
#[derive(Clone, Debug, Default)]
pub struct Progress {
    /// The whole world has been read. Proxies are let in as soon as there is a certificate too
    pub synced: bool,
    pub kinds: BTreeMap<Kind, KindState>,
}

/// The longest that the pilot sleeps. It waits for instants of the clock on the wall, which somebody may set meanwhile.
const LOOK_AT_CLOCK: Duration = Duration::from_mins(1);

/// So long statuses wait for the whole world. Where it cannot be read, classes then say so.
const LISTING: Duration = Duration::from_secs(10);

/// What decides which Secrets listeners name, and may.
const NAMES_SECRETS: [Kind; 5] =
    [Kind::GatewayClass, Kind::Gateway, Kind::ListenerSet, Kind::ReferenceGrant, Kind::Namespace];

/// All state of `portolan controller`.
pub struct Pilot {
    engine: Engine,
    heard: Heard,
    around: Around,
    /// What this replica's proxies have said, and where it goes
    own_report: Own,
    /// Of the other replicas, by pod
    reports: BTreeMap<Arc<str>, Report>,
    /// What proxies of other replicas refuse. The engine is told with every batch, since it forgets refusals of what it has not made: reports and the
    /// world are watched apart, and a replica that starts may read the reports first
    elsewhere: Vec<Refused>,
    /// What all replicas know together, as far as the engine has been told
    known: Report,
    /// Of Gateways
    uids: BTreeMap<NamespacedName, Arc<str>>,
    made: Objects,
    /// Under which name each fleet is served
    served: BTreeMap<NamespacedName, FleetName>,
    /// Portolan's
    classes: BTreeMap<ObjectKey, Meta>,
    installation: Installation,
    troubles: Troubles,
    /// What of a fleet's parameters could not be done
    unmade: BTreeMap<NamespacedName, Vec<String>>,
    started: Instant,
    listed: bool,
    /// What is to be followed one by one, and what of that has been read
    following_wanted: Arc<BTreeSet<ObjectKey>>,
    followed: Arc<BTreeSet<ObjectKey>>,
    /// The whole world is known; stays true
    is_open: bool,
    /// Statuses of a world that has not been read whole
    held: Told,
}

/// What the writer of statuses is told: objects as the API server has them, and what their statuses should be. `None`: gone.
#[derive(Default)]
struct Told {
    observed: BTreeMap<ObjectKey, Option<Meta>>,
    statuses: BTreeMap<ObjectKey, Option<Status>>,
}

/// What the pilot speaks to.
pub struct Around {
    pub server: Server,
    pub statuses: Statuses,
    pub following: Following,
    pub platform: Platform,
    pub manifests: Manifests,
    pub progress: watch::Sender<Progress>,
    pub times: Times,
    /// The fleets, for whoever keeps their credentials
    pub keeping: watch::Sender<Arc<Fleets>>,
    /// The classes and which of them are used, for whoever keeps those
    pub holding: watch::Sender<Arc<Classes>>,
    /// For the other replicas
    pub reporting: watch::Sender<Report>,
    /// Whether this machine, and so presumably every node, has IPv6
    pub ipv6: bool,
}

impl Pilot {
    /// `unlisted`: what there is to list of what Portolan has made.
    pub fn new(around: Around, unlisted: BTreeSet<(&'static str, Place)>) -> Self {
        Self {
            around,
            engine: Engine::new(Options::default()),
            heard: Heard::default(),
            own_report: Own::default(),
            reports: BTreeMap::new(),
            elsewhere: Vec::new(),
            known: Report::default(),
            uids: BTreeMap::new(),
            made: Objects::new(unlisted),
            served: BTreeMap::new(),
            classes: BTreeMap::new(),
            installation: Installation::default(),
            troubles: Troubles::new(),
            unmade: BTreeMap::new(),
            started: Instant::now(),
            listed: false,
            following_wanted: Arc::default(),
            followed: Arc::default(),
            is_open: false,
            held: Told::default(),
        }
    }

    /// Takes messages until nobody sends any more.
    pub fn run(mut self, inbox: &Receiver<Message>) {
        loop {
            match inbox.recv_timeout(self.until_due()) {
                Ok(message) => self.take(message),
                Err(RecvTimeoutError::Timeout) => self.advance(Vec::new(), BTreeMap::new()),
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    /// How long the time alone changes nothing.
    fn until_due(&self) -> Duration {
        let now = Instant::now();
        let by_clock = self.engine.due().map(|due| {
            let due = SystemTime::UNIX_EPOCH + Duration::from_secs(u64::try_from(due).unwrap_or(0));
            due.duration_since(SystemTime::now()).unwrap_or_default()
        });
        let late = (!self.is_open && !self.is_late()).then(|| (self.started + LISTING).saturating_duration_since(now));
        let dues = [by_clock, late, self.installation.until_due(now)];
        dues.into_iter().flatten().fold(LOOK_AT_CLOCK, Duration::min)
    }

    fn take(&mut self, message: Message) {
        match message {
            Message::Notice(Notice::Changes(changes)) => {
                self.around.times.event(SystemTime::now());
                self.changes(changes);
            }
            Message::Notice(Notice::Kind { kind, state }) => {
                self.installation.kind(kind, state.clone(), Instant::now());
                self.around.progress.send_modify(|progress| _ = progress.kinds.insert(kind, state));
                self.advance(Vec::new(), BTreeMap::new());
            }
            Message::Notice(Notice::Bundles(crds)) => {
                self.installation.crds(crds);
                self.advance(Vec::new(), BTreeMap::new());
            }
            Message::Notice(Notice::Synced) => {
                self.listed = true;
                // Classes tell what is installed.
                self.advance(Vec::new(), BTreeMap::new());
                self.open();
            }
            Message::Notice(Notice::Followed(keys)) => {
                self.followed = keys;
                self.open();
            }
            Message::Troubles(troubles) => {
                self.troubles = troubles;
                let events = self.made.gateways().map(|gateway| self.problems(gateway)).collect();
                self.advance(events, BTreeMap::new());
            }
            Message::Own(found) => self.found(found),
            Message::Transition(transition) => {
                let gateway = gateway_of(fleet_of(&transition));
                if self.served.get(&gateway) != Some(fleet_of(&transition)) {
                    // Of a fleet that has been removed; there may be another of its name.
                    return;
                }
                let uid = self.uids.get(&gateway);
                self.own_report.hear(&transition, uid);
                let events = self.heard.hear(&transition);
                if let (Some(uid), true) = (uid, events.iter().any(|event| matches!(event, Event::Fleet { .. }))) {
                    self.own_report.programmed(uid);
                }
                if !events.is_empty() {
                    self.advance(events, BTreeMap::new());
                }
                self.report();
            }
            Message::CutOff(is_cut_off) => self.around.server.set_cut_off(is_cut_off),
            Message::Reports(reports) => {
                self.reports = reports;
                let refusals = Report::merge(self.reports.values()).refusals;
                self.elsewhere = refusals.iter().flat_map(Refusal::refused).collect();
                let known = Report::merge(self.reports.values().chain([self.own_report.report()]));
                let mut events = known.events(&self.known);
                let programmed = self.uids.iter().filter(|(_, uid)| known.programmed.contains(*uid));
                events.extend(programmed.filter_map(|(gateway, _)| self.heard.recall(gateway)));
                self.known = known;
                if !events.is_empty() {
                    self.advance(events, BTreeMap::new());
                }
            }
        }
    }

    fn changes(&mut self, changes: BTreeMap<ObjectKey, Option<Observed>>) {
        let mut gone = Vec::new();
        for (key, observed) in changes.iter().filter(|(key, _)| key.kind == Kind::Gateway) {
            let uid = observed.as_ref().map(|observed| &observed.meta.uid);
            let before = match uid {
                Some(uid) => self.uids.insert(key.name.clone(), Arc::clone(uid)),
                None => self.uids.remove(&key.name),
            };
            let Some(before) = before.filter(|before| Some(before) != uid) else { continue };
            self.around.manifests.gone(&before);
            self.own_report.gone(&before);
            self.unmade.remove(&key.name);
            // Perhaps another Gateway under its name: whose fleet is another, and has not said anything.
            gone.push(Event::Object { key: key.clone(), object: None });
            gone.push(Event::Problems { gateway: key.name.clone(), problems: Vec::new() });
        }
        if !gone.is_empty() {
            self.advance(gone, BTreeMap::new());
        }
        let mut observed = BTreeMap::new();
        let mut events = Vec::new();
        for (key, change) in changes {
            let (object, meta) = change.map_or((None, None), |observed| (observed.object, Some(observed.meta)));
            let is_known = |meta: &Meta| says_programmed(&meta.status) || self.known.programmed.contains(&meta.uid);
            if key.kind == Kind::Gateway && meta.as_ref().is_some_and(is_known) {
                events.extend(self.heard.recall(&key.name));
            }
            observed.insert(key.clone(), meta);
            events.push(Event::Object { key, object });
        }
        self.advance(events, observed);
    }

    fn advance(&mut self, mut events: Vec<Event>, observed: BTreeMap<ObjectKey, Option<Meta>>) {
        let start = Instant::now();
        events.push(Event::Time(seconds(SystemTime::now())));
        if self.tells_of_classes() {
            events.extend(self.installation.news(start).map(Event::Installed));
        }
        let mut statuses: BTreeMap<ObjectKey, Option<Status>> = BTreeMap::new();
        // A binding is an answer to what Gateways ask for, and does not change what they ask for: the second round gives no third.
        let mut intents = false;
        while !events.is_empty() {
            events.extend(self.refused_elsewhere());
            let output = self.engine.apply(std::mem::take(&mut events));
            for gateway in output.removed_fleets {
                events.extend(self.heard.removed(&gateway));
                if let Some(name) = self.served.remove(&gateway) {
                    self.around.server.remove_fleet(&name);
                }
            }
            for (gateway, changes) in output.fleets {
                let Some(name) = self.server_name(&gateway) else { continue };
                let position = self.around.server.publish(&name, changes.clone());
                self.heard.published(&gateway, &changes, position);
            }
            for (gateway, intent) in output.intents {
                intents = true;
                self.made.belongs(&gateway, intent.is_some());
                events.extend(self.bind(&gateway));
                self.order(&gateway);
                events.push(self.problems(&gateway));
            }
            statuses.extend(output.statuses);
        }
        self.around.times.computed(start.elapsed());
        if intents {
            self.keep();
        }
        if observed.keys().any(|key| NAMES_SECRETS.contains(&key.kind)) {
            self.follow();
        }
        if observed.keys().any(|key| matches!(key.kind, Kind::GatewayClass | Kind::Gateway)) {
            self.hold(&observed);
        }
        self.hand_over(observed, statuses);
    }

    /// Refusals that other replicas have heard and the engine does not hold.
    fn refused_elsewhere(&self) -> Vec<Event> {
        let is_held = |refused: &Refused| {
            self.engine.refused().any(|held| held.subject == refused.subject && held.content == refused.content)
        };
        self.elsewhere.iter().filter(|refused| !is_held(refused)).cloned().map(Event::Refused).collect()
    }

    /// Hands statuses to their writer: those of the whole world. What is made of a part of it would say that things are missing.
    fn hand_over(
        &mut self,
        observed: BTreeMap<ObjectKey, Option<Meta>>,
        statuses: BTreeMap<ObjectKey, Option<Status>>,
    ) {
        self.held.observed.extend(observed);
        self.held.statuses.extend(statuses);
        if self.is_open || self.listed && self.is_late() {
            let Told { observed, statuses } = std::mem::take(&mut self.held);
            self.around.statuses.update(observed, statuses);
        } else if self.tells_of_classes() {
            let is_class = |key: &ObjectKey| key.kind == Kind::GatewayClass;
            let observed: Vec<_> = self.held.observed.extract_if(.., |key, _| is_class(key)).collect();
            let statuses = self.held.statuses.extract_if(.., |key, _| is_class(key)).collect();
            self.around.statuses.update(observed, statuses);
        }
    }

    /// Whether it is known what is installed, or has been waited for long enough: classes say what cannot be read.
    fn tells_of_classes(&self) -> bool {
        self.listed || self.is_late()
    }

    fn is_late(&self) -> bool {
        self.started.elapsed() >= LISTING
    }

    /// Hands over which classes are used.
    fn hold(&mut self, observed: &BTreeMap<ObjectKey, Option<Meta>>) {
        for (key, meta) in observed.iter().filter(|(key, _)| key.kind == Kind::GatewayClass) {
            let is_own =
                |class: &Object| matches!(class, Object::GatewayClass(it) if *it.controller_name == *CONTROLLER_NAME);
            match meta {
                Some(meta) if self.engine.object(key).is_some_and(is_own) => {
                    self.classes.insert(key.clone(), meta.clone());
                }
                _ => _ = self.classes.remove(key),
            }
        }
        let class_of =
            |gateway: &NamespacedName| match self.engine.object(&ObjectKey::new(Kind::Gateway, gateway.clone())) {
                Some(Object::Gateway(gateway)) => Some(Name::clone(&gateway.class)),
                _ => None,
            };
        let used: BTreeSet<Name> = self.uids.keys().filter_map(class_of).collect();
        let held = |(key, meta): (&ObjectKey, &Meta)| (key.clone(), (meta.clone(), used.contains(&key.name.name)));
        self.around.holding.send_replace(Arc::new(self.classes.iter().map(held).collect()));
    }

    /// Tells the other replicas what this one alone knows, where that is news.
    fn report(&mut self) {
        let Self { own_report, engine, around, .. } = self;
        own_report.keep(|refused| engine.refused().any(|other| other == *refused));
        let report = own_report.report();
        around.reporting.send_if_modified(|told| {
            let is_news = told != report;
            if is_news {
                told.clone_from(report);
            }
            is_news
        });
    }

    /// Serves proxies once the whole world is known (design invariant 7), with what is followed one by one: a certificate that is not
    /// there yet would be answered as held, and a proxy that starts then would do without it for a moment.
    fn open(&mut self) {
        if self.is_open || !self.listed || !self.made.is_whole() || self.followed != self.following_wanted {
            return;
        }
        self.is_open = true;
        let gateways: Vec<NamespacedName> = self.engine.fleets().cloned().collect();
        for gateway in &gateways {
            self.order(gateway);
        }
        self.around.server.open();
        self.around.progress.send_modify(|progress| progress.synced = true);
        // The statuses that were held back.
        self.advance(Vec::new(), BTreeMap::new());
    }

    /// Secrets that listeners name are followed one by one too: not all are of the type for TLS.
    fn follow(&mut self) {
        let world = self.engine.world();
        let views = self.engine.fleets().filter_map(|gateway| world.gateway_view(gateway));
        let secrets = views.flat_map(|view| {
            let certificates = view.listeners.iter().flat_map(|listener| listener.certificates.clone());
            certificates.map(|certificate| ObjectKey::new(Kind::Secret, certificate.secret)).collect::<Vec<_>>()
        });
        self.following_wanted = Arc::new(secrets.collect());
        self.around.following.set(Arc::clone(&self.following_wanted));
    }
}

const fn fleet_of(transition: &Transition) -> &FleetName {
    match transition {
        Transition::Acked { fleet, .. }
        | Transition::Refused { fleet, .. }
        | Transition::RefusalCleared { fleet, .. }
        | Transition::StreamOpened { fleet, .. }
        | Transition::StreamClosed { fleet, .. } => fleet,
    }
}
