//! Incremental equals fresh; order does not matter; no effect, no output.

use std::collections::BTreeMap;
use std::sync::Arc;

use portolan_engine::{Engine, Event, Options, Output};
use portolan_model::ir::Status;
use portolan_model::{NamespacedName, ObjectKey};
use portolan_proto::{Resource, ResourceKey};
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
                    let key = ResourceKey::new(portolan_proto::ResourceType::Cluster, Arc::clone(cluster));
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
        mirror.apply(&engine.apply(events));
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
            let engine = world.engine(Options::default());
            for edit in &history {
                world.edit(edit, &engine);
            }
            let mut events = world.events();
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
            prop_assert_eq!(state(&shuffled, &world), state(&world.fresh(), &world));
            Ok(())
        })
        .unwrap_or_else(|error| panic!("{error}"));
}
