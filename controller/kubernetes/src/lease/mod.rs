//! The lease: one replica writes (design invariant 16). All compute and serve; only statuses, Events and fleets wait for the lease.

mod elector;

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::{FutureExt as _, StreamExt as _};
use k8s_openapi::api::coordination::v1::{Lease as LeaseObject, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;
use kube::Client;
use kube::api::{Api, PostParams};
use kube::core::ObjectMeta;
use kube::runtime::{WatchStreamExt as _, watcher};
use tokio::sync::watch;

pub use elector::{Action, Elector, LeaseOptions, Record, Seen, Written};

/// The lease's name.
pub const LEASE: &str = "portolan-leader";

/// Whether this process leads. It ends by itself: nobody has to reach anybody for that.
#[derive(Clone, Debug)]
pub struct Leadership {
    term: watch::Receiver<Option<Instant>>,
}

impl Leadership {
    /// Of a process that is alone.
    #[must_use]
    pub fn alone() -> Self {
        let far = Instant::now() + Duration::from_hours(100 * 365 * 24);
        Self { term: watch::channel(Some(far)).1 }
    }

    /// Whether it leads at this moment. To be asked right before each write.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.term.borrow().is_some_and(|until| Instant::now() < until)
    }

    /// Until [`Self::holds`] is no longer `leads`.
    pub async fn changed(&mut self, leads: bool) {
        loop {
            let until = *self.term.borrow_and_update();
            if until.is_some_and(|until| Instant::now() < until) != leads {
                return;
            }
            let end = async {
                match until.filter(|_| leads) {
                    Some(until) => tokio::time::sleep_until(until.into()).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                changed = self.term.changed() => if changed.is_err() && !leads {
                    // Nobody is left who could begin a term.
                    std::future::pending::<()>().await;
                } else if changed.is_err() {
                    let end = until.unwrap_or_else(Instant::now);
                    tokio::time::sleep_until(end.into()).await;
                },
                () = end => {}
            }
        }
    }
}

/// A candidate for the lease.
pub struct Lease {
    api: Api<LeaseObject>,
    elector: Elector,
    options: LeaseOptions,
    /// With which transition, and when: for people
    acquired: Option<(i32, MicroTime)>,
    term: watch::Sender<Option<Instant>>,
}

impl Lease {
    /// A candidate in Portolan's own namespace. `identity` is of this process and no other: the pod's name, `_`, and something of the process.
    #[must_use]
    pub fn new(client: &Client, namespace: &str, identity: &str, options: LeaseOptions) -> (Self, Leadership) {
        let (sender, term) = watch::channel(None);
        let api = Api::namespaced(client.clone(), namespace);
        (
            Self { api, elector: Elector::new(identity, options), options, acquired: None, term: sender },
            Leadership { term },
        )
    }

    /// Takes part until `stop`, then lets the lease go, so that another replica takes over at once. Whatever writes must have stopped, or
    /// stop with the leadership, which ends first.
    pub async fn run(mut self, stop: impl Future<Output = ()>) {
        let mut stop = pin!(stop.fuse());
        // What happens to the lease is looked at when the watch tells of it; what the watch says is not trusted, since it may lag.
        let only_this = watcher::Config::default().fields(&format!("metadata.name={LEASE}"));
        let mut bell = pin!(watcher(self.api.clone(), only_this).default_backoff());
        let mut was_leading = false;
        loop {
            if (&mut stop).now_or_never().is_some() {
                break;
            }
            let now = Instant::now();
            let until = self.elector.until(now);
            self.term.send_if_modified(|term| std::mem::replace(term, until) != until);
            if until.is_some() != was_leading {
                was_leading = until.is_some();
                tracing::info!(
                    "{}",
                    if was_leading { "This replica leads" } else { "This replica does not lead any more" }
                );
            }
            match self.elector.step(now) {
                Action::Read => self.read().await,
                Action::Create(record) => self.write(record, None).await,
                Action::Replace(record, version) => self.write(record, Some(version)).await,
                Action::Wait(at) => {
                    // A term that ends meanwhile is told even though everybody who asks sees it for themselves.
                    let at = until.map_or(at, |until| at.min(until));
                    let latest = if until.is_some() { at } else { at.min(now + self.options.retry) };
                    tokio::select! {
                        () = &mut stop => break,
                        Some(_) = bell.next() => self.elector.look(Instant::now()),
                        () = tokio::time::sleep_until(latest.into()) => self.elector.look(Instant::now()),
                    }
                }
            }
        }
        self.term.send_replace(None);
        if let Some((record, version)) = self.elector.release() {
            let free = self.object(&record, Some(&version));
            match self.bounded(self.api.replace(LEASE, &PostParams::default(), &free)).await {
                Some(_) => tracing::info!("The lease has been let go"),
                None => tracing::warn!("The lease could not be let go; others wait until it expires"),
            }
        }
    }

    async fn read(&mut self) {
        let read = self.bounded(self.api.get_opt(LEASE)).await;
        let now = Instant::now();
        match read {
            Some(lease) => self.elector.read(lease.map(seen), now),
            None => self.elector.unreadable(now),
        }
    }

    async fn write(&mut self, record: Record, version: Option<Arc<str>>) {
        let sent = Instant::now();
        let object = self.object(&record, version.as_deref());
        let parameters = PostParams::default();
        let written = match version {
            Some(_) => self.bounded(self.api.replace(LEASE, &parameters, &object)).await,
            None => self.bounded(self.api.create(&parameters, &object)).await,
        };
        let written = written.and_then(|lease| lease.metadata.resource_version);
        let written = written.map_or(Written::Failed, |version| Written::Done(version.into()));
        self.elector.wrote(record, written, sent, Instant::now());
    }

    /// A request that is given up early enough to try another before the term ends.
    async fn bounded<T>(&self, request: impl Future<Output = kube::Result<T>>) -> Option<T> {
        match tokio::time::timeout(self.options.renew_deadline / 3, request).await {
            Ok(Ok(answer)) => Some(answer),
            // Another was faster, or it has just been deleted.
            Ok(Err(kube::Error::Api(answer))) if answer.code == 409 || answer.code == 404 => None,
            Ok(Err(error)) => {
                tracing::warn!(%error, "The lease {LEASE} cannot be had; it is tried again");
                None
            }
            Err(_) => {
                tracing::warn!("The API server does not answer requests for the lease {LEASE}");
                None
            }
        }
    }

    fn object(&mut self, record: &Record, version: Option<&str>) -> LeaseObject {
        let now = MicroTime(Timestamp::now());
        if self.acquired.as_ref().is_none_or(|(transitions, _)| *transitions != record.transitions) {
            self.acquired = Some((record.transitions, now.clone()));
        }
        let spec = LeaseSpec {
            holder_identity: Some(record.holder.to_string()),
            lease_duration_seconds: Some(i32::try_from(record.duration.as_secs()).unwrap_or(i32::MAX)),
            acquire_time: self.acquired.as_ref().map(|(_, acquired)| acquired.clone()),
            renew_time: Some(now),
            lease_transitions: Some(record.transitions),
            ..LeaseSpec::default()
        };
        let metadata = ObjectMeta {
            name: Some(LEASE.into()),
            resource_version: version.map(Into::into),
            labels: Some(crate::own_labels()),
            ..ObjectMeta::default()
        };
        LeaseObject { metadata, spec: Some(spec) }
    }
}

fn seen(lease: LeaseObject) -> Seen {
    let spec = lease.spec.unwrap_or_default();
    let seconds = spec.lease_duration_seconds.and_then(|seconds| u64::try_from(seconds).ok()).unwrap_or_default();
    let record = Record {
        holder: spec.holder_identity.unwrap_or_default().into(),
        duration: Duration::from_secs(seconds),
        transitions: spec.lease_transitions.unwrap_or_default(),
    };
    Seen { record, version: lease.metadata.resource_version.unwrap_or_default().into() }
}
