//! Real traffic through the real Envoy while the world changes: nothing but the old and the new answer is ever seen, and no request fails.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]
#![allow(clippy::print_stdout, reason = "the report of a long test")]
#![allow(clippy::float_cmp, reason = "counters are whole numbers")]

mod certificates;
mod explain;
mod generate;
mod manifest;
mod restarts;
mod routes;
mod truth;
mod world;

use world::World;

/// The brief of the whole project in one test: at least 50 changes of each kind under more than 500 requests a second of every kind, none failed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_fails_while_everything_changes() -> anyhow::Result<()> {
    let mut world = World::start().await?;
    routes::moved(&mut world).await?;
    routes::swapped(&mut world).await?;
    routes::reordered(&mut world).await?;
    routes::catch_all(&mut world).await?;
    routes::hosts(&mut world).await?;
    routes::rewritten_without_effect(&mut world).await?;
    routes::endpoints(&mut world).await?;
    certificates::rotate(&mut world).await?;
    certificates::broken(&mut world).await?;
    restarts::killed(&mut world).await?;
    world.finish().await
}
