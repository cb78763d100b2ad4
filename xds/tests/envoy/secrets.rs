//! Certificates that cannot be used keep no other from serving.

use std::net::SocketAddr;

use anyhow::{Result, ensure};
use portolan_proto::ResourceType::Secret;
use portolan_testkit::certs::Authority;
use portolan_testkit::client::{Endpoint, get};
use portolan_testkit::{Echo, EchoOptions, ports};
use portolan_xds::Transition;

use crate::resources::{cluster, endpoints, held, prefix, secret, table, tls_listener};
use crate::stage::{Stage, until};

/// Waits until a TLS handshake for `name` succeeds and is answered 200, by the certificate given.
async fn serves(
    at: SocketAddr,
    authority: &Authority,
    name: &str,
    certificate: &portolan_testkit::certs::Pair,
) -> Result<()> {
    let endpoint = Endpoint::http1(at).tls(authority.client_config(&["http/1.1"])?, name)?;
    until(|| async {
        let exchange = get(&endpoint, &format!("https://{name}/")).await?;
        ensure!(exchange.status == 200, "{}", exchange.status);
        ensure!(exchange.certificate == Some(certificate.der()?), "another certificate");
        Ok(())
    })
    .await?;
    Ok(())
}

async fn is_reset(at: SocketAddr, authority: &Authority, name: &str) -> Result<()> {
    let endpoint = Endpoint::http1(at).tls(authority.client_config(&["http/1.1"])?, name)?;
    let exchange = get(&endpoint, &format!("https://{name}/")).await;
    ensure!(exchange.is_err(), "{name} is served");
    Ok(())
}

#[tokio::test]
async fn held_and_refused_secrets_leave_the_others_serving() -> Result<()> {
    let echo = Echo::start(EchoOptions::named("one")).await?;
    let authority = Authority::new("test")?;
    let (a, b, a2) = (authority.server(&["a.test"])?, authority.server(&["b.test"])?, authority.server(&["a.test"])?);
    let at = ports::address()?;
    let mut stage = Stage::new(vec![
        cluster("c", "1s"),
        endpoints("c", &[echo.address()]),
        table("t", &[("*", vec![(prefix("/"), "c")])]),
        secret("a.test", &a.certificate, &a.key),
        held(Secret, "b.test"),
        tls_listener("l", at, "t", &["a.test", "b.test"]),
    ])
    .await?;
    serves(at, &authority, "a.test", &a).await?;
    is_reset(at, &authority, "b.test").await?;

    // The right secret heals without a listener update.
    stage.set(&[secret("b.test", &b.certificate, &b.key)]);
    serves(at, &authority, "b.test", &b).await?;
    ensure!(stage.served.metric("sent_resources_total", "listener") == 1);

    // Held later on: Envoy keeps what it has.
    stage.publish(vec![crate::stage::set(&held(Secret, "b.test"))]);
    until(|| async {
        ensure!(stage.served.metric("sent_removals_total", "secret") == 2, "the secret is held");
        Ok(())
    })
    .await?;
    serves(at, &authority, "b.test", &b).await?;

    // A key of another certificate next to a good one: the good one is taken, the bad one told.
    stage.set(&[secret("a.test", &a2.certificate, &a2.key), secret("b.test", &b.certificate, &a.key)]);
    serves(at, &authority, "a.test", &a2).await?;
    let refused = stage.served.transition(|transition| matches!(transition, Transition::Refused { .. })).await?;
    let Transition::Refused { key, text, .. } = &refused else { unreachable!() };
    ensure!(key.name.as_ref() == "b.test" && !text.is_empty(), "{refused:?}");
    serves(at, &authority, "b.test", &b).await?;
    Ok(())
}

#[tokio::test]
async fn a_listener_update_after_a_restart_of_the_server_keeps_its_certificates() -> Result<()> {
    let echo = Echo::start(EchoOptions::named("one")).await?;
    let authority = Authority::new("test")?;
    let a = authority.server(&["a.test"])?;
    let at = ports::address()?;
    let mut stage = Stage::new(vec![
        cluster("c", "1s"),
        endpoints("c", &[echo.address()]),
        table("t", &[("*", vec![(prefix("/"), "c")])]),
        secret("a.test", &a.certificate, &a.key),
        tls_listener("l", at, "t", &["a.test"]),
    ])
    .await?;
    serves(at, &authority, "a.test", &a).await?;
    stage.restart_server().await?;
    stage.served.transition(|transition| matches!(transition, Transition::Acked { .. })).await?;
    stage.set(&[held(Secret, "b.test"), tls_listener("l", at, "t", &["a.test", "b.test"])]);
    stage.stat("listener_manager.listener_in_place_updated", 1).await?;
    stage.stat("listener_manager.total_listeners_warming", 0).await?;
    serves(at, &authority, "a.test", &a).await?;
    ensure!(
        stage.served.metric("sent_resources_total", "secret") == 2,
        "once on reconnecting, once after the listener"
    );
    Ok(())
}
