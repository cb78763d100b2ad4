//! Refused responses: the culprit is found, told once, not sent again, and holds nothing else up.

use std::sync::Arc;

use portolan_proto::ResourceType::{Cluster, Listener, Route, Scope, Secret};
use portolan_proto::envoy::route;
use portolan_proto::{Body, Content, DeltaResponse, HostTable, Origin, Part, Resource, Unit, Version, VirtualHostBody};
use prost::Message;

use super::client::*;
use crate::core::event::Event;
use crate::core::stream::StreamState;
use crate::transition::StreamId;
use portolan_proto::PROBE_TABLE;

/// (resource, version of the part, text) of each culprit told of.
fn refused(bench: &mut Bench) -> Vec<(String, Option<Version>, String)> {
    let events = bench.events().into_iter();
    let version = |part| match part {
        Part::Whole => None,
        Part::Host(_, version) | Part::Unit(version) => Some(version),
    };
    events
        .filter_map(|event| match event {
            Event::Refused { key, part, text, .. } => Some((key.name.to_string(), version(part), text)),
            _ => None,
        })
        .collect()
}

/// Answers as a proxy that refuses any response with a name in `bad`; everything that was sent.
fn answer_all(bench: &mut Bench, responses: Vec<DeltaResponse>, bad: &[&str]) -> Vec<Vec<String>> {
    let mut queue = std::collections::VecDeque::from(responses);
    let mut seen = Vec::new();
    while let Some(response) = queue.pop_front() {
        let names: Vec<_> = response.resources.iter().map(|resource| resource.name.to_string()).collect();
        let culprit = names.iter().find(|name| bad.contains(&name.as_str()));
        queue.extend(match culprit {
            Some(name) => bench.refuse(&response, &format!("no {name}")),
            None => bench.accept(&response),
        });
        seen.push(names);
        assert!(seen.len() < 1_000, "refusals spin");
    }
    seen
}

#[test]
fn the_culprit_of_many_is_found_and_the_rest_is_served() {
    let names: Vec<_> = (0..9).map(|index| format!("c{index}")).collect();
    let changes = names.iter().map(|name| set(resource(Cluster, name, 1, &[]))).collect();
    let mut bench = Bench::new(changes);
    let first = bench.request(subscribe(Cluster, &[]));
    let sent_names = answer_all(&mut bench, first, &["c3", "c7"]);
    assert_eq!(refused(&mut bench), [("c3".into(), None, "no c3".into()), ("c7".into(), None, "no c7".into())]);
    let alone = |name: &str| sent_names.iter().filter(|names| names[..] == [name.to_string()]).count();
    assert_eq!((alone("c3"), alone("c7")), (1, 1), "refused content is not sent again");
    for name in ["c0", "c1", "c2", "c4", "c5", "c6", "c8"] {
        let accepted = |names: &&Vec<String>| {
            names.iter().any(|sent| sent == name) && !names.iter().any(|sent| sent == "c3" || sent == "c7")
        };
        assert!(sent_names.iter().any(|names| accepted(&names)), "{name} was accepted");
    }
    assert!(bench.poll().is_empty());
}

#[test]
fn refused_content_is_sent_again_when_it_changes_and_the_refusal_is_cleared() {
    let mut bench = Bench::new(vec![set(resource(Cluster, "c", 1, &[]))]);
    let first = bench.request(subscribe(Cluster, &[]));
    bench.refuse(&first[0], "no");
    assert_eq!(bench.fleet.stream_state(ID), Some(StreamState::Refusing));
    let second = bench.publish(vec![set(resource(Cluster, "c", 2, &[]))]);
    assert_eq!(summary(&second), [sent(Cluster, &["c"], &[])]);
    bench.events();
    bench.accept(&second[0]);
    let cleared = Event::RefusalCleared { key: key(Cluster, "c") };
    assert_eq!(bench.events().iter().filter(|event| **event == cleared).count(), 1);
}

#[test]
fn a_refused_cluster_does_not_hold_back_the_table_that_names_it() {
    let mut bench =
        Bench::new(vec![set(resource(Cluster, "c", 1, &[])), set(resource(Route, "t", 1, &[key(Cluster, "c")]))]);
    let first = bench.request(subscribe(Cluster, &[]));
    assert!(bench.request(subscribe(Route, &["t"])).is_empty());
    assert_eq!(summary(&bench.refuse(&first[0], "no")), [sent(Route, &["t"], &[])]);
}

