//! The status writer: what is wanted against what is observed, one patch each, by the leader alone (design invariant 13).
//!
//! ```text
//! watch ──Meta──┐
//!               ├─▶ Book ──Job──▶ /status of the API server
//! engine ─Status┘    ▲                 │
//!                    └──── Outcome ────┘     409: wait for the watch and compute again
//! ```

mod book;
mod patch;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use kube::Client;
use kube::api::{DynamicObject, Patch, PatchParams};
use portolan_model::ObjectKey;
use portolan_model::ir::Status;
use serde_json::Value;
use tokio::sync::Notify;

use book::{Book, Job, Next, Outcome};
pub(crate) use patch::conditions_there;
pub use patch::{Desired, Digest, Write, desired, says_programmed};

use crate::bucket::Bucket;
use crate::events::EventSink;
use crate::lease::Leadership;
use crate::resource::api;
use crate::{FIELD_MANAGER, Meta};

/// Limits of the writer, apart from those of xDS.
#[derive(Clone, Copy, Debug)]
pub struct StatusOptions {
    pub per_second: u32,
    pub burst: u32,
    pub concurrency: usize,
    /// Of one request
    pub timeout: Duration,
}

impl Default for StatusOptions {
    fn default() -> Self {
        Self { per_second: 50, burst: 100, concurrency: 8, timeout: Duration::from_secs(5) }
    }
}

/// Takes news for the writer. Newer news of an object replaces older: nothing piles up.
#[derive(Clone, Default)]
pub struct Statuses {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    book: Mutex<Book>,
    news: Notify,
}

impl Statuses {
    /// Puts in force what one batch of the engine led to. Both together, for a status says which generation it is about: `observed` has
    /// what the batch brought, `wanted` the statuses that differ since.
    pub fn update(
        &self,
        observed: impl IntoIterator<Item = (ObjectKey, Option<Meta>)>,
        wanted: BTreeMap<ObjectKey, Option<Status>>,
    ) {
        let now = Instant::now();
        {
            let mut book = self.book();
            for (key, status) in wanted {
                book.want(&key, status);
            }
            for (key, meta) in observed {
                book.observe(&key, meta, now);
            }
        }
        self.shared.news.notify_one();
    }

    fn book(&self) -> std::sync::MutexGuard<'_, Book> {
        self.shared.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes while this process leads; never returns.
    pub async fn write(self, client: Client, leadership: Leadership, events: EventSink, options: StatusOptions) {
        let mut bucket = Bucket::new(options.burst, options.per_second, Instant::now());
        let mut in_flight = FuturesUnordered::new();
        let mut led = false;
        let mut term = leadership.clone();
        loop {
            let leads = leadership.holds();
            if leads && !led {
                self.book().reconsider();
            }
            led = leads;
            let mut wake = None;
            while leads && in_flight.len() < options.concurrency {
                let now = Instant::now();
                if let Err(at) = bucket.take(now) {
                    wake = Some(at);
                    break;
                }
                let next = self.book().next(now, &crate::time::now());
                let Next::Write(job) = next else {
                    bucket.give_back();
                    wake = if let Next::At(at) = next { Some(at) } else { None };
                    break;
                };
                in_flight.push(send(&client, &leadership, &events, job, options.timeout));
            }
            let far = Instant::now() + Duration::from_hours(1);
            tokio::select! {
                Some((job, outcome)) = in_flight.next(), if !in_flight.is_empty() => {
                    self.book().finish(job, outcome, Instant::now());
                }
                () = self.shared.news.notified() => {}
                () = tokio::time::sleep_until(wake.unwrap_or(far).into()) => {}
                () = term.changed(leads) => {}
            }
        }
    }
}

async fn send(
    client: &Client,
    leadership: &Leadership,
    events: &EventSink,
    job: Box<Job>,
    timeout: Duration,
) -> (Job, Outcome) {
    if !leadership.holds() {
        return (*job, Outcome::Failed);
    }
    let api = api(client, &job.meta.api_version, &job.key);
    let name = &*job.key.name.name;
    let applying = PatchParams::apply(FIELD_MANAGER);
    let request = async {
        match &job.write {
            Write::Merge(patch) => api.patch_status(name, &applying, &Patch::Merge(patch)).await,
            Write::Apply(manifest) => api.patch_status(name, &applying.clone().force(), &Patch::Apply(manifest)).await,
        }
    };
    let outcome = match tokio::time::timeout(timeout, request).await {
        Ok(Ok(object)) => written(&job.meta, object),
        Ok(Err(error)) => outcome_of(&job.key, &error),
        Err(_) => {
            tracing::warn!(object = %job.key, "The API server has not answered a write of a status in {timeout:?}; it is tried again");
            Outcome::Failed
        }
    };
    if matches!(outcome, Outcome::Written { .. })
        && let Some(wanted) = &job.wanted
    {
        events.arisen(&job.key, &job.meta, wanted);
    }
    (*job, outcome)
}

fn written(meta: &Meta, mut object: DynamicObject) -> Outcome {
    match (object.metadata.uid, object.metadata.resource_version) {
        (Some(uid), Some(version)) if *uid == *meta.uid => {
            let status = object.data.get_mut("status").map(Value::take).unwrap_or_default();
            Outcome::Written { resource_version: version.into(), status: Arc::new(status) }
        }
        _ => Outcome::Conflict,
    }
}

fn outcome_of(key: &ObjectKey, error: &kube::Error) -> Outcome {
    match error {
        kube::Error::Api(answer) if answer.code == 409 || answer.code == 404 => {
            tracing::debug!(object = %key, answer = %answer.message, "A status is computed again when the watch has caught up");
            Outcome::Conflict
        }
        error => {
            tracing::warn!(object = %key, %error, "A status could not be written; it is tried again");
            Outcome::Failed
        }
    }
}
