//! The task that starts and ends watches, and hands on what they say.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use kube::Client;
use portolan_model::{GATEWAY_GROUP, Kind, ObjectKey};
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use tokio::sync::watch;
use tokio::time::{sleep, sleep_until, timeout};

use super::confirm::Confirmations;
use super::discovery::{Absences, Availability, bundle, discover};
use super::follow::{Heard, Trouble, follow};
use super::freshness::Freshness;
use super::ingest::{Answer, Ingest, Item};
use super::observe::{api_version, observe};
use super::standing::Standings;
use super::wire::{Collection, Scope, Slim};
use super::{Ended, Options};
use crate::{Bundle, Notice};

/// When discovery is repeated after something has changed about the CRDs: the API server serves a new one a little later.
const AGAIN: [Duration; 3] = [Duration::from_millis(100), Duration::from_millis(900), Duration::from_secs(4)];
/// When it is repeated without a reason.
const SLOWLY: Duration = Duration::from_mins(1);
/// When it is repeated while it is in doubt.
const IN_DOUBT: Duration = Duration::from_secs(1);
/// How often the API server is asked whether it is there, and how long it may take to say so.
const PROBE: (Duration, Duration) = (Duration::from_secs(10), Duration::from_secs(5));

/// What reaches the driver.
enum Message {
    /// A watch says something; the number tells it from one before it
    Heard(u64, Scope, Heard<Item>),
    /// The watch of the CRDs does
    Crds(Heard<(Kind, Option<Bundle>)>),
    Discovered(Result<BTreeMap<Kind, Availability>, Trouble>),
    /// A read that confirms has ended
    Answered(u64, Answer),
}

/// A watch that runs.
struct Running {
    number: u64,
    version: Arc<str>,
    _task: Ended,
}

pub(super) struct Driver {
    client: Client,
    options: Options,
    freshness: Freshness,
    inbox: UnboundedReceiver<Message>,
    /// For the tasks
    outbox: UnboundedSender<Message>,
    running: BTreeMap<Scope, Running>,
    started: u64,
    available: BTreeMap<Kind, Availability>,
    absences: Absences,
    following: Arc<BTreeSet<ObjectKey>>,
    confirmations: Confirmations,
    ingest: Ingest,
    standings: Standings,
    /// The kinds that have a CRD; `None`: not known
    bundles: Option<BTreeMap<Kind, Option<Bundle>>>,
    /// Whether they have been listed, or cannot be
    has_heard_of_crds: bool,
    /// What is to be told after the batch that is being made
    notices: VecDeque<Notice>,
    /// Whether it has been told that what is followed has been read
    told_followed: bool,
    /// When to discover next, and at which step of [`AGAIN`]
    discover_at: tokio::time::Instant,
    steps: usize,
    discovering: Option<Ended>,
}

impl Driver {
    pub fn new(client: Client, options: Options, freshness: Freshness) -> Self {
        let (outbox, inbox) = mpsc::unbounded_channel();
        Self {
            confirmations: Confirmations::new(client.clone(), options.namespaces.clone()),
            ingest: Ingest::new(options.namespaces.is_some()),
            client,
            options,
            freshness,
            inbox,
            outbox,
            running: BTreeMap::new(),
            started: 0,
            available: BTreeMap::new(),
            absences: Absences::default(),
            following: Arc::default(),
            standings: Standings::default(),
            bundles: None,
            has_heard_of_crds: false,
            notices: VecDeque::new(),
            told_followed: true,
            discover_at: tokio::time::Instant::now(),
            steps: AGAIN.len(),
            discovering: None,
        }
    }

    /// Until nobody listens.
    pub async fn run(
        mut self,
        notices: mpsc::Sender<Notice>,
        mut following: watch::Receiver<Arc<BTreeSet<ObjectKey>>>,
    ) {
        let _crds = self.watch_crds();
        let _probe = Ended(tokio::spawn(probe(self.client.clone(), self.freshness.clone())));
        let mut nobody_sets = false;
        loop {
            let (due, is_ripe) = (self.ingest.due(), self.ingest.is_ripe(Instant::now()));
            tokio::select! {
                // What has been heard goes first, so that a batch holds all of it.
                biased;
                message = self.inbox.recv() => {
                    let Some(message) = message else { return };
                    self.take(message);
                    while let Ok(message) = self.inbox.try_recv() {
                        self.take(message);
                    }
                }
                changed = following.changed(), if !nobody_sets => {
                    nobody_sets = changed.is_err();
                    self.following = following.borrow_and_update().clone();
                    self.told_followed = false;
                    self.arrange();
                }
                () = sleep_until(self.discover_at), if self.discovering.is_none() => self.discover(),
                permit = notices.reserve(), if is_ripe || !self.notices.is_empty() => {
                    let Ok(permit) = permit else { return };
                    // What is told about kinds is told after their objects.
                    if self.ingest.has_batch() {
                        permit.send(Notice::Changes(self.ingest.take()));
                    } else if let Some(notice) = self.notices.pop_front() {
                        permit.send(notice);
                    }
                }
                () = until(due), if !is_ripe => self.ingest.tick(Instant::now()),
                () = notices.closed() => return,
            }
            self.look_around();
        }
    }

