//! Make before break, one rule at a time.

use portolan_proto::ResourceType::{Cluster, Endpoints, Listener, Route, Scope, Secret};

use super::client::*;

/// A proxy in step: listener `l` with table `t`, cluster `c` with endpoints `c`.
fn running() -> Bench {
    let mut bench = Bench::new(vec![
        set(resource(Cluster, "c", 1, &[key(Endpoints, "c")])),
        set(resource(Endpoints, "c", 1, &[])),
        set(resource(Route, "t", 1, &[key(Cluster, "c")])),
        set(resource(Listener, "l", 1, &[key(Route, "t")])),
    ]);
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
    assert!(bench.poll().is_empty());
    bench
}

#[test]
fn endpoints_and_secrets_follow_a_cluster_at_once() {
    let mut bench = running();
    let secret = bench.request(subscribe(Secret, &["s"]));
    bench.accept_all(secret);
    let cluster = resource(Cluster, "c", 2, &[key(Endpoints, "c"), key(Secret, "s")]);
    let responses = bench.publish(vec![set(cluster)]);
    assert_eq!(
        summary(&responses),
        [sent(Cluster, &["c"], &[]), sent(Endpoints, &["c"], &[]), sent(Secret, &[], &["s"])],
        "before the cluster is acknowledged"
    );
}

#[test]
fn endpoints_on_their_way_follow_the_cluster_again() {
    let mut bench = running();
    let endpoints = bench.publish(vec![set(resource(Endpoints, "c", 2, &[]))]).remove(0);
    let cluster = bench.publish(vec![set(resource(Cluster, "c", 2, &[key(Endpoints, "c")]))]);
    assert_eq!(summary(&cluster), [sent(Cluster, &["c"], &[])]);
    assert_eq!(summary(&bench.accept(&endpoints)), [sent(Endpoints, &["c"], &[])], "they came before the cluster");
}

#[test]
fn endpoints_do_not_wait_for_clusters() {
    let mut bench = running();
    bench.publish(vec![set(resource(Cluster, "d", 1, &[]))]);
    let endpoints = bench.publish(vec![set(resource(Endpoints, "c", 2, &[]))]);
    assert_eq!(summary(&endpoints), [sent(Endpoints, &["c"], &[])]);
}

#[test]
fn secrets_follow_a_listener() {
    let mut bench = running();
    bench.publish(vec![set(resource(Secret, "s", 1, &[]))]);
    let secret = bench.request(subscribe(Secret, &["s"]));
    bench.accept_all(secret);
    let listener = resource(Listener, "l", 2, &[key(Route, "t"), key(Secret, "s")]);
    let responses = bench.publish(vec![set(listener)]);
    assert_eq!(summary(&responses), [sent(Listener, &["l"], &[]), sent(Secret, &["s"], &[])]);
}

#[test]
fn a_table_waits_for_new_clusters_and_a_listener_for_its_table() {
    let mut bench = running();
    let first = bench.publish(vec![
        set(resource(Cluster, "d", 1, &[])),
        set(resource(Route, "t", 2, &[key(Cluster, "c"), key(Cluster, "d")])),
        set(resource(Listener, "l", 2, &[key(Route, "t")])),
    ]);
    assert_eq!(summary(&first), [sent(Cluster, &["d"], &[])]);
    let second = bench.accept(&first[0]);
    assert_eq!(summary(&second), [sent(Route, &["t"], &[])]);
    assert_eq!(summary(&bench.accept(&second[0])), [sent(Listener, &["l"], &[])]);
}

#[test]
fn what_does_not_name_the_waiting_cluster_goes_on() {
    let mut bench = running();
    bench.publish(vec![set(resource(Cluster, "d", 1, &[]))]);
    let table = bench.publish(vec![set(resource(Route, "t", 2, &[key(Cluster, "c")]))]);
    assert_eq!(summary(&table), [sent(Route, &["t"], &[])]);
}

#[test]
fn a_cluster_goes_when_the_table_that_names_it_has_gone() {
    let mut bench = running();
    let first = bench.publish(vec![
        set(resource(Cluster, "d", 1, &[])),
        set(resource(Route, "t", 2, &[key(Cluster, "d")])),
        gone(Cluster, "c"),
        gone(Endpoints, "c"),
    ]);
    assert_eq!(summary(&first), [sent(Cluster, &["d"], &[])]);
    let second = bench.accept(&first[0]);
    assert_eq!(summary(&second), [sent(Route, &["t"], &[])]);
    let third = bench.accept(&second[0]);
    assert_eq!(summary(&third), [sent(Cluster, &[], &["c"])]);
    assert_eq!(summary(&bench.accept(&third[0])), [sent(Endpoints, &[], &["c"])]);
}

