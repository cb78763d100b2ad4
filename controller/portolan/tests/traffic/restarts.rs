//! Portolan killed and started again; Envoy goes on, and is told nothing that it knows.

use std::time::{Duration, Instant};

use anyhow::ensure;
use portolan_testkit::portolan::Metrics;

use crate::manifest::route;
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
        let sent = Sent::of(&in_step(world).await?);
        let log = world.portolan.log();
        ensure!(log.contains("taken over"), "the Envoy that runs is taken over:\n{log}");
        ensure!(sent.clusters == 0.0, "clusters were sent again: {sent:?}\n{log}");
        ensure!(sent.listeners == 0.0, "listeners were sent again: {sent:?}\n{log}");
        // The host stands in the tables of two listeners.
        let tables = if restart % 3 == 1 { 2.0 } else { 0.0 };
        ensure!(sent.routes == tables, "route tables: {sent:?}, not {tables}\n{log}");
        ensure!(sent.endpoints <= ENDPOINTS, "endpoints more than once per name: {sent:?}\n{log}");
        ensure!(sent.secrets <= SECRETS, "secrets more than once per name: {sent:?}\n{log}");
        ensure!(sent.extensions == 0.0, "{sent:?}");
    }
    if spoilt {
        certificates::heal(world).await?;
    }
    println!("{changes} changes were made while Portolan was dead");
    world.phase("Portolan killed and started again", RESTARTS, start);
    Ok(())
}

/// Clusters in use: a, b, still, other.
const ENDPOINTS: f64 = 4.0;
const SECRETS: f64 = 2.0;

/// What was sent, and what was said to be gone, by type.
#[derive(Debug)]
struct Sent {
    clusters: f64,
    endpoints: f64,
    secrets: f64,
    routes: f64,
    extensions: f64,
    listeners: f64,
}

impl Sent {
    fn of(metrics: &Metrics) -> Self {
        let of = |kind: &str| {
            let label = format!("type=\"{kind}\"");
            metrics.sum("portolan_xds_sent_resources_total", &[&label])
                + metrics.sum("portolan_xds_sent_removals_total", &[&label])
        };
        Self {
            clusters: of("cluster"),
            endpoints: of("endpoints"),
            secrets: of("secret"),
            routes: of("route"),
            extensions: of("extension"),
            listeners: of("listener"),
        }
    }
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
