//! Portolan killed and started again; Envoy goes on, and is told nothing that it knows.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::ensure;
use portolan_testkit::manifest::route;
use portolan_testkit::portolan::Metrics;

use crate::world::{APP, ARRIVAL, World};
use crate::{certificates, world};

const RESTARTS: usize = 50;

/// Every third time nothing changes meanwhile; every third time a route; every third time the second certificate breaks, or heals.
pub async fn killed(world: &mut World) -> anyhow::Result<()> {
    let rules = [[("/one", "a"), ("/two", "b")], [("/one", "b"), ("/two", "a")]];
    let state = |world: &World, turn: usize| {
        let [(_, one), (_, two)] = rules[turn % 2];
        world.truth.newest().with(APP, "/one", &[one]).with(APP, "/two", &[two])
    };
    world.put_app(&route("app", APP, &rules[0], 0), state(world, 0), 0).await?;
    // What that made obsolete is gone from Envoy.
    tokio::time::sleep(Duration::from_millis(500)).await;

    let start = Instant::now();
    let (mut turn, mut spoilt, mut changes) = (0, false, 0);
    for restart in 0..RESTARTS {
        world.portolan.kill()?;
        match restart % 3 {
            0 => {}
            1 => {
                turn += 1;
                changes += 1;
                world.truth.becomes(state(world, turn));
                world.dir.write("app.yaml", route("app", APP, &rules[turn % 2], turn))?;
            }
            _ => {
                changes += 1;
                spoilt = !spoilt;
                if spoilt {
                    certificates::spoil(world)?;
                } else {
                    // It takes effect once Portolan is back.
                    let (pair, der) = world::rotated(world, world::OTHER)?;
                    let mut state = world.truth.newest();
                    state.certificates.insert(world::OTHER.to_owned(), der);
                    world.truth.becomes(state);
                    world.dir.write("certificate-other.yaml", pair.secret("default", "other"))?;
                }
            }
        }
        world.portolan.start_again()?;
        world.portolan.ready(Duration::from_secs(30)).await?;
        for path in ["/one", "/two"] {
            world.answered(APP, path, turn).await?;
        }
        let (sent, log) = (sent(&in_step(world).await?), world.portolan.log());
        ensure!(log.contains("taken over"), "the Envoy that runs is taken over:\n{log}");
        for kind in ["cluster", "listener", "extension"] {
            ensure!(sent[kind] == (0.0, 0.0), "{kind}s were sent again: {sent:?}\n{log}");
        }
        // The host stands in the tables of two listeners.
        let tables = if restart % 3 == 1 { 2.0 } else { 0.0 };
        ensure!(sent["route"] == (tables, 0.0), "not {tables} route tables: {sent:?}\n{log}");
        ensure!(sent["endpoints"].0 <= ENDPOINTS, "endpoints more than once per name: {sent:?}\n{log}");
        ensure!(sent["secret"].0 <= SECRETS, "secrets more than once per name: {sent:?}\n{log}");
    }
    if spoilt {
        certificates::heal(world).await?;
    }
    println!("{changes} changes were made while Portolan was dead");
    world.phase("Portolan killed and started again", RESTARTS, start);
    Ok(())
}

/// Of the clusters in use: a, b, still, other, and of the proxies themselves.
const ENDPOINTS: f64 = 5.0;
const SECRETS: f64 = 2.0;

/// By type, how many resources were sent, and how many names were said to be gone.
fn sent(metrics: &Metrics) -> BTreeMap<&'static str, (f64, f64)> {
    let of = |kind| {
        let label = format!("type=\"{kind}\"");
        let sum = |name| metrics.sum(name, &[&label]);
        (kind, (sum("portolan_xds_sent_resources_total"), sum("portolan_xds_sent_removals_total")))
    };
    ["cluster", "endpoints", "secret", "route", "extension", "listener"].map(of).into()
}

/// The metrics once Envoy holds everything.
async fn in_step(world: &World) -> anyhow::Result<Metrics> {
    let end = Instant::now() + ARRIVAL;
    loop {
        let metrics = world.portolan.metrics().await?;
        if metrics.sum("portolan_xds_streams", &["state=\"in_step\""]) > 0.0 {
            return Ok(metrics);
        }
        ensure!(Instant::now() < end, "the stream is not in step:\n{}", world.portolan.log());
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
