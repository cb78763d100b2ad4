//! Changes of routes and endpoints.

use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use http::StatusCode;

use portolan_testkit::manifest::{route, service};

use crate::manifest::rewritten;
use crate::world::{APP, ARRIVAL, World, pace};

const CHANGES: usize = 50;
const NAMES: [&str; 3] = ["a", "b", "c"];

/// The route goes to another Service, and the one it went to is deleted in the same write.
pub async fn moved(world: &mut World) -> anyhow::Result<()> {
    let start = Instant::now();
    for change in 1..=CHANGES {
        let name = NAMES[change % 3];
        let moved = format!("moved-{name}");
        let state = world.truth.newest().with(APP, "/one", &[name]).with(APP, "/two", &[name]);
        let manifest =
            service(&moved, &[world.address(name)]) + &route("app", APP, &[("/one", &moved), ("/two", &moved)], change);
        world.put_app(&manifest, state, change).await?;
    }
    world.phase("route moved, the old Service deleted at once", CHANGES, start);
    Ok(())
}

pub async fn swapped(world: &mut World) -> anyhow::Result<()> {
    let start = Instant::now();
    for change in 1..=CHANGES {
        let (one, two) = if change % 2 == 1 { ("a", "b") } else { ("b", "a") };
        let state = world.truth.newest().with(APP, "/one", &[one]).with(APP, "/two", &[two]);
        world.put_app(&route("app", APP, &[("/one", one), ("/two", two)], change), state, change).await?;
    }
    world.phase("clusters of two rules swapped", CHANGES, start);
    Ok(())
}

pub async fn reordered(world: &mut World) -> anyhow::Result<()> {
    let start = Instant::now();
    let state = world.truth.newest().with(APP, "/one", &["a"]).with(APP, "/two", &["b"]);
    let mut rules = [("/one", "a"), ("/two", "b"), ("/three", "c"), ("/", "c")];
    for change in 1..=CHANGES {
        rules.rotate_left(1 + change % 2);
        world.put_app(&route("app", APP, &rules, change), state.clone(), change).await?;
    }
    world.phase("rules reordered", CHANGES, start);
    Ok(())
}

pub async fn catch_all(world: &mut World) -> anyhow::Result<()> {
    let start = Instant::now();
    let state = world.truth.newest().with(APP, "/one", &["a"]).with(APP, "/two", &["b"]);
    let mut rules = [("/", "c"), ("/one", "a"), ("/two", "b")];
    for change in 1..=CHANGES {
        rules.swap(0, 1);
        world.put_app(&route("app", APP, &rules, change), state.clone(), change).await?;
    }
    world.phase("catch-all rule moved between index 0 and 1", CHANGES, start);
    Ok(())
}

/// Hosts with Services of their own come and go beside those under load. A new host answers 404, then 200, and nothing else.
pub async fn hosts(world: &mut World) -> anyhow::Result<()> {
    let start = Instant::now();
    for change in 1..=CHANGES {
        let began = Instant::now();
        let (name, file) = (format!("extra-{change}"), format!("hosts/extra-{change}.yaml"));
        let host = format!("{name}.example");
        let manifest = service(&name, &[world.address("c")]) + &route(&name, &host, &[("/", &name)], change);
        world.dir.write(&file, manifest)?;
        turns(world, &host, StatusCode::NOT_FOUND, StatusCode::OK).await?;
        pace(began).await;
        if change % 2 == 0 {
            let began = Instant::now();
            world.dir.remove(&file)?;
            turns(world, &host, StatusCode::OK, StatusCode::NOT_FOUND).await?;
            pace(began).await;
        }
    }
    world.dir.remove("hosts")?;
    for change in (1..=CHANGES).step_by(2) {
        turns(world, &format!("extra-{change}.example"), StatusCode::OK, StatusCode::NOT_FOUND).await?;
    }
    world.phase("hosts added and removed beside", 2 * CHANGES, start);
    Ok(())
}

