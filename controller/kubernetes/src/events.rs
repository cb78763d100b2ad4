//! Events on objects with which something is wrong: for `kubectl describe`, and for whoever collects Events. Told once when a condition
//! becomes a problem, or another one; what happens again is counted in the Event's series. Best effort: the status says the same.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::events::v1::{Event, EventSeries};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;
use kube::Client;
use kube::api::{Api, Patch, PatchParams, PostParams};
use kube::core::ObjectMeta;
use portolan_model::ir::{Element, Status};
use portolan_model::{CONTROLLER_NAME, Condition, ObjectKey, Reason};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::Meta;
use crate::bucket::Bucket;
use crate::status::conditions_there;

/// Events that wait; what comes when there are so many is not told.
const QUEUE: usize = 256;
/// Of one object: what flaps says little after the first words.
const OF_ONE_OBJECT: (u32, Duration) = (10, Duration::from_mins(1));
const OBJECTS: usize = 1_000;
/// `note` "max length 1kB".
const LONGEST_NOTE: usize = 1_000;
const TIMEOUT: Duration = Duration::from_secs(5);
/// Of what is as the status says, and yet has no effect in part.
const NO_EFFECT: &str = "NotInEffect";

/// Takes what has arisen.
#[derive(Clone, Default)]
pub struct EventSink {
    sender: Option<mpsc::Sender<Occurrence>>,
}

/// Something to tell.
#[derive(Debug)]
struct Occurrence {
    regarding: Box<ObjectReference>,
    about: About,
}

/// What happened to it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct About {
    /// The condition's type
    action: &'static str,
    reason: &'static str,
    note: String,
}

/// A sink, and the future that writes Events and never ends. `instance` is the pod.
pub fn events(client: Client, instance: &str) -> (EventSink, impl Future<Output = ()> + Send + 'static) {
    let (sender, receiver) = mpsc::channel(QUEUE);
    (EventSink { sender: Some(sender) }, write(client, instance.to_owned(), receiver))
}

impl EventSink {
    /// A status has been written over that of `before`.
    pub(crate) fn arisen(&self, key: &ObjectKey, before: &Meta, status: &Status) {
        let Some(sender) = &self.sender else { return };
        for about in arising(&before.status, status) {
            let regarding = ObjectReference {
                api_version: Some(before.api_version.to_string()),
                kind: Some(key.kind.to_string()),
                namespace: Some(key.name.namespace.to_string()).filter(|namespace| !namespace.is_empty()),
                name: Some(key.name.name.to_string()),
                uid: Some(before.uid.to_string()),
                ..ObjectReference::default()
            };
            // Full: the API server is slow, and the status has the words.
            _ = sender.try_send(Occurrence { regarding: Box::new(regarding), about });
        }
    }
}

/// Problems of a status that the one before did not have. One for several parents of a route, or several conditions, that say the same.
fn arising(before: &Value, status: &Status) -> BTreeSet<About> {
    let is_new = |(element, condition): &(Element<'_>, &Condition)| {
        let same = |old: &Value| {
            let says = |field: &str| old.get(field).and_then(Value::as_str).unwrap_or_default();
            (says("type"), says("reason"), says("message"))
                == (condition.kind.as_str(), condition.reason.as_str(), &*condition.message)
                && (says("status") == "True") == condition.status
        };
        !conditions_there(before, *element).iter().any(same)
    };
    let to_tell = status.conditions().filter(|(_, condition)| is_to_be_told(condition)).filter(is_new);
    let mut said = BTreeSet::new();
    let abouts = to_tell.map(|(element, condition)| about(element, condition));
    abouts.filter(|about| said.insert((about.reason, about.note.clone()))).collect()
}

/// An address comes with time; where it does not, the Service has Events of its own.
fn is_to_be_told(condition: &Condition) -> bool {
    condition.attention || condition.is_problem() && condition.reason != Reason::AddressNotAssigned
}

fn about(element: Element<'_>, condition: &Condition) -> About {
    let mut note = match element {
        Element::Listener(name) => format!("listener {name}: {}", condition.message),
        _ => condition.message.to_string(),
    };
    note.truncate(note.floor_char_boundary(LONGEST_NOTE));
    let reason = if condition.is_problem() { condition.reason.as_str() } else { NO_EFFECT };
    About { action: condition.kind.as_str(), reason, note }
}

async fn write(client: Client, instance: String, mut occurrences: mpsc::Receiver<Occurrence>) {
    let mut all = Bucket::new(25, 5, Instant::now());
    let mut told: BTreeMap<String, (Instant, u32)> = BTreeMap::new();
    while let Some(occurrence) = occurrences.recv().await {
        let now = Instant::now();
        let (most, period) = OF_ONE_OBJECT;
        if told.len() >= OBJECTS {
            told.retain(|_, (since, _)| now.duration_since(*since) < period);
        }
        let uid = occurrence.regarding.uid.clone().unwrap_or_default();
        let (since, count) = told.entry(uid).or_insert((now, 0));
        if now.duration_since(*since) >= period {
            (*since, *count) = (now, 0);
        }
        *count += 1;
        if *count > most {
            continue;
        }
        if let Err(at) = all.take(now) {
            tokio::time::sleep_until(at.into()).await;
            _ = all.take(Instant::now());
        }
        match tokio::time::timeout(TIMEOUT, tell(&client, &instance, occurrence)).await {
            Ok(Ok(())) => {}
            // The namespace is on its way out, most of the time.
            Ok(Err(error)) => tracing::debug!(%error, "An Event could not be written"),
            Err(_) => tracing::debug!("The API server has not taken an Event in {TIMEOUT:?}"),
        }
    }
    std::future::pending::<()>().await;
}