#[test]
fn a_table_on_its_way_keeps_the_cluster_it_names() {
    let mut bench = running();
    let first = bench.publish(vec![set(resource(Cluster, "d", 1, &[]))]);
    bench.accept_all(first);
    let table = bench.publish(vec![set(resource(Route, "t", 2, &[key(Cluster, "d")]))]).remove(0);
    assert!(bench.publish(vec![set(resource(Route, "t", 3, &[key(Cluster, "c")])), gone(Cluster, "d")]).is_empty());
    let next = bench.accept(&table);
    assert_eq!(summary(&next), [sent(Route, &["t"], &[])]);
    assert_eq!(summary(&bench.accept(&next[0])), [sent(Cluster, &[], &["d"])]);
}

#[test]
fn a_cluster_that_comes_back_while_it_goes_is_sent_before_the_table() {
    let mut bench = running();
    let added = bench.publish(vec![set(resource(Cluster, "d", 1, &[]))]);
    bench.accept_all(added);
    let removal = bench.publish(vec![gone(Cluster, "d")]).remove(0);
    let table = set(resource(Route, "t", 2, &[key(Cluster, "d")]));
    assert!(bench.publish(vec![set(resource(Cluster, "d", 1, &[])), table]).is_empty());
    let again = bench.accept(&removal);
    assert_eq!(summary(&again), [sent(Cluster, &["d"], &[])]);
    assert_eq!(summary(&bench.accept(&again[0])), [sent(Route, &["t"], &[])]);
}

#[test]
fn what_a_reconnecting_proxy_may_be_using_stays_until_it_is_replaced() {
    let mut bench =
        Bench::new(vec![set(resource(Cluster, "new", 1, &[])), set(resource(Route, "t", 2, &[key(Cluster, "new")]))]);
    let clusters = bench.request(resume(Cluster, &[], &[("old", 1)]));
    assert_eq!(summary(&clusters), [sent(Cluster, &["new"], &[])], "the tables it has are not known yet");
    assert!(bench.request(resume(Route, &["t"], &[("t", 1)])).is_empty());
    let table = bench.accept(&clusters[0]);
    assert_eq!(summary(&table), [sent(Route, &["t"], &[])], "its old content might name the old cluster");
    assert_eq!(summary(&bench.accept(&table[0])), [sent(Cluster, &[], &["old"])]);
}

#[test]
fn a_reconnecting_proxy_with_nothing_but_removals_due_is_answered_and_then_cleaned() {
    let mut bench = Bench::new(Vec::new());
    let clusters = bench.request(resume(Cluster, &[], &[("old", 1)]));
    assert_eq!(summary(&clusters), [sent(Cluster, &[], &[])]);
    assert_eq!(summary(&bench.accept(&clusters[0])), [sent(Cluster, &[], &["old"])]);
}

#[test]
fn listeners_go_together_with_the_update_that_replaces_them() {
    let mut bench = running();
    let first = bench.publish(vec![
        set(resource(Cluster, "d", 1, &[])),
        set(resource(Listener, "m", 1, &[key(Cluster, "d")])),
        gone(Listener, "l"),
    ]);
    assert_eq!(summary(&first), [sent(Cluster, &["d"], &[])]);
    assert_eq!(summary(&bench.accept(&first[0])), [sent(Listener, &["m"], &["l"])]);
}

#[test]
fn scopes_come_before_listeners_and_go_after_them() {
    let mut bench = running();
    let first = bench.publish(vec![
        set(resource(Scope, "s", 1, &[key(Cluster, "c")])),
        set(resource(Listener, "l", 2, &[key(Route, "t")])),
    ]);
    assert_eq!(summary(&first), [sent(Scope, &["s"], &[])]);
    let second = bench.accept(&first[0]);
    assert_eq!(summary(&second), [sent(Listener, &["l"], &[])]);
    assert!(bench.publish(vec![gone(Scope, "s")]).is_empty(), "the listener is not acknowledged");
    assert_eq!(summary(&bench.accept(&second[0])), [sent(Scope, &[], &["s"])]);
}
