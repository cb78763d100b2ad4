//! Incremental equals fresh; order does not matter; no effect, no output.

use std::collections::BTreeMap;
use std::sync::Arc;

use portolan_engine::{Engine, Event, Options, Output};
use portolan_model::ir::Status;
use portolan_model::{Kind, NamespacedName, ObjectKey};
use portolan_proto::{Resource, ResourceKey, ResourceType};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseError, TestRunner};

use crate::world::{Edit, World, slots, state};

/// Worlds and edits of each. The environment can ask for more.
fn worlds() -> u32 {
    std::env::var("PORTOLAN_WORLDS").ok().and_then(|count| count.parse().ok()).unwrap_or(1_000)
}

pub const EDITS: usize = 50;

pub fn history() -> impl Strategy<Value = Vec<Edit>> {
    let edit = (0..slots(), any::<u64>()).prop_map(|(slot, choices)| Edit { slot, choices });
    vec(edit, EDITS)
}

pub fn config(cases: u32) -> Config {
    Config { cases, failure_persistence: None, max_shrink_iters: 2_000, ..Config::default() }
}

/// What somebody who only sees the outputs believes.
#[derive(Default)]
struct Mirror {
    fleets: BTreeMap<NamespacedName, BTreeMap<ResourceKey, Arc<Resource>>>,
    statuses: BTreeMap<ObjectKey, Status>,
}

impl Mirror {
    fn apply(&mut self, output: &Output) {
        for gateway in &output.removed_fleets {
            self.fleets.remove(gateway);
        }
        for (gateway, changes) in &output.fleets {
            let fleet = self.fleets.entry(gateway.clone()).or_default();
            for change in changes {
                match &change.resource {
                    Some(resource) => _ = fleet.insert(change.key.clone(), Arc::clone(resource)),
                    None => _ = fleet.remove(&change.key),
                }
            }
        }
        for (key, status) in &output.statuses {
            match status {
                Some(status) => _ = self.statuses.insert(key.clone(), status.clone()),
                None => _ = self.statuses.remove(key),
            }
        }
    }

    fn check(&self, engine: &Engine, world: &World) -> Result<(), TestCaseError> {
        for gateway in engine.fleets() {
            let theirs: Vec<_> = engine.snapshot(gateway).unwrap().iter().map(|r| (&r.key, r.version)).collect();
            let ours: Vec<_> =
                self.fleets.get(gateway).into_iter().flatten().map(|(key, resource)| (key, resource.version)).collect();
            prop_assert_eq!(ours, theirs, "outputs of {} do not add up to its snapshot", gateway);
        }
        for key in world.objects.keys() {
            prop_assert_eq!(
                self.statuses.get(key),
                engine.status(key),
                "outputs do not add up to the status of {}",
                key
            );
        }
        Ok(())
    }
}

/// Every name that a resource of a fleet refers to is there.
fn closed(engine: &Engine) -> Result<(), TestCaseError> {
    for gateway in engine.fleets() {
        let snapshot = engine.snapshot(gateway).unwrap();
        for resource in snapshot.iter() {
            for reference in resource.references.iter() {
                prop_assert!(
                    snapshot.get(reference).is_some(),
                    "{} names {} which is not there",
                    resource.key,
                    reference
                );
            }
            if let portolan_proto::Content::Table(table) = resource.body.content() {
                for cluster in table.clusters.keys().filter(|name| !name.starts_with("portolan/")) {
                    let key = ResourceKey::new(ResourceType::Cluster, Arc::clone(cluster));
                    prop_assert!(snapshot.get(&key).is_some(), "{} names {key} which is not there", resource.key);
                }
            }
        }
    }
    Ok(())
}

