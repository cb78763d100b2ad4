//! A proxy in step costs a position and a bit per name.

use std::collections::BTreeSet;
use std::sync::{Arc, Weak};

use portolan_proto::ResourceType::{Cluster, Endpoints, Route, Secret};
use portolan_proto::{Change, Snapshot};

use super::client::*;
use crate::core::stream::StreamState;
use crate::transition::StreamId;

fn endpoints(count: usize, version: u128) -> Vec<Change> {
    (0..count).map(|index| set(resource(Endpoints, &format!("backend-{index:05}"), version, &[]))).collect()
}

#[test]
fn a_stream_in_step_over_ten_thousand_resources_costs_little() {
    let (clusters, tables) = (4_000, 1_000);
    let names = |kind, prefix: &str, count: usize| -> Vec<Change> {
        (0..count).map(|index| set(resource(kind, &format!("{prefix}-{index}"), 1, &[]))).collect()
    };
    let changes = [names(Cluster, "c", clusters), names(Route, "t", tables), endpoints(5_000, 1)].concat();
    let mut bench = Bench::new(changes);
    let now = bench.now;
    for id in (0..4).map(|index| StreamId(100 + index)) {
        bench.fleet.open(id);
        for (kind, prefix, count) in [(Cluster, "", 0), (Endpoints, "backend-0", 5_000), (Route, "t-", tables)] {
            let names: Vec<_> = (0..count)
                .map(|index| if kind == Endpoints { format!("{prefix}{index:04}") } else { format!("{prefix}{index}") })
                .collect();
            let names: Vec<_> = names.iter().map(String::as_str).collect();
            let mut responses = bench.fleet.on_request(id, subscribe(kind, &names), now).unwrap();
            while let Some(response) = responses.pop() {
                responses.extend(bench.fleet.on_request(id, ack(&response), now).unwrap());
            }
        }
    }
    for id in (0..4).map(|index| StreamId(100 + index)) {
        assert_eq!(bench.fleet.stream_state(id), Some(StreamState::InStep));
        let size = size_of::<crate::core::stream::Stream>() + bench.fleet.stream(id).unwrap().heap();
        assert!(size < 5_000, "{size} bytes");
    }
}

#[test]
fn a_stream_that_is_not_polled_keeps_up_with_any_number_of_changes() {
    let mut bench = Bench::new(endpoints(10, 1));
    let names: Vec<_> = (0..10).map(|index| format!("backend-{index:05}")).collect();
    let first = bench.request(subscribe(Endpoints, &names.iter().map(String::as_str).collect::<Vec<_>>()));
    bench.accept_all(first);
    for version in 2..2_000 {
        bench.fleet.publish(endpoints(10, version));
    }
    bench.fleet.publish(endpoints(3 * Snapshot::LOG_LIMIT, 5_000));
    let next = bench.poll();
    assert_eq!(next[0].resources.len(), 10);
    assert!(next[0].resources.iter().all(|item| item.message.as_ref() == 5_000_u128.to_be_bytes()));
    assert!(bench.accept(&next[0]).is_empty());
}

#[test]
fn names_are_forgotten_with_their_last_stream() {
    let mut bench = Bench::new(Vec::new());
    bench.request(subscribe(Endpoints, &["a", "b"]));
    assert_eq!(bench.fleet.known_names(Endpoints), 2);
    bench.fleet.close(ID);
    assert_eq!(bench.fleet.known_names(Endpoints), 0);
}

#[test]
fn the_log_keeps_nothing_that_every_stream_has_taken_note_of() {
    let mut bench = Bench::new(endpoints(1, 1));
    let first = bench.request(subscribe(Endpoints, &["backend-00000"]));
    bench.accept_all(first);
    let mut replaced: Vec<Weak<_>> = Vec::new();
    for version in 2..50 {
        let next = endpoints(1, version);
        replaced.extend(next.iter().flat_map(|change| &change.resource).map(Arc::downgrade));
        let responses = bench.publish(next);
        bench.accept_all(responses);
    }
    let alive = replaced.iter().filter(|resource| resource.strong_count() > 0).count();
    assert!(alive <= 2, "{alive}: the one in force, and the one before it in the log");
}

#[test]
fn thousands_of_secrets_are_sent_a_few_at_a_time_each_once() {
    let names: Vec<_> = (0..5_000).map(|index| format!("s{index:05}")).collect();
    let mut changes: Vec<_> = names.iter().map(|name| set(resource(Secret, name, 1, &[]))).collect();
    for change in changes.iter_mut().step_by(100) {
        *change = set(held(Secret, &change.key.name, 1));
    }
    let mut bench = Bench::new(changes);
    let first = bench.request(subscribe(Secret, &names.iter().map(String::as_str).collect::<Vec<_>>()));
    assert_eq!(first.len(), 32);
    let mut queue = std::collections::VecDeque::from(first);
    let (mut sent, mut removed) = (BTreeSet::new(), BTreeSet::new());
    while let Some(response) = queue.pop_front() {
        assert!(response.resources.iter().all(|resource| sent.insert(Arc::clone(&resource.name))), "twice");
        removed.extend(response.removed.iter().cloned());
        queue.extend(bench.accept(&response));
        assert!(queue.len() <= 32);
    }
    assert_eq!((sent.len(), removed.len()), (4_950, 50));
    assert!(bench.poll().is_empty());
}
