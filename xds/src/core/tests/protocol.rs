//! Rules of the delta protocol (xds_protocol, discovery.proto) and of answering what does not exist.

use std::time::Duration;

use portolan_proto::ResourceType::{Cluster, Endpoints, Extension, Listener, Route, Secret};

use super::client::*;
use crate::core::event::Event;
use crate::core::limits::{Limits, Reset};

#[test]
fn a_first_request_for_all_is_answered_even_when_there_is_nothing() {
    let mut bench = Bench::new(Vec::new());
    assert_eq!(summary(&bench.request(subscribe(Cluster, &[]))), [sent(Cluster, &[], &[])]);
    assert_eq!(summary(&bench.request(subscribe(Listener, &["*"]))), [sent(Listener, &[], &[])]);
    assert!(bench.request(subscribe(Endpoints, &[])).is_empty(), "endpoints have no wildcard by omission");
}

#[test]
fn names_alone_are_no_wildcard() {
    let mut bench = Bench::new(vec![set(resource(Cluster, "a", 1, &[])), set(resource(Cluster, "b", 1, &[]))]);
    let first = bench.request(subscribe(Cluster, &["a"]));
    assert_eq!(summary(&first), [sent(Cluster, &["a"], &[])]);
    bench.accept_all(first);
    assert!(bench.publish(vec![set(resource(Cluster, "b", 2, &[]))]).is_empty());
    let all = bench.request(subscribe(Cluster, &["*"]));
    assert_eq!(summary(&all), [sent(Cluster, &["b"], &[])], "what is there already is not sent again");
    bench.accept_all(all);
    assert_eq!(summary(&bench.request(unsubscribe(Cluster, &["*"]))), []);
    assert_eq!(summary(&bench.publish(vec![set(resource(Cluster, "b", 3, &[]))])), []);
    assert_eq!(summary(&bench.publish(vec![set(resource(Cluster, "a", 2, &[]))])), [sent(Cluster, &["a"], &[])]);
}

#[test]
fn unsubscribing_from_a_name_under_the_wildcard_is_answered() {
    let mut bench = Bench::new(vec![set(resource(Cluster, "a", 1, &[]))]);
    let first = bench.request(subscribe(Cluster, &["*", "a", "none"]));
    assert_eq!(summary(&first), [sent(Cluster, &["a"], &["none"])]);
    bench.accept_all(first);
    let answer = bench.request(unsubscribe(Cluster, &["a", "none", "phantom"]));
    assert_eq!(summary(&answer), [sent(Cluster, &["a"], &["none"])]);
}

#[test]
fn subscribing_again_sends_again_under_another_wire_version() {
    let mut bench = Bench::new(vec![set(resource(Endpoints, "e", 7, &[]))]);
    let first = bench.request(subscribe(Endpoints, &["e"]));
    bench.accept(&first[0]);
    let again = bench.request(subscribe(Endpoints, &["e"]));
    assert_eq!(summary(&again), [sent(Endpoints, &["e"], &[])]);
    let (first, again) = (&first[0].resources[0].version, &again[0].resources[0].version);
    assert_eq!(again, &format!("{first}+g1"));
}

#[test]
fn a_stale_nonce_answers_nothing_but_its_names_count() {
    let mut bench = Bench::new(vec![set(resource(Endpoints, "e", 1, &[])), set(resource(Endpoints, "f", 1, &[]))]);
    let first = bench.request(subscribe(Endpoints, &["e"])).remove(0);
    let mut stale = subscribe(Endpoints, &["f"]);
    stale.response_nonce = "999".into();
    assert!(bench.request(stale).is_empty(), "the first response is still outstanding");
    assert_eq!(summary(&bench.accept(&first)), [sent(Endpoints, &["f"], &[])]);
    assert!(bench.accept(&first).is_empty(), "an answer counts once");
}

#[test]
fn subscribe_comes_before_unsubscribe_in_one_request() {
    let mut bench = Bench::new(vec![set(resource(Endpoints, "e", 1, &[]))]);
    let mut both = subscribe(Endpoints, &["e"]);
    both.resource_names_unsubscribe = vec!["e".into()];
    assert!(bench.request(both).is_empty());
}

#[test]
fn missing_endpoints_and_secrets_are_answered_by_removal_and_remembered() {
    let mut bench = Bench::new(Vec::new());
    let first = bench.request(subscribe(Endpoints, &["e"]));
    assert_eq!(summary(&first), [sent(Endpoints, &[], &["e"])]);
    bench.accept_all(first);
    let secret = bench.request(subscribe(Secret, &["s"]));
    assert_eq!(summary(&secret), [sent(Secret, &[], &["s"])]);
    bench.accept_all(secret);
    let later = bench.publish(vec![set(resource(Endpoints, "e", 1, &[])), set(resource(Secret, "s", 1, &[]))]);
    assert_eq!(summary(&later), [sent(Endpoints, &["e"], &[]), sent(Secret, &["s"], &[])]);
}