/// Plays a history in batches of one to three edits; checks against a fresh engine now and then and at the end.
pub fn play(history: &[Edit], options: Options) -> Result<(), TestCaseError> {
    let mut world = World::default();
    let mut engine = world.engine(options);
    let mut mirror = Mirror::default();
    let mut rest = history;
    let mut step = 0;
    while let Some(first) = rest.first() {
        let size = (first.choices as usize / 7 % 3 + 1).min(rest.len());
        let (batch, later) = rest.split_at(size);
        rest = later;
        let events: Vec<_> = batch.iter().filter_map(|edit| world.edit(edit, &engine)).collect();
        let any_taken = events.iter().any(|event| matches!(event, Event::Taken { .. }));
        mirror.apply(&engine.apply(events));
        let forgotten = world.settle(&engine);
        if !forgotten.is_empty() && !any_taken {
            // It was right to forget them: nothing in the world as it is now calls for these contents.
            let mut reminded = World { refused: &world.refused | &forgotten, ..world.clone() };
            prop_assert!(reminded.settle(&reminded.fresh()) == forgotten, "forgotten although they count");
        }
        step += 1;
        if step % 8 == 0 || rest.is_empty() {
            closed(&engine)?;
            mirror.check(&engine, &world)?;
            prop_assert_eq!(state(&engine, &world), state(&world.fresh(), &world), "incremental differs from fresh");
        }
    }
    let mut emptied = world.fresh();
    emptied.apply(world.objects.keys().map(|key| Event::Object { key: key.clone(), object: None }));
    prop_assert_eq!(emptied.graph_size(), 0, "an empty world leaves something behind");
    prop_assert_eq!(emptied.refused().count(), 0, "an empty world remembers what was refused");
    let again = engine.apply(world.events());
    prop_assert!(
        again.fleets.is_empty()
            && again.statuses.is_empty()
            && again.intents.is_empty()
            && again.removed_fleets.is_empty(),
        "the same world once more is not without effect: {:?}",
        again
    );
    Ok(())
}

#[test]
fn incremental_equals_fresh() {
    let mut runner = TestRunner::new(config(worlds()));
    runner.run(&history(), |history| play(&history, Options::default())).unwrap_or_else(|error| panic!("{error}"));
}

#[test]
fn order_of_events_does_not_matter() {
    let mut runner = TestRunner::new(config(worlds() / 4));
    let strategy = (history(), any::<u64>());
    runner
        .run(&strategy, |(history, seed)| {
            let mut world = World::default();
            let mut engine = world.engine(Options::default());
            for edit in &history {
                engine.apply(world.edit(edit, &engine));
                world.settle(&engine);
            }
            // A content is refused after it was sent, so never before the objects that call for it.
            let (refused, mut events): (Vec<_>, Vec<_>) =
                world.events().into_iter().partition(|event| matches!(event, Event::Refused(_)));
            // Fisher-Yates with a linear congruential generator: any order will do, the same one each time.
            let mut random = seed;
            for index in (1..events.len()).rev() {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                events.swap(index, (random >> 33) as usize % (index + 1));
            }
            let mut shuffled = Engine::new(Options::default());
            for event in events {
                shuffled.apply([event]);
            }
            shuffled.apply(refused.into_iter().rev());
            prop_assert_eq!(state(&shuffled, &world), state(&world.fresh(), &world));
            Ok(())
        })
        .unwrap_or_else(|error| panic!("{error}"));
}

/// Design invariant 9: "An HTTP listener does not change when a route or a policy on routes does." Nor does it when what a route leads
/// to does, or when Envoy refuses any of that.
#[test]
fn a_change_of_a_route_leaves_all_listeners_alone() {
    let listeners = |engine: &Engine| -> Vec<String> {
        let of = |gateway| engine.snapshot(gateway).into_iter().flat_map(|it| it.of_kind(ResourceType::Listener));
        let all = engine.fleets().flat_map(|gateway| of(gateway).map(move |resource| (gateway, resource)));
        all.map(|(gateway, resource)| format!("{gateway} {} {}", resource.key, resource.version)).collect()
    };
    let compared = std::cell::Cell::new((0_usize, 0_usize));
    let mut runner = TestRunner::new(config(worlds() / 4));
    runner
        .run(&history(), |history| {
            let mut world = World::default();
            let mut engine = world.engine(Options::default());
            for edit in &history {
                let Some(event) = world.edit(edit, &engine) else { continue };
                let leaves_listeners = match &event {
                    Event::Object { key, .. } => {
                        key.kind.is_route()
                            || matches!(
                                key.kind,
                                Kind::Service | Kind::EndpointSlice | Kind::Backend | Kind::BackendTLSPolicy
                            )
                    }
                    Event::Refused(_)
                    | Event::Taken { .. }
                    | Event::Fleet { .. }
                    | Event::Problems { .. }
                    | Event::Installed(_) => true,
                    Event::Binding { .. } | Event::Time(_) => false,
                };
                let before = listeners(&engine);
                let output = engine.apply([event]);
                if leaves_listeners {
                    prop_assert_eq!(&before, &listeners(&engine), "{:?}", edit);
                    let (all, moved) = compared.get();
                    let tables_moved = output.fleets.values().flatten().any(|it| it.key.kind == ResourceType::Route);
                    compared.set((all + before.len(), moved + usize::from(tables_moved && before.len() > 3)));
                }
            }
            Ok(())
        })
        .unwrap_or_else(|error| panic!("{error}"));
    let (all, moved) = compared.get();
    assert!(all > 0 && moved > 0, "nothing was compared: {all} listeners, {moved} changes of routes");
}
