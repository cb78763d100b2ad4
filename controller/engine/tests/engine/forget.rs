//! The properties find every read that is not recorded: for each kind of read, an engine that forgets that kind must be found out.

use std::collections::{BTreeMap, BTreeSet};

use portolan_engine::{Event, Options, ReadKind, Refused};
use portolan_model::Kind;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use crate::property::{config, history, play};
use crate::world::{World, refusable};

/// Every kind of read that something makes.
const KINDS: &[ReadKind] = &[
    ReadKind::Object(Kind::GatewayClass),
    ReadKind::Object(Kind::Gateway),
    ReadKind::Object(Kind::ListenerSet),
    ReadKind::Object(Kind::HTTPRoute),
    ReadKind::Object(Kind::GRPCRoute),
    ReadKind::Object(Kind::TCPRoute),
    ReadKind::Object(Kind::Namespace),
    ReadKind::Object(Kind::Service),
    ReadKind::Object(Kind::BackendTLSPolicy),
    ReadKind::Object(Kind::Backend),
    ReadKind::Object(Kind::EnvoyProxy),
    ReadKind::Object(Kind::Secret),
    ReadKind::Grants,
    ReadKind::ListenerSetsOf,
    ReadKind::Slices,
    ReadKind::PoliciesFor,
    ReadKind::Binding,
    ReadKind::Fleet,
    ReadKind::Problems,
    ReadKind::Installed,
    ReadKind::GatewayView,
    ReadKind::ParentView,
    ReadKind::BackendView,
    ReadKind::RouteView,
    ReadKind::Host,
    ReadKind::GatewaysUsing,
    ReadKind::Attached,
    ReadKind::Refused,
    ReadKind::Refusals,
    ReadKind::Instant,
];

/// Always the same histories: whether a forgotten read is found out must not be a matter of luck.
fn runner(cases: u32) -> TestRunner {
    let config = Config { max_shrink_iters: 0, ..config(cases) };
    TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha))
}

#[test]
fn the_list_of_kinds_is_whole() {
    let seen = std::cell::RefCell::new(BTreeSet::new());
    let mut runner = runner(300);
    runner
        .run(&history(), |history| {
            let mut world = World::default();
            let mut engine = world.engine(Options::default());
            for edits in history.chunks(5) {
                for edit in edits {
                    let event = world.edit(edit, &engine);
                    engine.apply(event);
                    world.settle(&engine);
                }
                seen.borrow_mut().extend(engine.read_kinds());
            }
            Ok(())
        })
        .unwrap_or_else(|error| panic!("{error}"));
    let listed: BTreeSet<ReadKind> = KINDS.iter().copied().collect();
    assert_eq!(seen.into_inner(), listed);
}

#[test]
fn an_engine_that_forgets_a_kind_of_read_is_found_out() {
    let missed: Vec<ReadKind> = KINDS
        .iter()
        .copied()
        .filter(|kind| runner(6_000).run(&history(), |history| play(&history, Options { forget: Some(*kind) })).is_ok())
        .collect();
    assert!(missed.is_empty(), "the properties hold although these reads are not recorded: {missed:?}");
}

/// The histories reach every kind of refusal, or the properties would say nothing about it.
#[test]
fn every_kind_of_content_is_refused() {
    let seen = std::cell::RefCell::new(BTreeSet::new());
    runner(1_000)
        .run(&history(), |history| {
            let mut world = World::default();
            let mut engine = world.engine(Options::default());
            for edit in &history {
                let kinds: BTreeMap<Refused, &str> =
                    refusable(&engine).into_iter().map(|(kind, refused)| (refused, kind)).collect();
                let event = world.edit(edit, &engine);
                engine.apply(event.clone());
                world.settle(&engine);
                if let Some(Event::Refused(refused)) = event
                    && world.refused.contains(&refused)
                {
                    seen.borrow_mut().extend(kinds.get(&refused).copied());
                }
            }
            Ok(())
        })
        .unwrap_or_else(|error| panic!("{error}"));
    let all = ["cluster", "endpoints", "host", "listener", "match", "secret", "table"];
    assert_eq!(seen.into_inner(), all.into());
}