#[test]
fn a_missing_table_is_an_empty_one_and_a_missing_extension_is_reported() {
    let mut bench = Bench::new(Vec::new());
    let table = bench.request(subscribe(Route, &["t"]));
    assert_eq!(summary(&table), [sent(Route, &["t"], &[])]);
    bench.accept_all(table);
    assert!(bench.request(subscribe(Extension, &["x"])).is_empty());
    let missing: Vec<_> = bench.events().into_iter().filter(|event| matches!(event, Event::Missing { .. })).collect();
    let expected = [(Route, "t"), (Extension, "x")].map(|(kind, name)| Event::Missing { key: key(kind, name) });
    assert_eq!(missing, expected);
    let later = bench.publish(vec![set(resource(Route, "t", 1, &[])), set(resource(Extension, "x", 1, &[]))]);
    assert_eq!(summary(&later), [sent(Route, &["t"], &[]), sent(Extension, &["x"], &[])]);
}

#[test]
fn tables_and_extensions_are_never_removed() {
    let mut bench = Bench::new(vec![set(resource(Route, "t", 1, &[])), set(resource(Extension, "x", 1, &[]))]);
    let first = [bench.request(subscribe(Route, &["t"])), bench.request(subscribe(Extension, &["x"]))].concat();
    bench.accept_all(first);
    assert!(bench.publish(vec![gone(Route, "t"), gone(Extension, "x")]).is_empty());
    let back = bench.publish(vec![set(resource(Route, "t", 1, &[])), set(resource(Extension, "x", 2, &[]))]);
    assert_eq!(summary(&back), [sent(Extension, &["x"], &[])], "the table is there still");
}

#[test]
fn a_held_secret_is_answered_by_removal_also_while_in_use() {
    let uses = [key(Secret, "s")];
    let mut bench = Bench::new(vec![
        set(resource(Cluster, "c", 1, &uses)),
        set(held(Secret, "s", 0)),
        set(resource(Secret, "good", 1, &[])),
    ]);
    let clusters = bench.request(subscribe(Cluster, &[]));
    bench.accept_all(clusters);
    let first = bench.request(subscribe(Secret, &["s", "good"]));
    assert_eq!(summary(&first), [sent(Secret, &["good"], &[]), sent(Secret, &[], &["s"])]);
    bench.accept_all(first);
    let healed = bench.publish(vec![set(resource(Secret, "s", 1, &[]))]);
    assert_eq!(summary(&healed), [sent(Secret, &["s"], &[])]);
    bench.accept_all(healed);
    let held = bench.publish(vec![set(held(Secret, "s", 1))]);
    assert_eq!(summary(&held), [sent(Secret, &[], &["s"])]);
}

#[test]
fn one_response_is_outstanding_per_type_and_the_newest_state_wins() {
    let mut bench = Bench::new(vec![set(resource(Endpoints, "e", 1, &[]))]);
    let first = bench.request(subscribe(Endpoints, &["e"])).remove(0);
    for version in 2..50 {
        assert!(bench.publish(vec![set(resource(Endpoints, "e", version, &[]))]).is_empty());
    }
    let next = bench.accept(&first);
    assert_eq!(next[0].resources[0].message.as_ref(), 49_u128.to_be_bytes());
    assert!(bench.accept(&next[0]).is_empty());
}

#[test]
fn what_changed_back_in_between_is_not_sent() {
    let mut bench = Bench::new(vec![set(resource(Endpoints, "e", 1, &[])), set(resource(Endpoints, "f", 1, &[]))]);
    let first = bench.request(subscribe(Endpoints, &["e", "f"]));
    bench.accept_all(first);
    let busy = bench.publish(vec![set(resource(Endpoints, "f", 2, &[]))]).remove(0);
    bench.publish(vec![set(resource(Endpoints, "e", 2, &[]))]);
    bench.publish(vec![set(resource(Endpoints, "e", 1, &[]))]);
    assert!(bench.accept(&busy).is_empty());
}

#[test]
fn big_types_go_in_chunks_one_after_the_other() {
    let limits = Limits { response_bytes: 40, ..Limits::default() };
    let names: Vec<_> = (0..10).map(|index| format!("c{index}")).collect();
    let clusters = names.iter().map(|name| set(resource(Cluster, name, 1, &[]))).collect();
    let mut bench = Bench::with(limits, clusters);
    let first = bench.request(subscribe(Cluster, &[]));
    assert_eq!(first.len(), 1);
    let all = bench.accept_all(first);
    assert_eq!(all.iter().map(|response| response.resources.len()).collect::<Vec<_>>(), [3, 3, 3, 1]);
}

