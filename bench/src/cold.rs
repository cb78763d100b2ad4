//! From nothing to 10,000 routes computed and encoded, in a process of its own.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use portolan_engine::{Engine, Options};
use portolan_proto::Snapshot;
use serde_json::{Value, json};

use crate::measure::{Row, megabytes, peak, resident};
use crate::scene;

const ROUTES: usize = 10_000;

/// Measures itself and says so as JSON.
pub fn child() {
    let start = Instant::now();
    let mut engine = Engine::new(Options::default());
    drop(engine.apply(scene::world(ROUTES)));
    let snapshot = engine.snapshot(&scene::gateway_name());
    let lengths = snapshot
        .into_iter()
        .flat_map(Snapshot::iter)
        .map(|resource| resource.body.message().map_or(0, |message| message.len()));
    let (resources, bytes) = lengths.fold((0, 0), |(resources, bytes), length| (resources + 1, bytes + length));
    let took = start.elapsed();
    let pid = std::process::id();
    let top = peak(pid);
    // What allocators give back by themselves, they give back by now.
    std::thread::sleep(Duration::from_secs(2));
    let settled = resident(pid);
    println!(
        "{}",
        json!({"seconds": took.as_secs_f64(), "resources": resources, "bytes": bytes, "peak": top, "settled": settled})
    );
    // The world must still be there when memory is read.
    drop(engine);
}

pub fn rows() -> anyhow::Result<Vec<Row>> {
    let output = Command::new(std::env::current_exe()?).args(["--child", "cold"]).stderr(Stdio::inherit()).output()?;
    ensure!(output.status.success(), "the process ended with {}", output.status);
    let measured: Value = serde_json::from_slice(&output.stdout)?;
    let number =
        |name: &str| measured.get(name).and_then(Value::as_u64).with_context(|| format!("no {name} in {measured}"));
    let seconds = measured.get("seconds").and_then(Value::as_f64).context("no seconds")?;
    let (resources, bytes) = (number("resources")?, number("bytes")?);
    // Each route has a cluster and endpoints.
    ensure!(resources > 2 * ROUTES as u64, "only {resources} resources were computed");
    let (top, settled) = (number("peak")?, number("settled")?);
    Ok(vec![
        Row {
            what: "cold start, 10,000 routes: all resources computed and encoded",
            bar: "< 5 s",
            measured: format!("{seconds:.2} s ({resources} resources, {})", megabytes(bytes)),
            kept: Some(seconds < 5.0),
        },
        Row { what: "peak memory meanwhile", bar: "< 250 MB", measured: megabytes(top), kept: Some(top < 250_000_000) },
        Row {
            what: "settled memory",
            bar: "< 150 MB",
            measured: megabytes(settled),
            kept: Some(settled < 150_000_000),
        },
    ])
}
