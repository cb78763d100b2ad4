//! The applier: the manifests of fleets become objects, by the leader alone (design invariant 15).
//!
//! ```text
//! fleet ─manifests per owner─┐
//!                            ├─▶ Plan ─Round─▶ server-side apply, deletes ─▶ API server
//! watch of fleets' metadata ─┘     └─Problem─▶ the owner's status
//! ```
//!
//! Everything that an owner should have is said at once, the latest word wins. What has the hash of its manifest in an annotation, and was
//! not written to by others since, is not written again. Deleted is only what is owned by an owner of which all is said, and is not part of it.

mod observe;
mod plan;
mod replicas;
mod send;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use futures::StreamExt as _;
use futures::future::join_all;
use futures::stream::FuturesUnordered;
use kube::Client;
use serde_json::Value;
use tokio::sync::{Notify, watch};

pub use observe::{KINDS, SELECTOR};
pub use plan::{APPLIED, Problem, Uid};
use plan::{Next, Plan, Round, Step};

use crate::lease::Leadership;

/// Limits of the applier.
#[derive(Clone, Debug)]
pub struct ApplierOptions {
    /// Namespaces where fleets may be; empty: all
    pub namespaces: Vec<String>,
    /// Owners at once
    pub concurrency: usize,
    /// For one object
    pub timeout: Duration,
}

impl Default for ApplierOptions {
    fn default() -> Self {
        Self { namespaces: Vec::new(), concurrency: 8, timeout: Duration::from_secs(5) }
    }
}

/// Takes what owners should have.
#[derive(Clone)]
pub struct Manifests {
    shared: Arc<Shared>,
}

struct Shared {
    plan: Mutex<Plan>,
    news: Notify,
    /// Kinds and namespaces of which nothing has been heard yet
    awaited: Mutex<BTreeSet<(String, String)>>,
    problems: watch::Sender<BTreeMap<Uid, Vec<Problem>>>,
}

impl Shared {
    fn plan(&self) -> MutexGuard<'_, Plan> {
        self.plan.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn awaited(&self) -> MutexGuard<'_, BTreeSet<(String, String)>> {
        self.awaited.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ready(&self, kind: &str, namespace: &str) {
        self.awaited().remove(&(kind.to_owned(), namespace.to_owned()));
    }
}

impl Default for Manifests {
    fn default() -> Self {
        let shared = Shared {
            plan: Mutex::default(),
            news: Notify::new(),
            awaited: Mutex::default(),
            problems: watch::channel(BTreeMap::new()).0,
        };
        Self { shared: Arc::new(shared) }
    }
}

impl Manifests {
    /// Everything that an owner should have, in the order in which it is best made: each manifest with its namespace, the labels of
    /// [`SELECTOR`] and an owner reference to `owner`. An empty list takes away all that the owner has.
    pub fn want(&self, owner: &Uid, manifests: Vec<Value>) {
        self.shared.plan().want(owner, manifests);
        self.shared.news.notify_one();
    }

    /// The owner has been deleted: its objects go with it.
    pub fn gone(&self, owner: &str) {
        self.shared.plan().gone(owner);
    }

    /// What could not be done, by owner.
    #[must_use]
    pub fn problems(&self) -> watch::Receiver<BTreeMap<Uid, Vec<Problem>>> {
        self.shared.problems.subscribe()
    }

    /// Applies while this process leads; never returns.
    pub async fn apply(self, client: Client, leadership: Leadership, options: ApplierOptions) {
        let everywhere = [String::new()];
        let namespaces = if options.namespaces.is_empty() { &everywhere[..] } else { &options.namespaces };
        let mut followers = Vec::new();
        for kind in KINDS {
            for namespace in namespaces {
                self.shared.awaited().insert((kind.1.to_owned(), namespace.clone()));
                followers.push(observe::follow(client.clone(), Arc::clone(&self.shared), kind, namespace.clone()));
            }
        }
        tokio::join!(join_all(followers), self.work(client, leadership, options));
    }

    async fn work(&self, client: Client, leadership: Leadership, options: ApplierOptions) {
        let shared = &self.shared;
        let mut term = leadership.clone();
        let mut in_flight = FuturesUnordered::new();
        let mut led = false;
        loop {
            let leads = leadership.holds();
            if leads && !led {
                shared.plan().reconsider();
            }
            led = leads;
            let mut wake = None;
            // What is not seen yet would be applied in vain.
            let is_ready = shared.awaited().is_empty();
            while leads && is_ready && in_flight.len() < options.concurrency {
                let next = shared.plan().next(Instant::now());
                match next {
                    Next::Round(round) => in_flight.push(self.go(&client, &leadership, round, options.timeout)),
                    Next::At(at) => {
                        wake = Some(at);
                        break;
                    }
                    Next::Idle => break,
                }
            }
            let far = Instant::now() + Duration::from_hours(1);
            tokio::select! {
                Some((round, problems)) = in_flight.next(), if !in_flight.is_empty() => {
                    let mut plan = shared.plan();
                    plan.finish(&round, problems, Instant::now());
                    let problems = plan.problems();
                    shared.problems.send_if_modified(|before| *before != problems && { *before = problems; true });
                }
                () = shared.news.notified() => {}
                () = tokio::time::sleep_until(wake.unwrap_or(far).into()) => {}
                () = term.changed(leads) => {}
            }
        }
    }

    /// All steps of a round, one after the other: a Deployment's pods need what stands before it.
    async fn go(
        &self,
        client: &Client,
        leadership: &Leadership,
        round: Round,
        timeout: Duration,
    ) -> (Round, Vec<Problem>) {
        let mut problems = Vec::new();
        for step in &round.steps {
            if !leadership.holds() || !self.shared.plan().is_current(&round) {
                break;
            }
            match (send::send(client, step, timeout).await, step) {
                (Ok(Some(seen)), Step::Apply { id, .. }) => {
                    tracing::info!(object = %id, "Applied");
                    self.shared.plan().applied(&round.owner, id, seen, Instant::now());
                }
                (Ok(_), Step::Delete { id, .. }) => tracing::info!(object = %id, "Deleted what is superseded"),
                (Ok(None), Step::Apply { .. }) => {}
                (Err(problem), _) => {
                    tracing::warn!(
                        object = problem.object,
                        problem = problem.text,
                        "A fleet's object is not as it should be"
                    );
                    problems.push(problem);
                }
            }
        }
        (round, problems)
    }
}