    fn take(&mut self, message: Message) {
        let now = Instant::now();
        match message {
            Message::Heard(number, scope, heard) => {
                // The last words of a watch that was replaced count no more.
                if self.running.get(&scope).is_none_or(|running| running.number != number) {
                    return;
                }
                match &heard {
                    Heard::Listing => {}
                    Heard::Listed(..) => {
                        self.freshness.alive(&scope, now);
                        self.standings.listed(&scope);
                    }
                    Heard::Applied(_) | Heard::Deleted(_) | Heard::Alive => {
                        self.freshness.alive(&scope, now);
                        self.standings.alive(&scope);
                    }
                    Heard::Broken(trouble) => {
                        self.freshness.broken(&scope, now);
                        self.standings.broken(&scope, trouble.clone());
                        if matches!(trouble, Trouble::Missing(_)) {
                            self.look_again();
                        }
                    }
                }
                self.ingest.hear(&scope, heard, now);
            }
            Message::Answered(id, answer) => self.ingest.answered(id, answer, now),
            Message::Crds(heard) => self.hear_of_crds(heard),
            Message::Discovered(discovered) => {
                self.discovering = None;
                match discovered {
                    Ok(available) => {
                        let crds = self.bundles.as_ref().map(|bundles| bundles.keys().copied().collect());
                        self.available = self.absences.judge(&self.available, available, crds.as_ref(), now);
                        self.standings.discovered(&self.available);
                        self.arrange();
                        self.plan();
                        if self.absences.is_in_doubt(&self.available) {
                            self.discover_at = self.discover_at.min((now + IN_DOUBT).into());
                        }
                    }
                    Err(trouble) => {
                        self.standings.undiscovered(&trouble);
                        self.steps = self.steps.min(AGAIN.len() - 1);
                        self.discover_at = tokio::time::Instant::now() + Duration::from_secs(1);
                    }
                }
            }
        }
    }

    /// What became true meanwhile.
    fn look_around(&mut self) {
        for (kind, state) in self.standings.news() {
            self.notices.push_back(Notice::Kind { kind, state });
        }
        // What is installed decides what is claimed: the world is not whole without.
        if self.has_heard_of_crds && self.standings.becomes_synced() {
            self.notices.push_back(Notice::Synced);
            self.ingest.confirm();
        }
        for order in self.ingest.orders() {
            let (id, outbox) = (order.id, self.outbox.clone());
            let read = self.confirmations.clone().read(order.what, self.available.clone());
            tokio::spawn(async move {
                // Nobody listens when the driver has ended.
                let _ = outbox.send(Message::Answered(id, read.await));
            });
        }
        if !self.told_followed {
            let scopes = self.followed_scopes();
            if scopes.iter().all(|scope| self.standings.is_settled(scope)) {
                self.told_followed = true;
                self.notices.push_back(Notice::Followed(self.following.clone()));
            }
        }
    }

    fn hear_of_crds(&mut self, heard: Heard<(Kind, Option<Bundle>)>) {
        let before = self.bundles.clone();
        match heard {
            Heard::Listing | Heard::Alive => return,
            Heard::Broken(_) => {
                self.has_heard_of_crds = true;
                return;
            }
            Heard::Listed(all, _) => self.bundles = Some(all.into_iter().collect()),
            Heard::Applied((kind, bundle)) => {
                self.bundles.get_or_insert_default().insert(kind, bundle);
            }
            Heard::Deleted((kind, _)) => {
                self.bundles.get_or_insert_default().remove(&kind);
            }
        }
        self.has_heard_of_crds = true;
        self.look_again();
        if before != self.bundles {
            let own = |(kind, _): &(&Kind, &Option<Bundle>)| kind.group() == GATEWAY_GROUP;
            let bundles = self.bundles.iter().flatten().filter(own).map(|(kind, bundle)| (*kind, bundle.clone()));
            let bundles = Notice::Bundles(bundles.collect());
            // All CRDs of a release come at once.
            match self.notices.back_mut() {
                Some(last @ Notice::Bundles(_)) => *last = bundles,
                _ => self.notices.push_back(bundles),
            }
        }
    }

    /// Something has changed about what is served, or will soon.
    fn look_again(&mut self) {
        self.steps = 0;
        self.plan();
    }

    fn plan(&mut self) {
        let wait = AGAIN.get(self.steps).copied().unwrap_or(SLOWLY);
        self.steps = (self.steps + 1).min(AGAIN.len());
        self.discover_at = tokio::time::Instant::now() + wait;
    }

