//! A replica that is cut off only helps (design invariant 17).

use portolan_proto::ResourceType::{Cluster, Endpoints, Extension, Listener, Route, Scope, Secret};

use super::client::*;
use crate::core::event::Event;
use crate::core::stream::StreamState;
use crate::transition::StreamId;

/// Listener `l` with table `t`, cluster `c` with endpoints `c`.
fn world() -> Vec<portolan_proto::Change> {
    vec![
        set(resource(Cluster, "c", 1, &[key(Endpoints, "c")])),
        set(resource(Endpoints, "c", 1, &[])),
        set(resource(Route, "t", 1, &[key(Cluster, "c")])),
        set(resource(Listener, "l", 1, &[key(Route, "t")])),
    ]
}

/// A proxy in step with it.
fn running() -> Bench {
    let mut bench = Bench::new(world());
    for request in [
        subscribe(Cluster, &[]),
        subscribe(Endpoints, &["c"]),
        subscribe(Scope, &[]),
        subscribe(Listener, &[]),
        subscribe(Route, &["t"]),
    ] {
        let responses = bench.request(request);
        bench.accept_all(responses);
    }
    bench.events();
    bench
}

/// Everything that a fresh replica sends from now on.
fn caught_up(bench: &mut Bench) -> Vec<Sent> {
    bench.fleet.set_cut_off(false);
    let responses = bench.poll();
    summary(&bench.accept_all(responses))
}

#[test]
fn nothing_is_changed_added_or_removed_until_it_is_known_what_goes_on() {
    let mut bench = running();
    bench.fleet.set_cut_off(true);
    let changes = vec![
        set(resource(Cluster, "d", 1, &[])),
        set(resource(Endpoints, "c", 2, &[])),
        set(resource(Route, "t", 2, &[key(Cluster, "d")])),
        gone(Cluster, "c"),
        set(resource(Listener, "m", 1, &[key(Route, "t")])),
    ];
    assert_eq!(summary(&bench.publish(changes)), []);
    assert_eq!(summary(&bench.poll()), []);
    assert_eq!(bench.fleet.stream_state(ID), Some(StreamState::Syncing), "something waits");
    assert!(!bench.events().iter().any(|event| matches!(event, Event::Acked { .. })), "nothing is accepted");

    assert_eq!(
        caught_up(&mut bench),
        [
            sent(Cluster, &["d"], &[]),
            sent(Endpoints, &["c"], &[]),
            sent(Route, &["t"], &[]),
            sent(Cluster, &[], &["c"]),
            sent(Listener, &["m"], &[]),
        ]
    );
    let acked = bench.events().into_iter().filter_map(|event| match event {
        Event::Acked { position, .. } => Some(position),
        _ => None,
    });
    assert_eq!(acked.max(), Some(9));
}

#[test]
fn what_waits_when_it_is_cut_off_goes_on_waiting() {
    let mut bench = running();
    let first = bench.publish(vec![set(resource(Endpoints, "c", 2, &[]))]);
    assert_eq!(bench.publish(vec![set(resource(Endpoints, "c", 3, &[]))]), [], "one at a time");
    bench.fleet.set_cut_off(true);
    assert_eq!(bench.accept(&first[0]), []);
    assert_eq!(caught_up(&mut bench), [sent(Endpoints, &["c"], &[])]);
}

/// It has something older or newer, had something that is no more, and was told of the end of something that still is, here.
#[test]
fn a_proxy_that_comes_with_what_it_has_keeps_it() {
    let mut bench = Bench::new(world());
    bench.fleet.publish(vec![
        set(resource(Cluster, "revoked", 1, &[])),
        set(resource(Listener, "revoked", 1, &[key(Cluster, "revoked")])),
        set(resource(Secret, "same", 1, &[])),
        set(resource(Secret, "other", 1, &[])),
        set(held(Secret, "held", 1)),
        set(resource(Extension, "x", 1, &[])),
    ]);
    bench.fleet.set_cut_off(true);
    let mut answers = Vec::new();
    for request in [
        resume(Cluster, &[], &[("c", 2), ("new", 1)]),
        resume(Endpoints, &["c", "new"], &[("c", 2), ("new", 1)]),
        resume(Secret, &["same", "other", "held"], &[("same", 1), ("other", 2), ("held", 2)]),
        resume(Listener, &[], &[("l", 2)]),
        resume(Route, &["t"], &[("t", 2)]),
        resume(Extension, &["x"], &[("x", 2)]),
    ] {
        let responses = bench.request(request);
        answers.extend(bench.accept_all(responses));
    }
    assert_eq!(
        summary(&answers),
        [sent(Cluster, &[], &[]), sent(Secret, &["same"], &[]), sent(Listener, &[], &[])],
        "an empty answer to who asks for all, and once more what is the same"
    );
    let later = caught_up(&mut bench);
    let names = |kind, pick: fn(&Sent) -> &Vec<String>| -> Vec<String> {
        let mut names: Vec<_> =
            later.iter().filter(|sent| sent.0 == kind).flat_map(|sent| pick(sent).clone()).collect();
        names.sort();
        names
    };
    assert_eq!(names(Cluster, |sent| &sent.1), ["c", "revoked"]);
    assert_eq!(names(Cluster, |sent| &sent.2), ["new"]);
    assert_eq!(
        (names(Endpoints, |sent| &sent.1), names(Endpoints, |sent| &sent.2)),
        (vec!["c".into()], vec!["new".into()])
    );
    assert_eq!(
        (names(Secret, |sent| &sent.1), names(Secret, |sent| &sent.2)),
        (vec!["other".into()], vec!["held".into()])
    );
    assert_eq!(names(Listener, |sent| &sent.1), ["l", "revoked"]);
    assert_eq!((names(Route, |sent| &sent.1), names(Extension, |sent| &sent.1)), (vec!["t".into()], vec!["x".into()]));
}

