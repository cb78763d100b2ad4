use std::collections::BTreeMap;
use std::pin::pin;
use std::time::{Duration, Instant};

use futures::StreamExt as _;
use kube::Client;
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::runtime::watcher::{self, Event, watcher};
use portolan_kubernetes::events::EventSink;
use portolan_kubernetes::status::{Write, desired};
use portolan_kubernetes::{Leadership, StatusOptions, Statuses};
use portolan_model::ir::{ListenerStatus, ParentStatus, Status};
use portolan_model::objects::ParentRef;
use portolan_model::{CONTROLLER_NAME, Condition, ConditionType, Kind, NamespacedName, ObjectKey, Reason};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::fixture::{GATEWAY_API, api, apply, client, eventually, meta, namespace, route, routes};

const FAST: StatusOptions =
    StatusOptions { per_second: 10_000, burst: 10_000, concurrency: 8, timeout: Duration::from_secs(5) };

fn key(namespace: &str, name: &str) -> ObjectKey {
    ObjectKey::new(Kind::HTTPRoute, NamespacedName::new(namespace, name))
}

fn condition(message: &str) -> Condition {
    Condition::new(ConditionType::Accepted, true, Reason::Accepted, message)
}

fn wanted(message: &str) -> Status {
    let parent =
        ParentRef { group: None, kind: None, namespace: None, name: "edge".into(), section_name: None, port: None };
    Status::Route { parents: vec![ParentStatus { parent, conditions: vec![condition(message)] }] }
}

fn want(key: &ObjectKey, status: Option<Status>) -> BTreeMap<ObjectKey, Option<Status>> {
    BTreeMap::from([(key.clone(), status)])
}

/// Watches a namespace's routes. Tells each event, deletions as `Err`.
fn watch(client: &Client, namespace: &str) -> mpsc::UnboundedReceiver<Result<DynamicObject, DynamicObject>> {
    let (sender, receiver) = mpsc::unbounded_channel();
    let api = routes(client, namespace);
    tokio::spawn(async move {
        let mut events = pin!(watcher(api, watcher::Config::default()));
        while let Some(event) = events.next().await {
            let told = match event.unwrap() {
                Event::Apply(object) | Event::InitApply(object) => sender.send(Ok(object)),
                Event::Delete(object) => sender.send(Err(object)),
                Event::Init | Event::InitDone => Ok(()),
            };
            if told.is_err() {
                return;
            }
        }
    });
    receiver
}

fn message_of(object: &DynamicObject, controller: &str) -> Option<String> {
    let parents = object.data.get("status")?.get("parents")?.as_array()?;
    let entry = parents.iter().find(|entry| entry["controllerName"] == controller)?;
    Some(entry["conditions"][0]["message"].as_str()?.to_owned())
}

fn number_of(object: &DynamicObject, controller: &str) -> Option<u32> {
    message_of(object, controller)?.parse().ok()
}

/// Another controller that keeps the rules: it replaces what it has read, and tries again when that has changed.
async fn other_controller(client: Client, namespace: String, name: &str, updates: u32) {
    let api = routes(&client, &namespace);
    for number in 1..=updates {
        loop {
            let mut object = api.get(name).await.unwrap();
            let mut parents = object.data["status"]["parents"].as_array().cloned().unwrap_or_default();
            parents.retain(|entry| entry["controllerName"] != "other.example/controller");
            parents.insert(0, json!({
                "parentRef": {"name": "their-gateway"}, "controllerName": "other.example/controller",
                "conditions": [{"type": "Accepted", "status": "True", "reason": "Accepted", "message": number.to_string(),
                    "observedGeneration": 1, "lastTransitionTime": "2026-01-01T00:00:00Z"}],
            }));
            object.data["status"] = json!({"parents": parents});
            match api.replace_status(name, &PostParams::default(), &object).await {
                Ok(_) => break,
                Err(kube::Error::Api(answer)) if answer.code == 409 => {}
                Err(error) => panic!("{error}"),
            }
        }
    }
}

#[tokio::test]
async fn a_thousand_updates_of_a_shared_status_from_both_sides_lose_none() {
    const UPDATES: u32 = 1_000;
    let client = client().await;
    let namespace = namespace(&client).await;
    apply(&client, route(&namespace, "shared")).await;
    let mut events = watch(&client, &namespace);
    let key = key(&namespace, "shared");
    let statuses = Statuses::default();
    tokio::spawn(statuses.clone().write(client.clone(), Leadership::alone(), EventSink::default(), FAST));
    let other = tokio::spawn(other_controller(client.clone(), namespace.clone(), "shared", UPDATES));

    let (mut ours, mut theirs) = (0, 0);
    let start = Instant::now();
    while ours < UPDATES || theirs < UPDATES {
        let event = tokio::time::timeout(Duration::from_secs(60), events.recv()).await;
        let object = event.unwrap_or_else(|_| panic!("stuck at {ours}, {theirs}")).unwrap().unwrap();
        let (now_ours, now_theirs) =
            (number_of(&object, CONTROLLER_NAME), number_of(&object, "other.example/controller"));
        // Every state that ever was passes by here.
        assert!(now_ours.unwrap_or(0) >= ours && now_theirs.unwrap_or(0) >= theirs, "{now_ours:?} {now_theirs:?}");
        assert!(now_theirs.is_some() || theirs == 0, "their entry has been lost");
        (ours, theirs) = (now_ours.unwrap_or(0), now_theirs.unwrap_or(0));
        // The next once the last is there, so that each of ours is written.
        let next = want(&key, Some(wanted(&(ours + 1).min(UPDATES).to_string())));
        statuses.update([(key.clone(), Some(meta(&object)))], next);
    }
    other.await.unwrap();
    println!("{UPDATES} from each side in {:?}", start.elapsed());
}