async fn turns(world: &World, host: &str, from: StatusCode, to: StatusCode) -> anyhow::Result<()> {
    let end = Instant::now() + ARRIVAL;
    loop {
        let exchange = world.ask(host, "/").await?;
        if exchange.status == to {
            let right = to != StatusCode::OK || exchange.answer().context("an echo's answer")?.service == "c";
            ensure!(right, "{host} is answered by another backend");
            return Ok(());
        }
        ensure!(exchange.status == from, "{host} answers {} between {from} and {to}", exchange.status);
        ensure!(Instant::now() < end, "{host} still answers {from}\n{}", world.portolan.log());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// The same objects written again and again, differently: nothing is sent.
pub async fn rewritten_without_effect(world: &mut World) -> anyhow::Result<()> {
    let start = Instant::now();
    let state = world.truth.newest().with(APP, "/one", &["a"]).with(APP, "/two", &["b"]);
    let rules = [("/one", "a"), ("/two", "b")];
    world.put_app(&route("app", APP, &rules, 0), state.clone(), 0).await?;
    let files = ["gateway.yaml", "backends.yaml", "app.yaml"];
    let mut originals = Vec::new();
    for file in files {
        originals.push(std::fs::read_to_string(world.dir.file(file))?);
    }
    // What was made obsolete before is removed from proxies by and by.
    tokio::time::sleep(Duration::from_millis(500)).await;
    let before = world.portolan.metrics().await?;
    for change in 1..=CHANGES {
        for (file, original) in files.iter().zip(&originals) {
            world.dir.write(file, rewritten(original, change))?;
        }
        pace(Instant::now()).await;
    }
    tokio::time::sleep(Duration::from_millis(200)).await;
    let bytes = |metrics: &portolan_testkit::portolan::Metrics| metrics.sum("portolan_xds_sent_bytes_total", &[]);
    let sent = bytes(&world.portolan.metrics().await?) - bytes(&before);
    ensure!(bytes(&before) > 0.0, "the metric exists");
    ensure!(sent == 0.0, "{sent} bytes were sent for nothing");
    // And the files were read all the while.
    for (file, original) in files.iter().zip(&originals) {
        world.dir.write(file, original)?;
    }
    world.put_app(&route("app", APP, &rules, 1), state, 1).await?;
    world.phase("rewritten without effect (0 bytes of xDS)", CHANGES, start);
    Ok(())
}

/// The endpoints of one Service change; nothing but endpoints is sent.
pub async fn endpoints(world: &mut World) -> anyhow::Result<()> {
    let rules = [("/one", "pool"), ("/two", "pool")];
    let pool = |world: &World, names: &[&str]| {
        let addresses: Vec<_> = names.iter().map(|name| world.address(name)).collect();
        service("pool", &addresses)
    };
    let state = world.truth.newest().with(APP, "/one", &["c"]).with(APP, "/two", &["c"]);
    world.dir.write("pool.yaml", pool(world, &["c"]))?;
    world.put_app(&route("app", APP, &rules, 2), state, 2).await?;
    tokio::time::sleep(Duration::from_millis(300)).await;

    let start = Instant::now();
    let others = ["cluster", "listener", "route", "secret"];
    let before = (world.sent(&others).await?, world.sent(&["endpoints"]).await?);
    for change in 1..=CHANGES {
        let began = Instant::now();
        // None of the new endpoints was there before, so that the first of them tells that the change has arrived.
        let names: &[&str] = match change % 4 {
            0 | 2 => &["c"],
            1 => &["a"],
            _ => &["a", "b"],
        };
        world.truth.becomes(world.truth.newest().with(APP, "/one", names).with(APP, "/two", names));
        world.dir.write("pool.yaml", pool(world, names))?;
        world.answered(APP, "/one", 2).await?;
        pace(began).await;
    }
    let after = (world.sent(&others).await?, world.sent(&["endpoints"]).await?);
    ensure!(after.0 == before.0, "{} other resources were sent for endpoints", after.0 - before.0);
    ensure!(
        after.1 - before.1 == CHANGES as f64,
        "{} times endpoints were sent for {CHANGES} changes",
        after.1 - before.1
    );
    world.phase("endpoints changed (nothing else sent)", CHANGES, start);
    Ok(())
}