#[test]
fn what_it_asks_for_and_lacks_it_gets_with_what_that_names() {
    let mut bench = Bench::new(world());
    bench.fleet.publish(vec![
        set(resource(Cluster, "d", 1, &[key(Cluster, "e")])),
        set(resource(Cluster, "e", 1, &[])),
        set(resource(Cluster, "unused", 1, &[])),
        set(resource(Route, "asked", 1, &[key(Cluster, "d")])),
        set(held(Secret, "held", 1)),
    ]);
    bench.fleet.set_cut_off(true);
    for request in [resume(Cluster, &[], &[("c", 2)]), resume(Listener, &[], &[("l", 2)])] {
        let responses = bench.request(request);
        bench.accept_all(responses);
    }
    let tables = bench.request(resume(Route, &["t", "asked", "nowhere"], &[("t", 2)]));
    assert_eq!(summary(&tables), [sent(Cluster, &["d", "e"], &[]), sent(Route, &["nowhere"], &[])]);
    assert_eq!(summary(&bench.accept_all(tables)[2..]), [sent(Route, &["asked"], &[])], "after its clusters");
    let rest = [bench.request(subscribe(Endpoints, &["c", "nowhere"])), bench.request(subscribe(Secret, &["held"]))];
    assert_eq!(
        summary(&rest.concat()),
        [sent(Endpoints, &["c"], &["nowhere"]), sent(Secret, &[], &["held"])],
        "also that there is none: else it waits for 15 s"
    );
}

#[test]
fn a_new_proxy_gets_everything_as_it_was_last() {
    let mut bench = Bench::new(world());
    bench.fleet.set_cut_off(true);
    let mut answers = Vec::new();
    for request in [
        subscribe(Cluster, &[]),
        subscribe(Endpoints, &["c"]),
        subscribe(Listener, &[]),
        subscribe(Route, &["t"]),
        subscribe(Scope, &[]),
    ] {
        let responses = bench.request(request);
        answers.extend(bench.accept_all(responses));
    }
    assert_eq!(
        summary(&answers),
        [
            sent(Cluster, &["c"], &[]),
            sent(Endpoints, &["c"], &[]),
            sent(Listener, &["l"], &[]),
            sent(Route, &["t"], &[]),
            sent(Scope, &[], &[]),
        ]
    );
    assert_eq!(bench.fleet.stream_state(ID), Some(StreamState::InStep));
    assert!(bench.events().iter().any(|event| matches!(event, Event::Acked { position: 4, .. })));
    let more = vec![set(resource(Listener, "m", 1, &[])), set(resource(Cluster, "c", 2, &[]))];
    assert_eq!(bench.publish(more), [], "now it has a configuration");
}

/// One whose first stream ended before it had listeners.
#[test]
fn a_proxy_without_listeners_gets_the_rest_of_its_first_configuration() {
    let mut bench = Bench::new(world());
    bench.fleet.publish(vec![set(resource(Cluster, "d", 1, &[])), set(resource(Scope, "s", 1, &[key(Cluster, "d")]))]);
    bench.fleet.set_cut_off(true);
    let clusters = bench.request(resume(Cluster, &[], &[("c", 1)]));
    assert_eq!(summary(&bench.accept_all(clusters)), [sent(Cluster, &[], &[])], "it may serve with what it has");
    let scopes = bench.request(subscribe(Scope, &[]));
    assert_eq!(summary(&scopes), [sent(Cluster, &["d"], &[])]);
    bench.accept_all(scopes);
    let listeners = bench.request(subscribe(Listener, &[]));
    assert_eq!(summary(&bench.accept_all(listeners)), [sent(Listener, &["l"], &[])]);
}

#[test]
fn the_culprit_in_a_first_configuration_is_found_all_the_same() {
    let clusters = (0..4).map(|index| set(resource(Cluster, &format!("c{index}"), 1, &[]))).collect();
    let mut bench = Bench::new(clusters);
    bench.fleet.set_cut_off(true);
    let mut queue = std::collections::VecDeque::from(bench.request(subscribe(Cluster, &[])));
    let mut accepted = Vec::new();
    while let Some(response) = queue.pop_front() {
        let names: Vec<_> = response.resources.iter().map(|resource| resource.name.to_string()).collect();
        if names.iter().any(|name| name == "c2") {
            queue.extend(bench.refuse(&response, "no"));
        } else {
            queue.extend(bench.accept(&response));
            accepted.extend(names);
        }
    }
    accepted.sort();
    assert_eq!(accepted, ["c0", "c1", "c3"]);
}

#[test]
fn streams_fall_behind_no_log_while_nothing_is_sent() {
    let mut bench = running();
    bench.fleet.open(StreamId(2));
    bench.fleet.set_cut_off(true);
    for version in 2..3 * portolan_proto::Snapshot::LOG_LIMIT as u128 {
        bench.fleet.publish(vec![set(resource(Endpoints, "c", version, &[]))]);
    }
    assert_eq!(bench.poll(), []);
    assert_eq!(caught_up(&mut bench), [sent(Endpoints, &["c"], &[])]);
}
