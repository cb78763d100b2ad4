//! A replica that is cut off only helps (design invariant 17).

use std::time::Duration;

use anyhow::{Result, ensure};
use portolan_proto::ResourceType::{Cluster, Endpoints, Listener};
use portolan_proto::{Change, ResourceKey};
use portolan_testkit::client::{Endpoint, get};
use portolan_testkit::{Echo, EchoOptions, ports};
use portolan_xds::Transition;

use crate::resources::{cluster, endpoints, listener, prefix, table};
use crate::stage::{Stage, set};

fn gone(kind: portolan_proto::ResourceType, name: &str) -> Change {
    Change { key: ResourceKey::new(kind, name), resource: None }
}

/// The proxy comes from a replica that knows that a route, a backend and a listener are no more.
#[tokio::test]
async fn a_proxy_keeps_what_it_has_and_a_new_one_gets_what_was_last() -> Result<()> {
    let (one, two) = (Echo::start(EchoOptions::named("one")).await?, Echo::start(EchoOptions::named("two")).await?);
    let (at, shut, new) = (ports::address()?, ports::address()?, ports::address()?);
    let old = vec![
        cluster("c", "1s"),
        cluster("granted", "1s"),
        endpoints("c", &[one.address()]),
        endpoints("granted", &[one.address()]),
        table("t", &[("a.test", vec![(prefix("/"), "c")]), ("granted.test", vec![(prefix("/"), "granted")])]),
        listener("l", at, "t"),
        listener("shut", shut, "t"),
    ];
    let mut stage = Stage::new(old.clone()).await?;
    stage.answers(at, "http://granted.test/", 200, Some("one")).await?;
    stage.publish(vec![
        set(&table("t", &[("a.test", vec![(prefix("/"), "c")])])),
        gone(Cluster, "granted"),
        gone(Endpoints, "granted"),
        set(&endpoints("c", &[two.address()])),
        gone(Listener, "shut"),
    ]);
    stage.stat("cluster_manager.cluster_removed", 1).await?;
    stage.stat("listener_manager.listener_removed", 1).await?;
    stage.answers(at, "http://a.test/", 200, Some("two")).await?;

    stage.replace_server(old, true).await?;
    // And what it goes on hearing of changes nothing.
    stage.set(&[listener("new", new, "t"), cluster("c", "2s")]);
    for _ in 0..100 {
        let status = get(&Endpoint::http1(at), "http://granted.test/").await?.status;
        ensure!(status == 404, "what was taken away comes back: {status}");
        let exchange = get(&Endpoint::http1(at), "http://a.test/").await?;
        ensure!(exchange.header(portolan_testkit::echo::IDENTITY) == Some("two"), "an old backend comes back");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    for statistic in ["cluster_manager.cluster_modified", "listener_manager.listener_modified"] {
        ensure!(stage.envoy.stat(statistic).await? == Some(0), "{statistic}");
    }
    for gone in [shut, new] {
        ensure!(get(&Endpoint::http1(gone), "http://a.test/").await.is_err(), "{gone} is open");
    }

    // An Envoy that starts now serves all the same.
    stage.restart_envoy().await?;
    stage.answers(at, "http://granted.test/", 200, Some("one")).await?;
    stage.answers(shut, "http://a.test/", 200, Some("one")).await?;

    stage.publish(vec![
        set(&table("t", &[("a.test", vec![(prefix("/"), "c")])])),
        gone(Cluster, "granted"),
        gone(Endpoints, "granted"),
        gone(Listener, "shut"),
    ]);
    stage.served.set_cut_off(false);
    stage.answers(at, "http://granted.test/", 404, None).await?;
    stage.answers(new, "http://a.test/", 200, Some("one")).await?;
    stage.stat("listener_manager.listener_removed", 1).await?;
    stage.stat("cluster_manager.cluster_removed", 1).await?;
    ensure!(stage.served.metric("refusals_total", "cluster") == 0);
    stage.served.transition(|transition| matches!(transition, Transition::Acked { .. })).await?;
    Ok(())
}