#[test]
fn what_a_refused_listener_still_holds_is_not_removed() {
    let mut bench =
        Bench::new(vec![set(resource(Cluster, "c", 1, &[])), set(resource(Listener, "l", 1, &[key(Cluster, "c")]))]);
    for request in [subscribe(Cluster, &[]), subscribe(Listener, &[])] {
        let responses = bench.request(request);
        bench.accept_all(responses);
    }
    let update = bench.publish(vec![set(resource(Listener, "l", 2, &[])), gone(Cluster, "c")]);
    assert_eq!(summary(&update), [sent(Listener, &["l"], &[])]);
    assert!(bench.refuse(&update[0], "no").is_empty(), "version 1 is in force and names the cluster");
    let better = bench.publish(vec![set(resource(Listener, "l", 3, &[]))]);
    assert_eq!(summary(&bench.accept(&better[0])), [sent(Cluster, &[], &["c"])]);
}

#[test]
fn a_removal_that_may_have_been_applied_is_not_counted_as_there() {
    let mut bench = Bench::new(vec![set(resource(Cluster, "a", 1, &[])), set(resource(Cluster, "b", 1, &[]))]);
    let first = bench.request(subscribe(Cluster, &[]));
    bench.accept_all(first);
    let both = bench.publish(vec![set(resource(Cluster, "a", 2, &[])), gone(Cluster, "b")]).remove(0);
    assert_eq!(summary(std::slice::from_ref(&both)), [sent(Cluster, &["a"], &["b"])]);
    bench.publish(vec![set(resource(Cluster, "b", 1, &[]))]);
    let next = bench.refuse(&both, "no");
    let all = answer_all(&mut bench, next, &["a"]);
    assert!(all.contains(&vec!["b".to_string()]), "{all:?}");
}

#[test]
fn a_bad_secret_does_not_take_a_good_one_with_it() {
    let mut bench = Bench::new(vec![set(resource(Secret, "bad", 1, &[])), set(resource(Secret, "good", 1, &[]))]);
    let first = bench.request(subscribe(Secret, &["bad", "good"]));
    let all = answer_all(&mut bench, first, &["bad"]);
    assert_eq!(all, [["bad"], ["good"]], "each in a response of its own, and once");
    assert_eq!(refused(&mut bench), [("bad".into(), None, "no bad".into())]);
}

#[test]
fn a_refusal_ends_with_its_stream() {
    let mut bench = Bench::new(vec![set(resource(Scope, "s", 1, &[]))]);
    let first = bench.request(subscribe(Scope, &[]));
    bench.refuse(&first[0], "no");
    bench.events();
    bench.fleet.close(ID);
    assert_eq!(bench.events(), [Event::RefusalCleared { key: key(Scope, "s") }]);
}

// The probe.

fn unit(name: &str) -> Unit {
    let route = route::Route { name: name.into(), ..Default::default() };
    let origin = Origin { kind: "HTTPRoute".into(), namespace: "n".into(), name: name.into(), field: "".into() };
    Unit { bytes: route.encode_to_vec().into(), version: Version::of(name.as_bytes()), origin }
}

/// A table with these hosts, each with these routes.
fn table(version: u128, hosts: &[(String, Vec<String>)]) -> Arc<Resource> {
    let head = route::RouteConfiguration { name: "t".into(), ..Default::default() };
    let mut table = HostTable::new(head.encode_to_vec().into());
    for (host, routes) in hosts {
        let name: Arc<str> = host.as_str().into();
        let head = route::VirtualHost { name: host.clone(), domains: vec![host.clone()], ..Default::default() };
        let body = VirtualHostBody {
            name: Arc::clone(&name),
            head: head.encode_to_vec().into(),
            routes: routes.iter().map(|name| unit(name)).collect(),
            clusters: Arc::from([]),
            version: Version::of(format!("{host}{routes:?}").as_bytes()),
        };
        table.set(&name, Some(Arc::new(body)));
    }
    Arc::new(Resource {
        key: key(Route, "t"),
        version: Version(version),
        body: Body::new(Content::Table(table)),
        references: Arc::from([]),
        origins: Arc::from([Origin {
            kind: "Gateway".into(),
            namespace: "n".into(),
            name: "g".into(),
            field: "".into(),
        }]),
    })
}

fn hosts(count: usize) -> Vec<(String, Vec<String>)> {
    (0..count)
        .map(|host| (format!("h{host:02}"), (0..4).map(|route| format!("h{host:02}-r{route}")).collect()))
        .collect()
}

