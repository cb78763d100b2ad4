//! Changes of certificates.

use std::time::{Duration, Instant};

use anyhow::ensure;
use portolan_testkit::certs::Pair;

use crate::world::{APP, ARRIVAL, OTHER, World, pace, rotated};

const CHANGES: usize = 50;

/// A new key and certificate for the same names.
pub async fn rotate(world: &mut World) -> anyhow::Result<()> {
    let start = Instant::now();
    for _ in 0..CHANGES {
        renew(world, APP, "app").await?;
    }
    world.phase("certificate rotated", CHANGES, start);
    Ok(())
}

async fn renew(world: &World, host: &str, name: &str) -> anyhow::Result<()> {
    let began = Instant::now();
    let (pair, der) = rotated(world, host)?;
    let mut state = world.truth.newest();
    state.certificates.insert(host.to_owned(), der.clone());
    world.truth.becomes(state);
    world.dir.write(&format!("certificate-{name}.yaml"), pair.secret("default", name))?;
    let end = Instant::now() + ARRIVAL;
    while world.certificate(host).await? != der {
        ensure!(Instant::now() < end, "{host} still shows its old certificate\n{}", world.portolan.log());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    pace(began).await;
    Ok(())
}

/// The key of one certificate does not match it, then it is healed; the other certificate, and connections that ask for this one, are served all
/// the while.
pub async fn broken(world: &mut World) -> anyhow::Result<()> {
    let start = Instant::now();
    for _ in 0..CHANGES / 2 {
        let began = Instant::now();
        spoil(world)?;
        resolved(world, "False").await?;
        pace(began).await;
        renew(world, OTHER, "other").await?;
        resolved(world, "True").await?;
    }
    world.phase("another certificate broken and healed", CHANGES, start);
    Ok(())
}

/// Writes a pair that does not match under the second certificate's name.
pub fn spoil(world: &World) -> anyhow::Result<()> {
    let (right, wrong) = (rotated(world, OTHER)?.0, rotated(world, OTHER)?.0);
    let pair = Pair { certificate: right.certificate, key: wrong.key };
    world.dir.write("certificate-other.yaml", pair.secret("default", "other"))
}

/// Heals the second certificate with a new pair.
pub async fn heal(world: &World) -> anyhow::Result<()> {
    renew(world, OTHER, "other").await
}

/// Waits until the listener of the second certificate says so.
async fn resolved(world: &World, wanted: &str) -> anyhow::Result<()> {
    let end = Instant::now() + ARRIVAL;
    loop {
        let gateway = world.portolan.object("Gateway/default/web").await?;
        let listeners = gateway["status"]["listeners"].as_array().cloned().unwrap_or_default();
        let of = |name: &str| {
            let listener = listeners.iter().find(|listener| listener["name"] == name);
            let conditions = listener.and_then(|listener| listener["conditions"].as_array());
            let resolved = conditions.into_iter().flatten().find(|condition| condition["type"] == "ResolvedRefs");
            resolved.and_then(|condition| condition["status"].as_str()).unwrap_or_default().to_owned()
        };
        ensure!(of("https-app") == "True", "the other certificate is no matter of this listener: {gateway:#}");
        if of("https-other") == wanted {
            return Ok(());
        }
        ensure!(Instant::now() < end, "ResolvedRefs of the listener is not {wanted}: {gateway:#}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
