//! Watches of everything that Portolan reads, as one stream of [`Notice`]s.

mod confirm;
mod discovery;
mod driver;
mod follow;
mod freshness;
mod ingest;
mod made;
mod observe;
mod references;
mod standing;
mod wire;

use std::collections::BTreeSet;
use std::sync::Arc;

use kube::Client;
use portolan_model::{Name, ObjectKey};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

use crate::Notice;

pub use freshness::{Followed, Freshness, LIMIT};
pub use made::{Found, Made, Place, follow_made};

/// What to watch.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// `None`: all of them. Else these alone: only they are asked for, so rights in them suffice, beside GatewayClasses.
    pub namespaces: Option<BTreeSet<Name>>,
}

/// Watches that run until this is dropped.
#[derive(Debug)]
pub struct Watches {
    /// What they tell. A batch waits for whoever takes it, and grows meanwhile: a slow taker costs state, not updates
    pub notices: mpsc::Receiver<Notice>,
    /// How fresh that is
    pub freshness: Freshness,
    /// Which objects are followed one by one
    pub following: Following,
    _driver: Ended,
}

/// The Secrets and ConfigMaps that are followed one by one, because something refers to them. (Secrets of the type `kubernetes.io/tls`
/// are all followed, whether they are in here or not.)
#[derive(Clone, Debug)]
pub struct Following(watch::Sender<Arc<BTreeSet<ObjectKey>>>);

impl Following {
    /// From now on these. [`Notice::Followed`] says when all of them have been read. Keys of other kinds are ignored.
    pub fn set(&self, keys: Arc<BTreeSet<ObjectKey>>) {
        self.0.send_if_modified(|current| {
            let differs = *current != keys;
            *current = keys;
            differs
        });
    }
}

/// Starts to watch. Needs a runtime of tokio with time and I/O.
#[must_use]
pub fn start(client: Client, options: Options) -> Watches {
    let (sender, notices) = mpsc::channel(1);
    let (following, followed) = watch::channel(Arc::default());
    let freshness = Freshness::default();
    let driver = driver::Driver::new(client, options, freshness.clone());
    let driver = Ended(tokio::spawn(driver.run(sender, followed)));
    Watches { notices, freshness, following: Following(following), _driver: driver }
}

/// A task that ends with this value.
#[derive(Debug)]
struct Ended(JoinHandle<()>);

impl Drop for Ended {
    fn drop(&mut self) {
        self.0.abort();
    }
}
