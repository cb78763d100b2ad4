//! One collection, listed and then watched for ever.
//!
//! kube-runtime's `watcher` does the same and is not used for three reasons: it keeps bookmarks and the opening of a watch to itself, so nobody
//! can say how fresh a replica is; it waits for ever when a watch cannot be opened at a version that the server does not know (yet), as after
//! a restored etcd; and it hands over a page only when all objects of it have been kept in full.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::time::Duration;

use futures::TryStreamExt as _;
use kube::core::WatchEvent;
use kube::{Client, Error};
use tokio::time::{Instant, sleep, timeout};

use super::wire::{Collection, Page, Slim};

/// The longest wait for an answer: to a page of a list, or to the opening of a watch.
const ANSWER: Duration = Duration::from_secs(30);
/// The longest silence of a watch. An API server sends a bookmark about once a minute; a watch that is silent for longer hangs.
const SILENCE: Duration = Duration::from_secs(150);
/// Between attempts, doubled each time
const DELAYS: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));
/// So often a watch is tried at the version where it broke; then everything is listed anew.
const ATTEMPTS: u32 = 5;

/// What a collection says.
#[derive(Clone, Debug)]
pub(crate) enum Heard<T> {
    /// It is about to be listed: the list that follows holds everything up to now
    Listing,
    /// These are all there are, as of this version
    Listed(Vec<T>, String),
    /// One is there, new or changed
    Applied(T),
    /// One is gone; this was its last state
    Deleted(T),
    /// Nothing new, and the watch is there to say so
    Alive,
    /// It does not work, and is tried again
    Broken(Trouble),
}

/// Why something cannot be read, in the API server's words where it had some.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// There is no such thing
    Missing(String),
    /// This account may not
    Denied(String),
    Failed(String),
}

impl From<Error> for Trouble {
    fn from(error: Error) -> Self {
        match error {
            Error::Api(status) => {
                let message = if status.message.is_empty() { status.reason.clone() } else { status.message.clone() };
                match status.code {
                    404 => Self::Missing(message),
                    401 | 403 => Self::Denied(message),
                    code => Self::Failed(format!("{message} ({code})")),
                }
            }
            error => Self::Failed(chain(&error)),
        }
    }
}

/// An error with its causes: what fails below HTTP is in the last one.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.ends_with(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        source = cause.source();
    }
    text
}

/// Lists and watches until it is dropped. `make` turns JSON into what is kept, at once; `tell` hears everything.
pub(crate) async fn follow<T>(
    client: Client,
    collection: Collection,
    make: impl Fn(Slim) -> Option<T>,
    tell: impl Fn(Heard<T>),
) {
    let mut delay = Delay::default();
    loop {
        tell(Heard::Listing);
        match list(&client, &collection, &make).await {
            Ok((items, version)) => {
                tell(Heard::Listed(items, version.clone()));
                delay = Delay::default();
                watch(&client, &collection, version, &make, &tell, &mut delay).await;
            }
            Err(trouble) => {
                tell(Heard::Broken(trouble));
                delay.wait().await;
            }
        }
    }
}

/// Everything in the collection, page by page, and the version that it is of.
pub(crate) async fn list<T>(
    client: &Client,
    collection: &Collection,
    make: impl Fn(Slim) -> Option<T>,
) -> Result<(Vec<T>, String), Trouble> {
    let (mut items, mut next) = (Vec::new(), None);
    loop {
        let page: Page = answer(client.request(collection.list(None, next)?)).await?;
        items.extend(page.items.into_iter().filter_map(&make));
        if page.metadata.r#continue.is_empty() {
            return Ok((items, page.metadata.resource_version));
        }
        next = Some(page.metadata.r#continue);
    }
}

async fn answer<T>(request: impl Future<Output = Result<T, Error>>) -> Result<T, Trouble> {
    match timeout(ANSWER, request).await {
        Ok(answer) => answer.map_err(Trouble::from),
        Err(_) => Err(Trouble::Failed(format!("no answer within {ANSWER:?}"))),
    }
}