#[tokio::test]
async fn a_route_made_again_under_its_old_name_gets_its_status_200_times_in_a_row() {
    let client = client().await;
    let namespace = namespace(&client).await;
    let mut events = watch(&client, &namespace);
    let key = key(&namespace, "again");
    let statuses = Statuses::default();
    tokio::spawn(statuses.clone().write(client.clone(), Leadership::alone(), EventSink::default(), FAST));
    let api = routes(&client, &namespace);
    let object = serde_json::from_value(route(&namespace, "again")).unwrap();
    let mut longest = Duration::ZERO;
    let mut uid = api.create(&PostParams::default(), &object).await.unwrap().metadata.uid;
    let mut count = 0;
    let mut made = Instant::now();
    while count < 200 {
        let event = tokio::time::timeout(Duration::from_secs(20), events.recv()).await;
        match event.unwrap_or_else(|_| panic!("number {count} has no status")).unwrap() {
            // What the engine makes of it: the object is gone, and nothing is to be said of it.
            Err(_) => statuses.update([(key.clone(), None)], want(&key, None)),
            Ok(object) => {
                let told = want(&key, Some(wanted("right")));
                statuses.update([(key.clone(), Some(meta(&object)))], told);
                if object.metadata.uid == uid && message_of(&object, CONTROLLER_NAME).as_deref() == Some("right") {
                    longest = longest.max(made.elapsed());
                    count += 1;
                    // A write that is under way meets the next object under the name.
                    statuses.update([], want(&key, Some(wanted("of the old one"))));
                    tokio::time::sleep(Duration::from_millis(count % 4)).await;
                    api.delete("again", &DeleteParams::default()).await.unwrap();
                    made = Instant::now();
                    let object = serde_json::from_value(route(&namespace, "again")).unwrap();
                    uid = api.create(&PostParams::default(), &object).await.unwrap().metadata.uid;
                    assert!(made.elapsed() < Duration::from_secs(1));
                }
            }
        }
    }
    println!("the status came after {longest:?} at the latest");
}

fn gateway(namespace: &str, listeners: &[&str]) -> Value {
    let listeners: Vec<_> = listeners
        .iter()
        .enumerate()
        .map(|(at, name)| json!({"name": name, "port": 80 + at, "protocol": "HTTP"}))
        .collect();
    json!({
        "apiVersion": GATEWAY_API, "kind": "Gateway", "metadata": {"namespace": namespace, "name": "edge"},
        "spec": {"gatewayClassName": "portolan", "listeners": listeners},
    })
}

fn gateway_status(listeners: &[&str]) -> Status {
    let listener = |name: &&str| ListenerStatus {
        name: (*name).into(),
        attached_routes: 2,
        supported_kinds: Vec::new(),
        conditions: vec![condition("l")],
    };
    Status::Gateway {
        conditions: vec![condition("g")],
        listeners: listeners.iter().map(listener).collect(),
        addresses: vec![("IPAddress".into(), "192.0.2.1".into())],
        attached_listener_sets: 0,
    }
}

#[tokio::test]
async fn a_gateways_status_is_applied_beside_what_others_say() {
    let client = client().await;
    let namespace = namespace(&client).await;
    apply(&client, gateway(&namespace, &["http", "more"])).await;
    let gateways = api(&client, GATEWAY_API, "Gateway", &namespace);
    // Another manager adds a condition of its own.
    let theirs = json!({"apiVersion": GATEWAY_API, "kind": "Gateway", "metadata": {"name": "edge"}, "status": {"conditions": [{
        "type": "cloud.example/Ready", "status": "True", "reason": "Ready", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}]}});
    gateways.patch_status("edge", &PatchParams::apply("cloud"), &Patch::Apply(&theirs)).await.unwrap();

    let key = ObjectKey::new(Kind::Gateway, NamespacedName::new(&*namespace, "edge"));
    let statuses = Statuses::default();
    tokio::spawn(statuses.clone().write(client.clone(), Leadership::alone(), EventSink::default(), FAST));
    let told = meta(&gateways.get("edge").await.unwrap());
    statuses.update([(key.clone(), Some(told))], want(&key, Some(gateway_status(&["http", "more"]))));
    let names = |status: &Value, list: &str, field: &str| {
        let list = status[list].as_array().cloned().unwrap_or_default();
        list.iter().map(|element| element[field].as_str().unwrap_or_default().to_owned()).collect::<Vec<_>>()
    };
    let object = eventually("two listeners", async || {
        let object = gateways.get("edge").await.unwrap();
        (names(&object.data["status"], "listeners", "name") == ["http", "more"]).then_some(object)
    })
    .await;
    let status = &object.data["status"];
    let mut conditions = names(status, "conditions", "type");
    conditions.retain(|name| name != "Programmed"); // a default of the CRD
    conditions.sort();
    assert_eq!(conditions, ["Accepted", "cloud.example/Ready"]);
    assert_eq!(status["addresses"], json!([{"type": "IPAddress", "value": "192.0.2.1"}]));
    assert_eq!(status["listeners"][0]["conditions"][0]["observedGeneration"], 1);

    statuses.update([], want(&key, Some(gateway_status(&["http"]))));
    eventually("one listener", async || {
        let object = gateways.get("edge").await.unwrap();
        (names(&object.data["status"], "listeners", "name") == ["http"]).then_some(())
    })
    .await;
    // Told what is there, nothing more is written.
    let before = gateways.get("edge").await.unwrap();
    statuses.update([(key.clone(), Some(meta(&before)))], BTreeMap::new());
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(gateways.get("edge").await.unwrap().metadata.resource_version, before.metadata.resource_version);
}

