//! Reads of the API server that confirm what one watch says before another one has come so far.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kube::{Client, Error};
use portolan_model::{Kind, Name};
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::discovery::Availability;
use super::follow::list;
use super::ingest::{Answer, CONFIRM, What};
use super::observe::{api_version, observe};
use super::wire::{Collection, Scope, Slim};

/// So many at a time: more would only wait for each other in the API server, and hold up the writing of statuses.
const AT_A_TIME: usize = 32;

/// Where and how to read.
#[derive(Clone)]
pub(super) struct Confirmations {
    client: Client,
    /// `None`: all of them. What no watch follows must not be read either: nobody would hear that it is gone
    namespaces: Option<Arc<BTreeSet<Name>>>,
    permits: Arc<Semaphore>,
}

impl Confirmations {
    pub fn new(client: Client, namespaces: Option<BTreeSet<Name>>) -> Self {
        Self { client, namespaces: namespaces.map(Arc::new), permits: Arc::new(Semaphore::new(AT_A_TIME)) }
    }

    /// Reads, within the time that a confirmation has.
    pub async fn read(self, what: What, available: BTreeMap<Kind, Availability>) -> Answer {
        let is_watched = self.namespaces.as_ref().is_none_or(|names| names.contains(what.namespace()));
        match available.get(&what.kind()) {
            Some(Availability::Served(version)) if is_watched => {
                timeout(CONFIRM, self.ask(what, version)).await.unwrap_or(Answer::Failed)
            }
            _ => Answer::Failed,
        }
    }

    async fn ask(&self, what: What, version: &str) -> Answer {
        let Ok(_permit) = self.permits.acquire().await else { return Answer::Failed };
        let kind = what.kind();
        let api_version = api_version(kind, version);
        let make = |object: Slim| observe(kind, &api_version, object);
        let collection =
            Collection::new(&Scope { kind, namespace: Some(what.namespace().clone()), name: None }, version);
        let (collection, name) = match what {
            What::Object(key) => (collection, Some(key.name.name)),
            What::All(..) => (collection, None),
            What::Slices(service) => (collection.labelled("kubernetes.io/service-name", &service.name), None),
        };
        let Some(name) = name else {
            return list(&self.client, &collection, make).await.map_or(Answer::Failed, |(all, _)| Answer::Found(all));
        };
        let answer = match collection.get(&name) {
            Ok(request) => self.client.request::<Slim>(request).await,
            Err(error) => Err(error),
        };
        match answer {
            Ok(object) => Answer::Found(make(object).into_iter().collect()),
            // "There is no such object", as against "there is no such resource".
            Err(Error::Api(status))
                if status.code == 404 && status.details.as_ref().is_some_and(|details| *details.name == *name) =>
            {
                Answer::Found(Vec::new())
            }
            Err(_) => Answer::Failed,
        }
    }
}