/// Answers route tables as a proxy does for which `refuses` gives a text; the names and sizes of the tables sent.
fn answer_tables(
    bench: &mut Bench,
    id: StreamId,
    responses: Vec<DeltaResponse>,
    refuses: &dyn Fn(&route::RouteConfiguration) -> Option<String>,
) -> Vec<(String, usize)> {
    let mut queue = std::collections::VecDeque::from(responses);
    let mut seen = Vec::new();
    while let Some(response) = queue.pop_front() {
        assert_eq!(kind(&response), Route);
        let read = |message: &bytes::Bytes| route::RouteConfiguration::decode(message.as_ref()).unwrap();
        let tables: Vec<_> = response.resources.iter().map(|resource| read(&resource.message)).collect();
        let text = tables.iter().find_map(refuses);
        seen.extend(tables.iter().map(|table| (table.name.clone(), table.virtual_hosts.len())));
        let request = text.map_or_else(|| ack(&response), |text| nack(&response, &text));
        queue.extend(bench.fleet.on_request(id, request, bench.now).unwrap());
        assert!(seen.len() < 200, "the search does not end");
    }
    seen
}

fn names_of(table: &route::RouteConfiguration) -> Vec<&str> {
    table.virtual_hosts.iter().flat_map(|host| host.routes.iter().map(|route| route.name.as_str())).collect()
}

