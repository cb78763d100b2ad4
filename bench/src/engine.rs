//! Engine time and bytes per change, without any proxy.

use std::time::{Duration, Instant};

use portolan_engine::{Engine, Options, Output};
use portolan_proto::ResourceType;

use crate::measure::{Row, median, middle, milliseconds};
use crate::scene;

const RUNS: usize = 301;

fn engine(routes: usize) -> Engine {
    let mut engine = Engine::new(Options::default());
    engine.apply(scene::world(routes));
    engine
}

/// Bytes of the resources that changed, as a stream would send them.
fn bytes(output: &Output) -> usize {
    let changes = output.fleets.values().flatten();
    changes.filter_map(|change| change.resource.as_ref()?.body.message()).map(|bytes| bytes.len()).sum()
}

/// Medians among 1,000 and among 10,000 routes, taken in turns: whatever else the machine does meets both.
fn one_route() -> (Duration, Duration) {
    let change = |engine: &mut Engine, routes: usize, run: usize| {
        let start = Instant::now();
        let output = engine.apply([scene::own_host(routes / 2, run + 1)]);
        let time = start.elapsed();
        let changed = output.fleets.values().map(Vec::len).sum::<usize>();
        assert_eq!(changed, 1, "one route changes one table and nothing else");
        time
    };
    let (mut small, mut large) = (engine(1_000), engine(10_000));
    let (among_few, among_many) =
        (0..RUNS).map(|run| (change(&mut small, 1_000, run), change(&mut large, 10_000, run))).unzip();
    (middle(among_few).0, middle(among_many).0)
}

pub fn rows() -> Vec<Row> {
    let mut rows = Vec::new();
    let (small, large) = one_route();
    let ratio = large.as_secs_f64() / small.as_secs_f64();
    rows.push(Row {
        what: "engine time, one changed route among 10,000 HTTPRoutes",
        bar: "< 1 ms",
        measured: milliseconds(large),
        kept: Some(large < Duration::from_millis(1)),
    });
    rows.push(Row {
        what: "the same, against 1,000 HTTPRoutes",
        bar: "≤ 1.5 ×",
        measured: format!("{ratio:.2} × ({})", milliseconds(small)),
        kept: Some(ratio <= 1.5),
    });

    for (what, count) in [("one rule changed among 2,000 rules of one host", 2_000), ("the same among 1,000", 1_000)] {
        let mut engine = Engine::new(Options::default());
        engine.apply(scene::gateway());
        engine.apply([scene::service(0), scene::slice(0, 1), scene::many_rules(count, 0)]);
        let mut sent = 0;
        let (time, _) = median(11, |run| sent = bytes(&engine.apply([scene::many_rules(count, run + 1)])));
        rows.push(Row { what, bar: "reported", measured: format!("{}, {sent} bytes", milliseconds(time)), kept: None });
    }

    let mut large = engine(10_000);
    large.apply([scene::wildcard(0)]);
    let mut sent = 0;
    let (time, _) = median(5, |run| sent = bytes(&large.apply([scene::wildcard(run + 1)])));
    rows.push(Row {
        what: "one rule of a wildcard route over 10,000 exact hosts",
        bar: "reported",
        measured: format!("{}, {sent} bytes", milliseconds(time)),
        kept: None,
    });

    let (time, _) = median(RUNS, |run| {
        let output = large.apply([scene::slice(5_000, if run % 2 == 0 { 2 } else { 3 })]);
        let kinds: Vec<ResourceType> = output.fleets.values().flatten().map(|change| change.key.kind).collect();
        assert_eq!(kinds, [ResourceType::Endpoints], "an endpoint changes its endpoints and nothing else");
    });
    rows.push(Row {
        what: "engine time, one changed endpoint",
        bar: "< 0.2 ms",
        measured: milliseconds(time),
        kept: Some(time < Duration::from_micros(200)),
    });

    // Back to the world as it was, then the same world again.
    large.apply(scene::world(10_000));
    let output = large.apply(scene::world(10_000));
    rows.push(Row {
        what: "an update without effect (the whole world once more)",
        bar: "0 bytes of xDS",
        measured: format!("{} bytes", bytes(&output)),
        kept: Some(output.fleets.is_empty() && output.statuses.is_empty()),
    });
    rows
}
