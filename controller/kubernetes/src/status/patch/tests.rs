use std::sync::Arc;

use portolan_model::ir::{ListenerStatus, ParentStatus};
use portolan_model::objects::{ParentRef, RouteGroupKind};
use portolan_model::{Kind, NamespacedName, Reason};

use super::*;

const NOW: &str = "2026-01-02T03:04:05Z";
const BEFORE: &str = "2025-01-02T03:04:05Z";

fn key(kind: Kind) -> ObjectKey {
    ObjectKey::new(kind, NamespacedName::new("shop", "cart"))
}

fn meta(status: Value) -> Meta {
    Meta {
        uid: "u".into(),
        resource_version: "7".into(),
        generation: 3,
        api_version: "gateway.networking.k8s.io/v1".into(),
        status: Arc::new(status),
    }
}

fn parent(name: &str) -> ParentRef {
    ParentRef { group: None, kind: None, namespace: None, name: name.into(), section_name: None, port: None }
}

fn accepted(status: bool) -> Condition {
    Condition::new(ConditionType::Accepted, status, Reason::Accepted, "m")
}

fn route(parents: &[(&str, bool)]) -> Status {
    let parents = parents
        .iter()
        .map(|(name, status)| ParentStatus { parent: parent(name), conditions: vec![accepted(*status)] })
        .collect();
    Status::Route { parents }
}

fn entry(controller: &str, parent: &str, status: &str, since: &str) -> Value {
    json!({
        "parentRef": {"group": "gateway.networking.k8s.io", "kind": "Gateway", "name": parent},
        "controllerName": controller,
        "conditions": [{"type": "Accepted", "status": status, "reason": "Accepted", "message": "m",
            "observedGeneration": 3, "lastTransitionTime": since}],
    })
}

fn ours(parent: &str, status: &str, since: &str) -> Value {
    entry(CONTROLLER_NAME, parent, status, since)
}

fn merge(meta: &Meta, wanted: Option<&Status>) -> Option<Value> {
    let desired = desired(&key(Kind::HTTPRoute), meta, wanted, None, NOW)?;
    let Write::Merge(patch) = desired.write else { panic!("{desired:?}") };
    assert_eq!(patch["metadata"], json!({"uid": "u", "resourceVersion": "7"}));
    Some(patch["status"].clone())
}

#[test]
fn entries_of_others_stay_verbatim_and_in_their_places() {
    let foreign =
        json!({"parentRef": {"name": "z"}, "controllerName": "other", "conditions": [], "unknown": {"a": [1]}});
    let there = json!({"parents": [foreign, ours("a", "False", BEFORE), entry("third", "a", "True", BEFORE)]});
    let patch = merge(&meta(there), Some(&route(&[("a", true), ("b", true)]))).unwrap();
    let expected = [foreign, ours("a", "True", NOW), entry("third", "a", "True", BEFORE), ours("b", "True", NOW)];
    assert_eq!(patch, json!({"parents": expected}));
}

#[test]
fn nothing_is_written_where_the_status_says_it_in_whatever_order() {
    let mut entry = ours("a", "True", BEFORE);
    entry["conditions"].as_array_mut().unwrap().insert(0, json!({"type": "theirs.example/Foo", "status": "True"}));
    let there = json!({"parents": [ours("b", "True", BEFORE), entry]});
    assert_eq!(merge(&meta(there), Some(&route(&[("a", true), ("b", true)]))), None);
    assert_eq!(merge(&meta(Value::Null), Some(&route(&[]))), None);
    assert_eq!(merge(&meta(Value::Null), None), None);
}

#[test]
fn a_time_moves_only_with_its_status() {
    let mut there = ours("a", "True", BEFORE);
    there["conditions"][0]["message"] = json!("old words");
    let patch = merge(&meta(json!({"parents": [there]})), Some(&route(&[("a", true)]))).unwrap();
    assert_eq!(patch, json!({"parents": [ours("a", "True", BEFORE)]}), "only the words differ");
    let patch = merge(&meta(patch), Some(&route(&[("a", false)]))).unwrap();
    assert_eq!(patch, json!({"parents": [ours("a", "False", NOW)]}));
}

#[test]
fn a_generation_that_was_looked_at_is_told_even_when_nothing_else_differs() {
    let mut there = ours("a", "True", BEFORE);
    there["conditions"][0]["observedGeneration"] = json!(2);
    assert!(merge(&meta(json!({"parents": [there]})), Some(&route(&[("a", true)]))).is_some());
}

#[test]
fn entries_go_with_their_parents_and_those_of_others_do_not() {
    let there =
        json!({"parents": [ours("a", "True", BEFORE), entry("other", "a", "True", BEFORE), ours("b", "True", BEFORE)]});
    let patch = merge(&meta(there.clone()), Some(&route(&[("b", true)]))).unwrap();
    assert_eq!(patch, json!({"parents": [entry("other", "a", "True", BEFORE), ours("b", "True", BEFORE)]}));
    let patch = merge(&meta(there), None).unwrap();
    assert_eq!(patch, json!({"parents": [entry("other", "a", "True", BEFORE)]}));
}