fn bad_routes<'a>(bad: &'a [&'a str]) -> impl Fn(&route::RouteConfiguration) -> Option<String> + 'a {
    move |table| names_of(table).into_iter().find(|name| bad.contains(name)).map(|name| format!("bad {name}"))
}

#[test]
fn the_culprit_in_a_table_is_found_on_the_probe_and_the_live_table_is_sent_once() {
    let mut bench = Bench::new(vec![set(table(1, &hosts(20)))]);
    let first = bench.request(subscribe(Route, &["t", PROBE_TABLE]));
    let seen = answer_tables(&mut bench, ID, first, &bad_routes(&["h07-r2", "h13-r0"]));
    let version = |name: &str| Some(Version::of(name.as_bytes()));
    assert_eq!(
        refused(&mut bench),
        [("t".into(), version("h07-r2"), "bad h07-r2".into()), ("t".into(), version("h13-r0"), "bad h13-r0".into())]
    );
    let live = seen.iter().filter(|(name, _)| name == "t").count();
    assert!(live <= 2, "once with the probe's table, once alone: {seen:?}");
    assert_eq!(seen.last(), Some(&(PROBE_TABLE.to_string(), 0)), "the probe's table is emptied");
    assert!(bench.poll().is_empty());
    let without: Vec<_> = hosts(20).into_iter().filter(|(host, _)| host != "h07" && host != "h13").collect();
    let next = bench.publish(vec![set(table(2, &without))]);
    assert_eq!(answer_tables(&mut bench, ID, next, &bad_routes(&["h07-r2", "h13-r0"])), [("t".to_string(), 18)]);
}

#[test]
fn only_hosts_that_changed_are_suspected() {
    let mut bench = Bench::new(vec![set(table(1, &hosts(20)))]);
    let first = bench.request(subscribe(Route, &["t", PROBE_TABLE]));
    answer_tables(&mut bench, ID, first, &|_| None);
    let mut changed = hosts(20);
    changed[3].1.push("new".into());
    let next = bench.publish(vec![set(table(2, &changed))]);
    let seen = answer_tables(&mut bench, ID, next, &bad_routes(&["new"]));
    assert_eq!(refused(&mut bench), [("t".into(), Some(Version::of(b"new")), "bad new".into())]);
    assert!(seen.iter().skip(1).take(4).all(|(_, hosts)| *hosts <= 1), "{seen:?}");
}

#[test]
fn a_conflict_blames_one_of_the_conflicting_hosts() {
    let mut bench = Bench::new(vec![set(table(1, &hosts(20)))]);
    let first = bench.request(subscribe(Route, &["t", PROBE_TABLE]));
    let conflict = |table: &route::RouteConfiguration| {
        let names = names_of(table);
        (names.contains(&"h02-r0") && names.contains(&"h15-r0")).then(|| "conflict".to_string())
    };
    answer_tables(&mut bench, ID, first, &conflict);
    let refused = refused(&mut bench);
    let host = hosts(20).remove(15);
    let version = Version::of(format!("{}{:?}", host.0, host.1).as_bytes());
    assert_eq!(refused, [("t".into(), Some(version), "conflict".into())], "no route of the host is bad by itself");
}

#[test]
fn a_bad_head_of_a_host_is_the_host() {
    let mut bench = Bench::new(vec![set(table(1, &hosts(5)))]);
    let first = bench.request(subscribe(Route, &["t", PROBE_TABLE]));
    let bad = |table: &route::RouteConfiguration| {
        table.virtual_hosts.iter().any(|host| host.name == "h03").then(|| "bad head".to_string())
    };
    answer_tables(&mut bench, ID, first, &bad);
    let host = hosts(5).remove(3);
    let version = Version::of(format!("{}{:?}", host.0, host.1).as_bytes());
    assert_eq!(refused(&mut bench), [("t".into(), Some(version), "bad head".into())]);
}

#[test]
fn what_only_the_live_table_makes_fail_is_told_as_a_whole() {
    let mut bench = Bench::new(vec![set(table(1, &hosts(5)))]);
    let first = bench.request(subscribe(Route, &["t", PROBE_TABLE]));
    let live_only = |table: &route::RouteConfiguration| (table.name == "t").then(|| "no".to_string());
    answer_tables(&mut bench, ID, first, &live_only);
    assert_eq!(refused(&mut bench), [("t".into(), None, "no".into())]);
}

/// The hosts that changed, by name, as they are told of where nothing more is known.
fn presumed(bench: &mut Bench) -> Vec<String> {
    let events = bench.events().into_iter();
    events
        .filter_map(|event| match event {
            Event::Refused { part: Part::Host(name, _), .. } => Some(name.to_string()),
            Event::Refused { part, .. } => Some(format!("{part:?}")),
            _ => None,
        })
        .collect()
}

#[test]
fn hosts_that_were_accepted_are_not_blamed_with_a_table_in_which_no_culprit_is_found() {
    // With a probe, which passes everything, and without one.
    for names in [&["t", PROBE_TABLE][..], &["t"]] {
        let mut bench = Bench::new(vec![set(table(1, &hosts(5)))]);
        let first = bench.request(subscribe(Route, names));
        answer_tables(&mut bench, ID, first, &|_| None);
        let mut changed = hosts(6);
        changed[2].1.push("new".into());
        let next = bench.publish(vec![set(table(2, &changed))]);
        let live_only = |table: &route::RouteConfiguration| (table.name == "t").then(|| "no".to_string());
        answer_tables(&mut bench, ID, next, &live_only);
        assert_eq!(presumed(&mut bench), ["h02", "h05"], "{names:?}");
    }
}

#[test]
fn without_a_probe_listener_the_whole_table_is_told() {
    let mut bench = Bench::new(vec![set(table(1, &hosts(5)))]);
    let first = bench.request(subscribe(Route, &["t"]));
    answer_tables(&mut bench, ID, first, &bad_routes(&["h03-r1"]));
    assert_eq!(refused(&mut bench), [("t".into(), None, "bad h03-r1".into())]);
}

#[test]
fn one_stream_of_a_fleet_searches_and_another_takes_over_when_it_ends() {
    let mut bench = Bench::new(vec![set(table(1, &hosts(20)))]);
    let other = StreamId(2);
    bench.fleet.open(other);
    let now = bench.now;
    let request = subscribe(Route, &["t", PROBE_TABLE]);
    // Both streams get both tables in one response and refuse it, then the live one alone; a search begins with the answer to that.
    let step = |bench: &mut Bench, id: StreamId, response: &DeltaResponse| {
        let is_live = response.resources.iter().any(|resource| resource.name.as_ref() == "t");
        let request = if is_live { nack(response, "no") } else { ack(response) };
        bench.fleet.on_request(id, request, now).unwrap()
    };
    let mut trials = Vec::new();
    for id in [ID, other] {
        let mut next = bench.fleet.on_request(id, request.clone(), now).unwrap();
        for _ in 0..2 {
            next = next.iter().flat_map(|response| step(&mut bench, id, response)).collect();
        }
        let is_trial = |response: &DeltaResponse| response.resources[0].version.starts_with("trial");
        trials.push(next.iter().any(is_trial));
        if id == other {
            assert!(next.iter().all(|response| step(&mut bench, id, response).is_empty()));
        }
    }
    assert_eq!(trials, [true, false], "the first searches");
    bench.fleet.close(ID);
    let taken_over = bench.fleet.poll(other, now).unwrap();
    answer_tables(&mut bench, other, taken_over, &bad_routes(&["h07-r2"]));
    assert_eq!(refused(&mut bench), [("t".into(), Some(Version::of(b"h07-r2")), "bad h07-r2".into())]);
}

#[test]
fn secrets_go_singly_but_not_one_after_the_other() {
    let names: Vec<_> = (0..40).map(|index| format!("s{index:02}")).collect();
    let mut bench = Bench::new(names.iter().map(|name| set(resource(Secret, name, 1, &[]))).collect());
    let first = bench.request(subscribe(Secret, &names.iter().map(String::as_str).collect::<Vec<_>>()));
    assert_eq!(first.len(), 32);
    assert!(first.iter().all(|response| response.resources.len() == 1));
    assert_eq!(bench.accept(&first[7]).len(), 1, "an answer makes room for one more");
}