/// Watches from a version on until everything has to be listed anew.
async fn watch<T>(
    client: &Client,
    collection: &Collection,
    mut version: String,
    make: impl Fn(Slim) -> Option<T>,
    tell: impl Fn(Heard<T>),
    delay: &mut Delay,
) {
    while delay.attempts < ATTEMPTS {
        // Watches that were opened together do not end together.
        let seconds = 240 + jitter() % 50;
        let opened = Instant::now();
        let request = match collection.watch(&version, seconds) {
            Ok(request) => answer(client.request_events::<Slim>(request)).await,
            Err(error) => Err(error.into()),
        };
        let trouble = match request {
            Ok(events) => {
                tell(Heard::Alive);
                let end = hear(events, &mut version, &make, &tell).await;
                if opened.elapsed() > DELAYS.1 {
                    *delay = Delay::default();
                }
                match end {
                    End::Closed => {
                        // In good time, or right away by a server that stops.
                        if opened.elapsed() < DELAYS.1 {
                            delay.wait().await;
                        }
                        continue;
                    }
                    End::Gone(text) => {
                        tell(Heard::Broken(Trouble::Failed(text)));
                        // Compacted: nothing is wrong with the server.
                        return;
                    }
                    End::Broken(text) => Trouble::Failed(text),
                }
            }
            Err(trouble) => trouble,
        };
        let is_final = matches!(trouble, Trouble::Missing(_) | Trouble::Denied(_));
        tell(Heard::Broken(trouble));
        delay.wait().await;
        if is_final {
            return;
        }
    }
}

/// How a watch ended.
enum End {
    /// By the server, as agreed
    Closed,
    /// The server does not know any more what happened since then
    Gone(String),
    Broken(String),
}

async fn hear<T>(
    events: impl futures::Stream<Item = Result<WatchEvent<Slim>, Error>>,
    version: &mut String,
    make: impl Fn(Slim) -> Option<T>,
    tell: impl Fn(Heard<T>),
) -> End {
    let mut events = std::pin::pin!(events);
    loop {
        let event = match timeout(SILENCE, events.try_next()).await {
            Err(_) => return End::Broken(format!("the watch was silent for {SILENCE:?}")),
            Ok(Err(error)) => return End::Broken(chain(&error)),
            Ok(Ok(None)) => return End::Closed,
            Ok(Ok(Some(event))) => event,
        };
        let (object, deleted) = match event {
            WatchEvent::Added(object) | WatchEvent::Modified(object) => (object, false),
            WatchEvent::Deleted(object) => (object, true),
            WatchEvent::Bookmark(bookmark) => {
                *version = bookmark.metadata.resource_version;
                tell(Heard::Alive);
                continue;
            }
            // 410 Gone is the usual one; whatever it is, the version is of no use any more.
            WatchEvent::Error(status) => return End::Gone(status.message.clone()),
        };
        match object.metadata("resourceVersion") {
            Some(of_object) => of_object.clone_into(version),
            None => return End::Gone("an event without a resourceVersion".to_owned()),
        }
        if let Some(object) = make(object) {
            tell(if deleted { Heard::Deleted(object) } else { Heard::Applied(object) });
        }
    }
}

/// The wait before the next attempt.
#[derive(Default)]
struct Delay {
    attempts: u32,
}

impl Delay {
    async fn wait(&mut self) {
        let base = DELAYS.0.saturating_mul(2_u32.saturating_pow(self.attempts.min(16))).min(DELAYS.1);
        self.attempts += 1;
        // Half to all of it: many replicas do not come back at once.
        sleep(base / 2 + base.mul_f64(f64::from(jitter() % 1000) / 2000.0)).await;
    }
}

/// A number that is another one each time; nothing depends on how random it is.
fn jitter() -> u32 {
    u32::try_from(RandomState::new().build_hasher().finish() >> 33).unwrap_or(0)
}
