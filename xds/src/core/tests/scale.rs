//! A proxy in step costs a position and a bit per name.

use portolan_proto::ResourceType::{Cluster, Endpoints, Route};
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