    fn discover(&mut self) {
        let (client, outbox) = (self.client.clone(), self.outbox.clone());
        self.discovering = Some(Ended(tokio::spawn(async move {
            let discovered = match timeout(PROBE.1, discover(&client)).await {
                Ok(discovered) => discovered,
                Err(_) => Err(Trouble::Failed(format!("the API server says nothing within {:?}", PROBE.1))),
            };
            // Nobody listens when the driver has ended.
            let _ = outbox.send(Message::Discovered(discovered));
        })));
    }

    /// Starts the watches that are to be and are not, and ends those that are and are not to be.
    fn arrange(&mut self) {
        let now = Instant::now();
        let mut wanted: BTreeMap<Scope, Arc<str>> = BTreeMap::new();
        for (kind, availability) in &self.available {
            if let Availability::Served(version) = availability {
                wanted.extend(self.scopes(*kind).into_iter().map(|scope| (scope, version.clone())));
            }
        }
        for scope in self.followed_scopes() {
            if let Some(Availability::Served(version)) = self.available.get(&scope.kind) {
                wanted.insert(scope, version.clone());
            }
        }
        let ended: Vec<Scope> = self.running.keys().filter(|scope| !wanted.contains_key(scope)).cloned().collect();
        for scope in ended {
            self.running.remove(&scope);
            self.standings.closed(&scope);
            self.freshness.closed(&scope);
            self.ingest.close(&scope, now);
        }
        for (scope, version) in wanted {
            // In another version the objects are the same ones: they stand until that has been listed.
            if self.running.get(&scope).is_none_or(|running| running.version != version) {
                self.standings.opened(&scope);
                self.freshness.opened(&scope, now);
                let running = self.follow(&scope, version);
                self.running.insert(scope, running);
            }
        }
    }

    /// The watches of a kind; those by name apart.
    fn scopes(&self, kind: Kind) -> Vec<Scope> {
        let all = |namespace| Scope { kind, namespace, name: None };
        match &self.options.namespaces {
            _ if kind == Kind::ConfigMap => Vec::new(),
            None => vec![all(None)],
            // Each by its name, which rights may be limited to.
            Some(names) if kind == Kind::Namespace => {
                names.iter().map(|name| Scope { kind, namespace: None, name: Some(name.clone()) }).collect()
            }
            Some(_) if kind.is_cluster_scoped() => vec![all(None)],
            Some(names) => names.iter().map(|name| all(Some(name.clone()))).collect(),
        }
    }

    fn followed_scopes(&self) -> Vec<Scope> {
        let is_followed = |key: &&ObjectKey| {
            let namespaces = self.options.namespaces.as_ref();
            matches!(key.kind, Kind::Secret | Kind::ConfigMap)
                && namespaces.is_none_or(|names| names.contains(&key.name.namespace))
        };
        let scope = |key: &ObjectKey| Scope {
            kind: key.kind,
            namespace: Some(key.name.namespace.clone()),
            name: Some(key.name.name.clone()),
        };
        self.following.iter().filter(is_followed).map(scope).collect()
    }

    fn follow(&mut self, scope: &Scope, version: Arc<str>) -> Running {
        self.started += 1;
        let (number, outbox) = (self.started, self.outbox.clone());
        let collection = Collection::new(scope, &version);
        let (kind, api_version, told) = (scope.kind, api_version(scope.kind, &version), scope.clone());
        let make = move |object: Slim| observe(kind, &api_version, object);
        let tell = move |heard| {
            // Nobody listens when the driver has ended, and this task with it.
            let _ = outbox.send(Message::Heard(number, told.clone(), heard));
        };
        let task = tokio::spawn(follow(self.client.clone(), collection, self.freshness.again(), make, tell));
        Running { number, version, _task: Ended(task) }
    }

    fn watch_crds(&self) -> Ended {
        let outbox = self.outbox.clone();
        let tell = move |heard| {
            let _ = outbox.send(Message::Crds(heard));
        };
        let make = |crd: Slim| bundle(&crd);
        Ended(tokio::spawn(follow(self.client.clone(), Collection::crds(), self.freshness.again(), make, tell)))
    }
}

async fn until(due: Option<Instant>) {
    match due {
        Some(due) => sleep_until(due.into()).await,
        None => std::future::pending().await,
    }
}

/// Asks the API server now and then for what it has to ask its storage for. Any answer but that of a failure is one: a right may be missing.
async fn probe(client: Client, freshness: Freshness) {
    loop {
        let asked = Instant::now();
        let path = format!("/apis/{GATEWAY_GROUP}/v1/gatewayclasses?limit=1");
        let answered = match http::Request::get(path).body(Vec::new()) {
            Ok(request) => match timeout(PROBE.1, client.request_text(request)).await {
                Ok(Err(kube::Error::Api(status))) => status.code < 500,
                Ok(answer) => answer.is_ok(),
                Err(_) => false,
            },
            Err(_) => false,
        };
        freshness.probed(answered, asked);
        sleep(PROBE.0).await;
    }
}
