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
use tokio::sync::watch::Receiver;
use tokio::time::{Instant, sleep, timeout};

use super::wire::{Collection, Page, Slim};

/// The longest wait for an answer: to a page of a list, or to the opening of a watch.
const ANSWER: Duration = Duration::from_secs(30);
/// The longest silence of a watch. An API server sends a bookmark about once a minute; a watch that is silent for longer hangs.
const SILENCE: Duration = Duration::from_secs(150);
/// A watch that is refused ends within this time; kube hands the refusal on as if it were an event. One that is not is open.
const OPENING: Duration = Duration::from_secs(1);
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

/// Lists and watches until it is dropped. `make` turns JSON into what is kept, at once; `tell` hears everything. A watch is opened anew when
/// `again` rings.
pub(crate) async fn follow<T>(
    client: Client,
    collection: Collection,
    mut again: Receiver<()>,
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
                watch(&client, &collection, version, &mut again, &make, &tell, &mut delay).await;
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
    again: &mut Receiver<()>,
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
                let end = hear(events, &mut version, again, &make, &tell).await;
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
                    End::Broken(trouble) => trouble,
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
    /// By the server, as agreed, or by this side
    Closed,
    /// The server does not know any more what happened since then
    Gone(String),
    Broken(Trouble),
}

async fn hear<T>(
    events: impl futures::Stream<Item = Result<WatchEvent<Slim>, Error>>,
    version: &mut String,
    again: &mut Receiver<()>,
    make: impl Fn(Slim) -> Option<T>,
    tell: impl Fn(Heard<T>),
) -> End {
    let mut events = std::pin::pin!(events);
    let mut silence = OPENING;
    loop {
        let event = tokio::select! {
            event = timeout(silence, events.try_next()) => event,
            Ok(()) = again.changed() => return End::Closed,
        };
        let event = match event {
            Err(_) if silence == OPENING => {
                silence = SILENCE;
                tell(Heard::Alive);
                continue;
            }
            Err(_) => return End::Broken(Trouble::Failed(format!("the watch was silent for {SILENCE:?}"))),
            Ok(Err(error)) => return End::Broken(error.into()),
            Ok(Ok(None)) => return End::Closed,
            Ok(Ok(Some(event))) => event,
        };
        silence = SILENCE;
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

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use kube::client::Body;
    use tokio::sync::mpsc::unbounded_channel;

    use super::super::wire::Scope;
    use super::*;

    const LIST: &str = r#"{"metadata":{"resourceVersion":"VERSION"},"items":[{"metadata":{"name":"a"}}]}"#;
    const GONE: &str = r#"{"type":"ERROR","object":{"kind":"Status","status":"Failure","code":410,"reason":"Expired","message":"too old"}}"#;
    const BOOKMARK: &str =
        r#"{"type":"BOOKMARK","object":{"apiVersion":"v1","kind":"A","metadata":{"resourceVersion":"15"}}}"#;
    const TOO_LARGE: &str =
        r#"{"kind":"Status","status":"Failure","code":500,"reason":"InternalError","message":"too large"}"#;

    /// What is heard, and what was asked for, with a server that answers lists with one object, and watches so.
    async fn heard(
        watch: impl Fn(usize) -> (u16, &'static str) + Send + 'static,
        until_lists: usize,
    ) -> (Vec<String>, Vec<String>) {
        let asked = Arc::new(Mutex::new(Vec::new()));
        let (asking, mut watches, mut lists) = (asked.clone(), 0, 0);
        let service = tower::service_fn(move |request: http::Request<Body>| {
            let uri = request.uri().to_string();
            let (code, body) = if uri.contains("watch=true") {
                watches += 1;
                let (code, body) = watch(watches);
                (code, body.to_owned())
            } else {
                lists += 1;
                (200, LIST.replace("VERSION", &(lists * 10).to_string()))
            };
            asking.lock().unwrap().push(uri);
            let response = http::Response::builder().status(code).body(Body::from(body.into_bytes())).unwrap();
            async move { Ok::<_, Error>(response) }
        });
        let (sender, mut receiver) = unbounded_channel();
        let scope = Scope { kind: portolan_model::Kind::Service, namespace: None, name: None };
        let make = |object: Slim| object.metadata("name").map(str::to_owned);
        let tell = move |heard: Heard<String>| {
            let _ = sender.send(format!("{heard:?}"));
        };
        let (_ring, again) = tokio::sync::watch::channel(());
        let (client, collection) = (Client::new(service, "default"), Collection::new(&scope, "v1"));
        let task = tokio::spawn(follow(client, collection, again, make, tell));
        let (mut all, mut listed) = (Vec::new(), 0);
        while listed < until_lists {
            let heard = receiver.recv().await.unwrap();
            listed += usize::from(heard.starts_with("Listed"));
            all.push(heard);
        }
        task.abort();
        let asked = asked.lock().unwrap().iter().filter(|uri| uri.contains("watch=true")).cloned().collect();
        (all, asked)
    }

    #[tokio::test]
    async fn what_the_server_has_forgotten_is_listed_anew() {
        let (heard, watches) = heard(|_| (200, GONE), 2).await;
        let listed = |version| format!("Listed([\"a\"], \"{version}\")");
        let broken = "Broken(Failed(\"too old\"))".to_owned();
        assert_eq!(heard, ["Listing".into(), listed(10), broken, "Listing".into(), listed(20)]);
        assert!(watches[0].contains("resourceVersion=10"), "{watches:?}");
    }

    /// Closed after a bookmark: the next watch begins there, and nothing is listed.
    #[tokio::test]
    async fn a_watch_goes_on_where_the_last_one_ended() {
        let (heard, watches) = heard(|number| (200, if number == 1 { BOOKMARK } else { GONE }), 2).await;
        assert_eq!(heard.iter().filter(|heard| *heard == "Alive").count(), 1, "the bookmark: {heard:?}");
        assert!(watches[0].contains("resourceVersion=10") && watches[1].contains("resourceVersion=15"), "{watches:?}");
    }

    /// As after a restored etcd: the version is one of a future that is not any more.
    #[tokio::test]
    async fn a_version_that_the_server_does_not_know_is_not_asked_for_for_ever() {
        let (heard, watches) = heard(|_| (500, TOO_LARGE), 2).await;
        let of_first_list = watches.iter().filter(|uri| uri.contains("resourceVersion=10")).count();
        assert_eq!(of_first_list, usize::try_from(ATTEMPTS).unwrap(), "{watches:?}");
        assert!(heard.contains(&"Broken(Failed(\"too large (500)\"))".to_owned()), "{heard:?}");
        assert!(!heard.contains(&"Alive".to_owned()), "a watch that is refused is not there: {heard:?}");
    }

    #[tokio::test]
    async fn a_watch_that_is_denied_is_told_to_be() {
        let (heard, _) =
            heard(|_| (403, r#"{"kind":"Status","code":403,"reason":"Forbidden","message":"no"}"#), 2).await;
        assert!(heard.contains(&"Broken(Denied(\"no\"))".to_owned()), "{heard:?}");
    }
}