#[test]
fn no_more_entries_than_the_schema_allows() {
    let foreign: Vec<_> = (0..30).map(|n| entry("other", &n.to_string(), "True", BEFORE)).collect();
    let wanted = route(&[("a", true), ("b", true), ("c", true)]);
    let patch = merge(&meta(json!({"parents": foreign})), Some(&wanted)).unwrap();
    assert_eq!(patch["parents"].as_array().unwrap().len(), 32);
    assert_eq!(merge(&meta(patch), Some(&wanted)), None, "and that is the end of it");
}

#[test]
fn a_message_is_cut_to_what_the_schema_allows() {
    let long = Condition::new(ConditionType::Accepted, false, Reason::Invalid, "ä".repeat(40_000));
    let wanted = Status::Route { parents: vec![ParentStatus { parent: parent("a"), conditions: vec![long] }] };
    let patch = merge(&meta(Value::Null), Some(&wanted)).unwrap();
    assert!(patch["parents"][0]["conditions"][0]["message"].as_str().unwrap().len() <= MAX_MESSAGE);
}

fn gateway(listeners: &[&str]) -> Status {
    let listeners = listeners
        .iter()
        .map(|name| ListenerStatus {
            name: (*name).into(),
            attached_routes: 1,
            supported_kinds: vec![RouteGroupKind { group: GATEWAY_GROUP.into(), kind: "HTTPRoute".into() }],
            conditions: vec![accepted(true)],
        })
        .collect();
    Status::Gateway {
        conditions: vec![accepted(true)],
        listeners,
        addresses: vec![("IPAddress".into(), "192.0.2.1".into())],
        attached_listener_sets: 0,
    }
}

#[test]
fn a_gateway_is_applied_with_its_uid_and_not_again() {
    let wanted = gateway(&["http"]);
    let first = desired(&key(Kind::Gateway), &meta(Value::Null), Some(&wanted), None, NOW).unwrap();
    let Write::Apply(manifest) = &first.write else { panic!() };
    assert_eq!(manifest["metadata"], json!({"name": "cart", "namespace": "shop", "uid": "u", "resourceVersion": "7"}));
    assert_eq!(manifest["kind"], "Gateway");
    let there = meta(manifest["status"].clone());
    assert_eq!(desired(&key(Kind::Gateway), &there, Some(&wanted), None, "later"), None);
    assert_eq!(
        first.said,
        desired(&key(Kind::Gateway), &meta(Value::Null), Some(&wanted), None, "later").unwrap().said
    );
}

#[test]
fn what_is_no_longer_wanted_is_taken_back_once() {
    let gateway_key = key(Kind::Gateway);
    let both = desired(&gateway_key, &meta(Value::Null), Some(&gateway(&["http", "https"])), None, NOW).unwrap();
    let Write::Apply(manifest) = both.write else { panic!() };
    let there = meta(manifest["status"].clone());
    let wanted = gateway(&["http"]);
    let one = desired(&gateway_key, &there, Some(&wanted), Some(both.said), NOW).unwrap();
    assert_eq!(desired(&gateway_key, &there, Some(&wanted), Some(one.said), NOW), None, "it belongs to somebody else");
    assert!(desired(&gateway_key, &there, Some(&wanted), None, NOW).is_some(), "a new leader does not know that");
    // The same for a Gateway that goes over to another controller.
    assert_eq!(desired(&gateway_key, &there, None, None, NOW), None);
    let Write::Apply(nothing) = desired(&gateway_key, &there, None, Some(one.said), NOW).unwrap().write else {
        panic!()
    };
    assert_eq!(nothing["status"], json!({}));
    assert_eq!(desired(&gateway_key, &there, None, Some(Digest::NOTHING), NOW), None);
}

#[test]
fn foreign_conditions_of_a_gateway_are_none_of_our_business() {
    let wanted = gateway(&["http"]);
    let Write::Apply(manifest) =
        desired(&key(Kind::Gateway), &meta(Value::Null), Some(&wanted), None, NOW).unwrap().write
    else {
        panic!()
    };
    let mut status = manifest["status"].clone();
    status["conditions"].as_array_mut().unwrap().insert(0, json!({"type": "cloud.example/Ready", "status": "False"}));
    assert_eq!(desired(&key(Kind::Gateway), &meta(status), Some(&wanted), None, NOW), None);
}

#[test]
fn what_was_programmed_is_known_after_a_restart() {
    let status = |status: &str| json!({"conditions": [{"type": "Accepted", "status": "True"}, {"type": "Programmed", "status": status}]});
    assert!(says_programmed(&status("True")));
    assert!(
        !says_programmed(&status("False")) && !says_programmed(&status("Unknown")) && !says_programmed(&Value::Null)
    );
}
