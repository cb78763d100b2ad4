//! Time comes in as an event and costs nothing unless somebody waits for it.

use std::sync::Arc;

use portolan_engine::{Engine, Event, Options, Output};
use portolan_model::ir::{Binding, Status};
use portolan_model::objects::Object;
use portolan_model::{ConditionType, Kind, NamespacedName, ObjectKey, read};
use portolan_proto::{Resource, ResourceType};

const NOT_BEFORE: i64 = 1_577_836_800; // 2020-01-01
const NOT_AFTER: i64 = 1_609_459_200; // 2021-01-01

const GATEWAY: &str = "
apiVersion: gateway.networking.k8s.io/v1
kind: GatewayClass
metadata: {name: portolan}
spec: {controllerName: portolan.dev/gateway-controller}
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: web, namespace: ns}
spec:
  gatewayClassName: portolan
  listeners:
  - {name: https, port: 443, protocol: HTTPS, tls: {certificateRefs: [{name: cert}]}}
  - {name: other, port: 8443, protocol: HTTPS, tls: {certificateRefs: [{name: cert-2}]}}
";

fn name(text: &str) -> NamespacedName {
    NamespacedName::new("ns", text)
}

fn pair(from: i32, to: i32) -> (String, String) {
    let mut params = rcgen::CertificateParams::new(vec!["a.test".to_owned()]).unwrap();
    params.not_before = rcgen::date_time_ymd(from, 1, 1);
    params.not_after = rcgen::date_time_ymd(to, 1, 1);
    let key = rcgen::KeyPair::generate().unwrap();
    (params.self_signed(&key).unwrap().pem(), key.serialize_pem())
}

fn secret(name: &str, (chain, key): &(String, String)) -> String {
    let indented = |pem: &str| pem.trim().replace('\n', "\n    ");
    format!(
        "\n---\napiVersion: v1\nkind: Secret\nmetadata: {{name: {name}, namespace: ns}}\ntype: kubernetes.io/tls\nstringData:\n  tls.crt: |\n    {}\n  tls.key: |\n    {}\n",
        indented(chain),
        indented(key)
    )
}

fn events(manifests: &str) -> Vec<Event> {
    let read = read::manifests(&"m.yaml".into(), manifests.as_bytes()).unwrap();
    let object = |manifest: read::Manifest| -> Object { manifest.object.unwrap() };
    read.into_iter().map(object).map(|object| Event::Object { key: object.key(), object: Some(object) }).collect()
}

/// A Gateway whose certificate is valid in 2020, and another one from 2000 to 2100.
fn scene(now: i64) -> (Engine, Vec<Event>) {
    let mut events =
        events(&[GATEWAY, &secret("cert", &pair(2020, 2021)), &secret("cert-2", &pair(2000, 2100))].concat());
    events.push(Event::Binding { gateway: name("web"), binding: Some(bound()) });
    let mut engine = Engine::new(Options::default());
    engine.apply(events.iter().cloned().chain([Event::Time(now)]));
    (engine, events)
}

fn certificate(engine: &Engine) -> Arc<Resource> {
    let snapshot = engine.snapshot(&name("web")).unwrap();
    let of_secret =
        |resource: &&Arc<Resource>| resource.key.kind == ResourceType::Secret && &*resource.key.name == "ns/cert";
    Arc::clone(snapshot.iter().find(of_secret).unwrap())
}

/// `ResolvedRefs` of the first listener: status, reason, message.
fn resolved(engine: &Engine) -> (bool, String, String) {
    let Some(Status::Gateway { listeners, .. }) = engine.status(&ObjectKey::new(Kind::Gateway, name("web"))) else {
        panic!("no status")
    };
    let is_resolved = |condition: &&portolan_model::Condition| condition.kind == ConditionType::ResolvedRefs;
    let condition = listeners[0].conditions.iter().find(is_resolved).unwrap();
    assert!(
        listeners[1].conditions.iter().find(is_resolved).unwrap().status,
        "the other certificate is valid all along"
    );
    (condition.status, condition.reason.to_string(), condition.message.to_string())
}

/// What changed in the fleet.
fn changed(output: &Output) -> Vec<String> {
    output.fleets.values().flatten().map(|change| change.key.to_string()).collect()
}