#[test]
fn resuming_sends_what_differs_and_removes_what_vanished() {
    let mut bench = Bench::new(vec![
        set(resource(Cluster, "same", 1, &[])),
        set(resource(Cluster, "changed", 2, &[])),
        set(resource(Cluster, "new", 1, &[])),
        set(resource(Route, "t", 5, &[])),
        set(resource(Route, "u", 5, &[])),
    ]);
    let clusters = bench.request(resume(Cluster, &[], &[("same", 1), ("changed", 1), ("vanished", 1)]));
    assert_eq!(
        summary(&bench.accept_all(clusters)),
        [sent(Cluster, &["changed", "new"], &[]), sent(Cluster, &[], &["vanished"])]
    );
    let tables = bench.request(resume(Route, &["t", "u"], &[("t", 5), ("u", 4)]));
    assert_eq!(summary(&tables), [sent(Route, &["u"], &[])]);
}

#[test]
fn resuming_answers_endpoints_and_secrets_once_although_the_version_matches() {
    let mut bench = Bench::new(vec![set(resource(Endpoints, "e", 3, &[])), set(resource(Secret, "s", 3, &[]))]);
    let mut request = resume(Endpoints, &["e"], &[]);
    request.initial_resource_versions.insert("e".into(), format!("{}+g9", portolan_proto::Version(3)));
    let endpoints = bench.request(request);
    assert_eq!(summary(&endpoints), [sent(Endpoints, &["e"], &[])]);
    assert!(endpoints[0].resources[0].version.ends_with("+g1"));
    let secrets = bench.request(resume(Secret, &["s"], &[("s", 3)]));
    assert_eq!(summary(&secrets), [sent(Secret, &["s"], &[])]);
    let all = [endpoints, secrets].concat();
    assert_eq!(bench.accept_all(all).len(), 2, "once");
}

#[test]
fn resuming_in_step_answers_the_wildcard_with_nothing() {
    let mut bench = Bench::new(vec![set(resource(Cluster, "same", 1, &[]))]);
    let answer = bench.request(resume(Cluster, &[], &[("same", 1)]));
    assert_eq!(summary(&answer), [sent(Cluster, &[], &[])]);
}

#[test]
fn a_stream_without_answer_is_reset_after_a_minute() {
    let mut bench = Bench::new(vec![set(resource(Cluster, "a", 1, &[]))]);
    bench.request(subscribe(Cluster, &[]));
    bench.later(Duration::from_secs(59));
    assert!(bench.poll().is_empty());
    bench.later(Duration::from_secs(1));
    assert_eq!(bench.fleet.poll(ID, bench.now), Err(Reset::NoAnswer(Cluster)));
}

#[test]
fn subscriptions_are_bounded() {
    let mut bench = Bench::with(Limits { subscriptions: 3, name_bytes: 10, ..Limits::default() }, Vec::new());
    bench.request(subscribe(Endpoints, &["a", "b"]));
    let (now, id) = (bench.now, ID);
    let more = subscribe(Secret, &["c", "d"]);
    assert_eq!(bench.fleet.on_request(id, more, now), Err(Reset::TooManyNames));
    let long = subscribe(Secret, &["a name that is too long"]);
    assert_eq!(bench.fleet.on_request(id, long, now), Err(Reset::TooManyNames));
}

#[test]
fn an_unknown_type_is_no_error() {
    let mut bench = Bench::new(Vec::new());
    let request = portolan_proto::envoy::discovery::DeltaDiscoveryRequest {
        type_url: "type.googleapis.com/envoy.service.runtime.v3.Runtime".into(),
        ..Default::default()
    };
    assert!(bench.request(request).is_empty());
    assert!(matches!(bench.events()[..], [Event::UnknownType { .. }]));
}

#[test]
fn acknowledged_is_what_some_proxy_has_accepted_and_nothing_is_told_twice() {
    let acked = |bench: &mut Bench| -> Vec<(u64, bool)> {
        let pick = |event| if let Event::Acked { position, first } = event { Some((position, first)) } else { None };
        bench.events().into_iter().filter_map(pick).collect()
    };
    let mut bench = Bench::new(vec![set(resource(Cluster, "c", 1, &[])), set(resource(Listener, "l", 1, &[]))]);
    let cluster = bench.request(subscribe(Cluster, &[])).remove(0);
    bench.accept(&cluster);
    assert_eq!(acked(&mut bench), [], "listeners have not been asked for");
    let listener = bench.request(subscribe(Listener, &[])).remove(0);
    bench.accept(&listener);
    assert_eq!(acked(&mut bench), [(2, true)]);
    let first = bench.publish(vec![set(resource(Cluster, "c", 2, &[]))]).remove(0);
    bench.publish(vec![set(resource(Cluster, "c", 3, &[]))]);
    let second = bench.accept(&first).remove(0);
    assert_eq!(acked(&mut bench), [(3, false)], "the first of two changes");
    bench.accept(&second);
    assert_eq!(acked(&mut bench), [(4, false)]);
}