/// The name says what it is about, so that another leader goes on with the same series.
async fn tell(client: &Client, instance: &str, occurrence: Occurrence) -> kube::Result<()> {
    let Occurrence { regarding, about: About { action, reason, note } } = occurrence;
    let namespace = regarding.namespace.clone().unwrap_or_else(|| "default".into());
    let object = regarding.name.as_deref().unwrap_or_default();
    let identity = format!("{}\0{action}\0{reason}\0{note}", regarding.uid.as_deref().unwrap_or_default());
    let hash = xxhash_rust::xxh3::xxh3_64(identity.as_bytes());
    let name = format!("{}.{hash:016x}", object.get(..object.floor_char_boundary(200)).unwrap_or_default());
    let api: Api<Event> = Api::namespaced(client.clone(), &namespace);
    let now = MicroTime(Timestamp::now());
    if let Some(there) = api.get_opt(&name).await? {
        let count = there.series.map_or(1, |series| series.count).saturating_add(1);
        let series = json!({"series": EventSeries { count, last_observed_time: now }});
        api.patch(&name, &PatchParams::default(), &Patch::Merge(&series)).await?;
        return Ok(());
    }
    let event = Event {
        metadata: ObjectMeta { name: Some(name), namespace: Some(namespace), ..ObjectMeta::default() },
        action: Some(action.into()),
        reason: Some(reason.into()),
        note: Some(note),
        type_: Some("Warning".into()),
        event_time: Some(now),
        regarding: Some(*regarding),
        reporting_controller: Some(CONTROLLER_NAME.into()),
        reporting_instance: Some(instance.into()),
        ..Event::default()
    };
    api.create(&PostParams::default(), &event).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use portolan_model::ir::{ListenerStatus, ParentStatus};
    use portolan_model::objects::ParentRef;
    use portolan_model::{ConditionType, Reason};

    use super::*;

    fn condition(status: bool, reason: Reason, message: &str) -> Condition {
        Condition::new(ConditionType::ResolvedRefs, status, reason, message)
    }

    fn route(parents: &[(&str, Condition)]) -> Status {
        let parent = |name: &str| ParentRef {
            group: None,
            kind: None,
            namespace: None,
            name: name.into(),
            section_name: None,
            port: None,
        };
        let parents = parents
            .iter()
            .map(|(name, condition)| ParentStatus { parent: parent(name), conditions: vec![condition.clone()] });
        Status::Route { parents: parents.collect() }
    }

    fn rendered(status: &Status) -> Value {
        status.render(1, &mut |_, _| "2026-01-01T00:00:00Z".into())
    }

    #[test]
    fn a_problem_is_told_when_it_arises_and_when_it_becomes_another() {
        let fine = route(&[("a", condition(true, Reason::ResolvedRefs, ""))]);
        let wrong = route(&[("a", condition(false, Reason::BackendNotFound, "no Service shop/cart"))]);
        let other = route(&[("a", condition(false, Reason::BackendNotFound, "no Service shop/card"))]);
        assert!(arising(&Value::Null, &fine).is_empty());
        let told = arising(&rendered(&fine), &wrong);
        let expected = About { action: "ResolvedRefs", reason: "BackendNotFound", note: "no Service shop/cart".into() };
        assert_eq!(told, BTreeSet::from([expected]));
        assert!(arising(&rendered(&wrong), &wrong).is_empty(), "also after a restart");
        assert_eq!(arising(&rendered(&wrong), &other).len(), 1);
    }

    #[test]
    fn what_has_no_effect_is_told_too() {
        let part = condition(true, Reason::Accepted, "Accepted. No effect: retry").with_attention(true);
        let status = route(&[("a", part)]);
        let told: Vec<_> = arising(&Value::Null, &status).into_iter().map(|about| (about.reason, about.note)).collect();
        assert_eq!(told, [("NotInEffect", "Accepted. No effect: retry".to_owned())]);
        assert!(arising(&rendered(&status), &status).is_empty());
        let waits = condition(false, Reason::AddressNotAssigned, "No address yet");
        assert!(arising(&Value::Null, &route(&[("a", waits)])).is_empty(), "that is how every Gateway begins");
    }

    #[test]
    fn parents_that_say_the_same_say_it_once() {
        let wrong = condition(false, Reason::BackendNotFound, "no Service shop/cart");
        assert_eq!(arising(&Value::Null, &route(&[("a", wrong.clone()), ("b", wrong.clone())])).len(), 1);
        let again = Condition { kind: ConditionType::Programmed, ..wrong.clone() };
        let status = Status::ListenerSet { conditions: vec![wrong, again], listeners: Vec::new() };
        assert_eq!(arising(&Value::Null, &status).len(), 1, "and conditions");
    }

    #[test]
    fn a_listener_is_named_and_what_is_pending_is_no_problem() {
        let wrong = condition(false, Reason::InvalidCertificateRef, "no Secret infra/cert");
        let pending = condition(false, Reason::Pending, "");
        let listeners = ["web", "admin"].into_iter().zip([wrong, pending]).map(|(name, condition)| ListenerStatus {
            name: name.into(),
            attached_routes: 0,
            supported_kinds: Vec::new(),
            conditions: vec![condition],
        });
        let status = Status::ListenerSet { conditions: Vec::new(), listeners: listeners.collect() };
        let notes: Vec<_> = arising(&Value::Null, &status).into_iter().map(|about| about.note).collect();
        assert_eq!(notes, ["listener web: no Secret infra/cert"]);
        assert!(arising(&rendered(&status), &status).is_empty());
    }
}