#[test]
fn a_certificate_is_held_before_and_after_its_dates() {
    let (mut engine, _) = scene(NOT_BEFORE - 1);
    assert!(certificate(&engine).is_held());
    let (status, reason, message) = resolved(&engine);
    assert_eq!((status, reason.as_str()), (false, "InvalidCertificateRef"));
    assert!(
        message.contains("Secret ns/cert ") && message.contains("not valid before 2020-01-01T00:00:00Z"),
        "{message}"
    );

    let secret = certificate(&engine).key.to_string();
    assert_eq!(engine.due(), Some(NOT_BEFORE));
    assert!(engine.is_due(NOT_BEFORE));
    assert_eq!(
        changed(&engine.apply([Event::Time(NOT_BEFORE)])),
        std::slice::from_ref(&secret),
        "the listener stays as it is"
    );
    assert!(!certificate(&engine).is_held() && resolved(&engine).0);

    // "inclusive" (RFC 5280)
    assert_eq!(engine.due(), Some(NOT_AFTER + 1));
    engine.apply([Event::Time(NOT_AFTER)]);
    assert!(!certificate(&engine).is_held() && resolved(&engine).0);
    assert_eq!(changed(&engine.apply([Event::Time(NOT_AFTER + 1)])), std::slice::from_ref(&secret));
    assert!(certificate(&engine).is_held());
    let (status, reason, message) = resolved(&engine);
    assert_eq!((status, reason.as_str()), (false, "InvalidCertificateRef"));
    assert!(
        message.contains("Secret ns/cert ") && message.contains("expired on 2021-01-01T00:00:00Z; renew"),
        "{message}"
    );

    // A renewed one heals, and a clock that was wrong may be set right.
    engine.apply(events(&self::secret("cert", &pair(2020, 2040))));
    assert!(!certificate(&engine).is_held() && resolved(&engine).0);
}

#[test]
fn a_clock_that_is_set_back_leads_to_what_that_time_is_like() {
    let (mut engine, _) = scene(NOT_AFTER + 10);
    assert!(certificate(&engine).is_held());
    assert!(engine.is_due(NOT_AFTER) && !engine.is_due(NOT_AFTER + 5));
    engine.apply([Event::Time(NOT_AFTER)]);
    assert!(!certificate(&engine).is_held() && resolved(&engine).0);
    assert_eq!(engine.due(), Some(NOT_AFTER + 1));
    assert!(engine.is_due(NOT_BEFORE - 1));
    engine.apply([Event::Time(NOT_BEFORE - 1)]);
    assert!(certificate(&engine).is_held());
}

#[test]
fn an_unrelated_tick_computes_nothing() {
    let (mut engine, _) = scene(NOT_BEFORE);
    for now in (NOT_BEFORE..NOT_AFTER).step_by(86_400) {
        assert!(!engine.is_due(now));
        let output = engine.apply([Event::Time(now)]);
        assert_eq!((output.computed, changed(&output)), (0, Vec::new()));
    }
    // One certificate: its Gateway's view, its secret, the status that follows, and nothing of the listeners' plans.
    let output = engine.apply([Event::Time(NOT_AFTER + 1)]);
    assert!((1..=8).contains(&output.computed), "{}", output.computed);
}

#[test]
fn equal_times_give_equal_bytes_whatever_came_before() {
    let (mut engine, events) = scene(NOT_AFTER + 10);
    engine.apply([Event::Time(NOT_BEFORE - 5)]);
    engine.apply([Event::Time(NOT_AFTER)]);
    let mut fresh = Engine::new(Options::default());
    fresh.apply([Event::Time(NOT_AFTER)].into_iter().chain(events));
    let all = |engine: &Engine| -> Vec<_> {
        engine
            .snapshot(&name("web"))
            .unwrap()
            .iter()
            .map(|it| (it.key.clone(), it.version, it.body.message()))
            .collect()
    };
    assert_eq!(all(&engine), all(&fresh));
    assert_eq!(engine.due(), fresh.due());
}

#[test]
fn a_certificate_that_nobody_uses_is_waited_for_by_nobody() {
    let (mut engine, _) = scene(NOT_BEFORE);
    let gateway = ObjectKey::new(Kind::Gateway, name("web"));
    engine.apply([Event::Object { key: gateway, object: None }]);
    assert_eq!(engine.due(), None);
}

/// A binding with an address for the status.
fn bound() -> Binding {
    Binding { status: vec![("IPAddress".into(), "192.0.2.7".into())], ..Binding::default() }
}
