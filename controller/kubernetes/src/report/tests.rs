use portolan_model::{Kind, ObjectKey};
use portolan_xds::FleetName;

use super::*;
use portolan_engine::Subject;
use portolan_xds::Transition;

fn refused(key: ResourceKey, version: u128, part: Part, text: &str) -> Transition {
    let origin = Origin {
        kind: "HTTPRoute".into(),
        namespace: "shop".into(),
        name: "cart".into(),
        field: "spec.rules[0]".into(),
    };
    Transition::Refused {
        fleet: FleetName::new("infra/edge"),
        key,
        version: Some(Version(version)),
        part,
        origins: vec![origin],
        text: text.into(),
    }
}

#[test]
fn a_refusal_names_the_gateway_whichever_one_of_its_name_it_is() {
    let Transition::Refused { key, version, part, origins, text, .. } = refused(listener(), 1, Part::Whole, "no")
    else {
        unreachable!()
    };
    let fleet = portolan_fleet::Fleet::of(NamespacedName::new("infra", "edge")).server_name_of("0a1b");
    let known = report(&[Transition::Refused { fleet, key, version, part, origins, text }]);
    assert_eq!(known, report(&[refused(listener(), 1, Part::Whole, "no")]));
}

fn listener() -> ResourceKey {
    ResourceKey::new(ResourceType::Listener, "http/80")
}

fn table() -> ResourceKey {
    ResourceKey::new(ResourceType::Route, "http/80")
}

fn report(transitions: &[Transition]) -> Report {
    let mut own = Own::default();
    for transition in transitions {
        own.hear(transition, None);
    }
    own.report().clone()
}

#[test]
fn a_refusal_survives_the_way_through_a_config_map() {
    let text = format!("{}ä", "x".repeat(LONGEST_TEXT - 1));
    let unit = report(&[refused(table(), u128::MAX, Part::Unit(Version(7)), &text)]);
    let read: Report = serde_json::from_str(&serde_json::to_string(&unit).unwrap()).unwrap();
    assert_eq!(read, unit);
    let events = read.events(&Report::default());
    let [Event::Refused(Refused { subject: Subject::Route(route), content: 7, text })] = &events[..] else {
        panic!("{events:?}")
    };
    assert_eq!(*route, ObjectKey::new(Kind::HTTPRoute, NamespacedName::new("shop", "cart")));
    assert_eq!(text.len(), LONGEST_TEXT - 1, "cut between characters");
    assert!(read.events(&read).is_empty(), "once is enough");
    let whole = report(&[refused(listener(), 3, Part::Whole, "no")]);
    let gateway = Subject::Gateway(NamespacedName::new("infra", "edge"));
    assert_eq!(
        whole.refusals.first().unwrap().refused(),
        [Refused { subject: gateway, content: 3, text: "no".into() }]
    );
}

#[test]
fn words_of_another_version_are_passed_over() {
    let later = r#"{"programmed": ["u"], "weather": "fine", "refusals": [{"namespace": "a", "gateway": "b", "resource": "?",
        "name": "n", "version": "zz", "text": "t"}]}"#;
    let report: Report = serde_json::from_str(later).unwrap();
    assert!(report.programmed.contains("u"));
    assert!(report.events(&Report::default()).is_empty());
}

#[test]
fn one_text_for_one_content_whoever_tells_it_first() {
    let one = report(&[refused(listener(), 3, Part::Whole, "b")]);
    let two = report(&[refused(listener(), 3, Part::Whole, "a"), refused(listener(), 4, Part::Whole, "c")]);
    let merged = Report::merge([&one, &two]);
    assert_eq!(merged, Report::merge([&two, &one]));
    assert_eq!(merged.refusals.iter().map(|one| &*one.text).collect::<Vec<_>>(), ["a", "c"]);
}

#[test]
fn a_listener_is_taken_when_no_replica_says_otherwise() {
    let refusing = report(&[refused(listener(), 3, Part::Whole, "port in use")]);
    let mut other = Own::default();
    other.hear(&refused(listener(), 3, Part::Whole, "port in use"), None);
    let both = Report::merge([&refusing, other.report()]);
    other.hear(&Transition::RefusalCleared { fleet: FleetName::new("infra/edge"), key: listener() }, None);
    let one = Report::merge([&refusing, other.report()]);
    assert!(one.events(&both).is_empty());
    let none = Report::merge([other.report()]);
    assert!(matches!(&none.events(&one)[..], [Event::Taken { listener: key, .. }] if *key == listener()));
}

#[test]
fn content_stays_refused_when_the_replica_that_heard_it_ends() {
    let refusing = report(&[refused(table(), 3, Part::Unit(Version(7)), "no")]);
    assert!(Report::default().events(&refusing).is_empty());
}

#[test]
fn what_the_engine_has_forgotten_leaves_the_report() {
    let mut own = Own::default();
    own.hear(&refused(table(), 3, Part::Unit(Version(7)), "no"), None);
    own.hear(&refused(table(), 3, Part::Unit(Version(8)), "no"), None);
    own.keep(|refused| refused.content == 8);
    assert_eq!(own.report().refusals.len(), 1);
}

#[test]
fn streams_are_counted_by_gateway() {
    let (uid, fleet): (Arc<str>, _) = ("u".into(), FleetName::new("infra/edge"));
    let (mut own, stream) = (Own::default(), portolan_xds::StreamId(1));
    own.hear(&Transition::StreamOpened { fleet: fleet.clone(), stream }, Some(&uid));
    own.hear(&Transition::StreamClosed { fleet: fleet.clone(), stream, remaining: 1 }, Some(&uid));
    assert!(own.report().connected.contains(&uid));
    own.hear(&Transition::StreamClosed { fleet, stream, remaining: 0 }, Some(&uid));
    own.programmed(&uid);
    assert_eq!((own.report().connected.len(), own.report().programmed.len()), (0, 1));
    own.gone(&uid);
    assert_eq!(*own.report(), Report::default());
}

#[test]
fn a_report_stays_below_what_an_object_may_have() {
    let mut own = Own::default();
    for version in 0..10_000 {
        own.hear(&refused(table(), version, Part::Unit(Version(version)), &"x".repeat(4_096)), None);
    }
    assert!(serde_json::to_string(own.report()).unwrap().len() < 700_000);
}
