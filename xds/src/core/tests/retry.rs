//! A listener whose port another process has is tried again until it can be had.

use std::time::Duration;

use portolan_proto::ResourceType::{Cluster, Listener, Secret};

use super::client::*;
use crate::core::event::Event;
use crate::core::stream::StreamState;

const TAKEN: &str = "Error adding/updating listener(s) l: cannot bind '0.0.0.0:80': Address already in use";

fn told(bench: &mut Bench) -> usize {
    bench.events().iter().filter(|event| matches!(event, Event::Refused { .. })).count()
}

/// A proxy that serves `other` and refuses `l`.
fn refusing() -> Bench {
    let mut bench = Bench::new(vec![set(resource(Listener, "other", 1, &[]))]);
    for kind in [Cluster, Listener] {
        let responses = bench.request(subscribe(kind, &[]));
        bench.accept_all(responses);
    }
    let first = bench.publish(vec![set(resource(Listener, "l", 1, &[]))]);
    assert!(bench.refuse(&first[0], TAKEN).is_empty(), "not at once");
    assert_eq!(told(&mut bench), 1);
    bench
}

#[test]
fn it_is_sent_again_at_bounded_intervals_and_told_once() {
    let mut bench = refusing();
    let mut waited = Vec::new();
    for _ in 0..8 {
        let mut seconds = 0;
        let again = loop {
            bench.later(Duration::from_secs(1));
            seconds += 1;
            let responses = bench.poll();
            if !responses.is_empty() {
                break responses;
            }
            assert_eq!(bench.fleet.stream_state(ID), Some(StreamState::Refusing));
        };
        assert_eq!(summary(&again), [sent(Listener, &["l"], &[])]);
        assert!(bench.poll().is_empty(), "one is on its way");
        assert!(bench.refuse(&again[0], TAKEN).is_empty());
        waited.push(seconds);
    }
    assert_eq!(waited, [1, 2, 4, 8, 16, 30, 30, 30]);
    assert_eq!(told(&mut bench), 0, "no news");
}

#[test]
fn it_heals_when_the_port_is_free() {
    let mut bench = refusing();
    bench.later(Duration::from_secs(1));
    let again = bench.poll();
    bench.accept_all(again);
    assert!(bench.events().contains(&Event::RefusalCleared { key: key(Listener, "l") }));
    assert_eq!(bench.fleet.stream_state(ID), Some(StreamState::InStep));
    bench.later(Duration::from_mins(5));
    assert!(bench.poll().is_empty());
}

#[test]
fn it_goes_alone_and_holds_nothing_up() {
    let mut bench = refusing();
    bench.later(Duration::from_secs(1));
    let both = bench.publish(vec![set(resource(Listener, "new", 1, &[])), gone(Listener, "other")]);
    assert_eq!(summary(&both), [sent(Listener, &["new"], &["other"])]);
    let again = bench.accept(&both[0]);
    assert_eq!(summary(&again), [sent(Listener, &["l"], &[])]);
    assert!(bench.refuse(&again[0], TAKEN).is_empty());
}

#[test]
fn another_text_is_news_and_other_content_begins_anew() {
    let mut bench = refusing();
    bench.later(Duration::from_secs(1));
    let again = bench.poll();
    bench.refuse(&again[0], "cannot bind '0.0.0.0:80': Permission denied");
    assert_eq!(told(&mut bench), 1);
    let changed = bench.publish(vec![set(resource(Listener, "l", 2, &[]))]);
    assert_eq!(summary(&changed), [sent(Listener, &["l"], &[])], "what is new does not wait");
    bench.refuse(&changed[0], TAKEN);
    assert_eq!(told(&mut bench), 1);
    bench.later(Duration::from_secs(1));
    assert_eq!(summary(&bench.poll()), [sent(Listener, &["l"], &[])]);
}

#[test]
fn what_is_wrong_by_itself_is_not_tried_again() {
    for (kind, text) in [(Listener, "unknown filter"), (Cluster, TAKEN), (Secret, TAKEN)] {
        let mut bench = Bench::new(vec![set(resource(kind, "l", 1, &[]))]);
        let first = bench.request(subscribe(kind, &["l"]));
        assert!(bench.refuse(&first[0], text).is_empty());
        for _ in 0..10 {
            bench.later(Duration::from_secs(20));
            assert!(bench.poll().is_empty(), "{kind:?}: {text}");
        }
    }
}