#[tokio::test]
async fn a_write_for_another_object_of_the_name_is_refused() {
    let client = client().await;
    let namespace = namespace(&client).await;
    let manifest = gateway(&namespace, &["http"]);
    let old = meta(&apply(&client, manifest.clone()).await);
    let gateways = api(&client, GATEWAY_API, "Gateway", &namespace);
    gateways.delete("edge", &DeleteParams::default()).await.unwrap();
    apply(&client, manifest).await;
    let key = ObjectKey::new(Kind::Gateway, NamespacedName::new(&*namespace, "edge"));
    let write = desired(&key, &old, Some(&gateway_status(&["http"])), None, "2026-01-01T00:00:00Z").unwrap().write;
    let Write::Apply(manifest) = write else { panic!() };
    let answer = gateways.patch_status("edge", &PatchParams::apply("portolan").force(), &Patch::Apply(&manifest)).await;
    let Err(kube::Error::Api(answer)) = answer else { panic!("{answer:?}") };
    assert_eq!(answer.code, 409, "{answer:?}");
}

#[tokio::test]
async fn the_defaults_of_a_new_class_are_replaced() {
    let client = client().await;
    let class = json!({"apiVersion": GATEWAY_API, "kind": "GatewayClass", "metadata": {"name": "status-test"},
        "spec": {"controllerName": CONTROLLER_NAME}});
    let class = apply(&client, class).await;
    let classes = api(&client, GATEWAY_API, "GatewayClass", "");
    assert_eq!(class.data["status"]["conditions"][0]["status"], "Unknown");
    let key = ObjectKey::new(Kind::GatewayClass, NamespacedName::new("", "status-test"));
    let statuses = Statuses::default();
    tokio::spawn(statuses.clone().write(client.clone(), Leadership::alone(), EventSink::default(), FAST));
    let status = Status::GatewayClass {
        conditions: vec![condition("ok")],
        supported_features: vec!["Gateway".into(), "HTTPRoute".into()],
    };
    statuses.update([(key.clone(), Some(meta(&class)))], want(&key, Some(status)));
    let status = eventually("accepted", async || {
        let status = classes.get("status-test").await.unwrap().data["status"].take();
        (status["conditions"][0]["status"] == "True").then_some(status)
    })
    .await;
    assert_eq!(status["supportedFeatures"], json!([{"name": "Gateway"}, {"name": "HTTPRoute"}]));
    assert_ne!(status["conditions"][0]["lastTransitionTime"], "1970-01-01T00:00:00Z");
}

#[tokio::test]
async fn only_the_leader_writes_and_the_next_one_goes_on() {
    let client = client().await;
    let namespace = namespace(&client).await;
    let told = meta(&apply(&client, route(&namespace, "led")).await);
    let key = key(&namespace, "led");
    let api = routes(&client, &namespace);
    // Each says its own name, so that it shows who wrote.
    let replica = |name: &'static str| {
        let (leadership, stop) = crate::lease::start(&client, &namespace, name);
        let statuses = Statuses::default();
        statuses.update([(key.clone(), Some(told.clone()))], want(&key, Some(wanted(name))));
        tokio::spawn(statuses.clone().write(client.clone(), leadership.clone(), EventSink::default(), FAST));
        (leadership, stop, statuses)
    };
    let (mut first, stop, _statuses) = replica("first");
    first.changed(false).await;
    let (mut second, _stop, statuses) = replica("second");
    let says = async |name: &str| {
        let object = api.get("led").await.unwrap();
        (message_of(&object, CONTROLLER_NAME).as_deref() == Some(name)).then_some(object)
    };
    let object = eventually("the first one's word", async || says("first").await).await;
    statuses.update([(key.clone(), Some(meta(&object)))], BTreeMap::new());
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert!(says("first").await.is_some() && !second.holds());
    stop.send(()).unwrap();
    second.changed(false).await;
    eventually("the second one's word", async || says("second").await).await;
    assert!(!first.holds());
}
