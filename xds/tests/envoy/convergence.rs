//! Envoy gets what is published, fast, and without a gap.

use std::time::Duration;

use anyhow::{Result, ensure};
use portolan_proto::ResourceType::{Cluster, Endpoints, Listener};
use portolan_proto::{Change, ResourceKey};
use portolan_testkit::client::{Endpoint, get};
use portolan_testkit::{Echo, EchoOptions, ports};
use portolan_xds::Transition;

use crate::resources::{cluster, endpoints, listener, prefix, table, tcp_listener, tcp_proxy};
use crate::stage::{Stage, until};

#[tokio::test]
async fn a_new_proxy_serves_what_is_published_and_follows_every_change() -> Result<()> {
    let (one, two) = (Echo::start(EchoOptions::named("one")).await?, Echo::start(EchoOptions::named("two")).await?);
    let at = ports::address()?;
    let mut stage = Stage::new(vec![
        cluster("c", "1s"),
        endpoints("c", &[one.address()]),
        table("t", &[("a.test", vec![(prefix("/"), "c")])]),
        listener("l", at, "t"),
    ])
    .await?;
    stage.answers(at, "http://a.test/", 200, Some("one")).await?;
    let acked = stage.served.transition(|transition| matches!(transition, Transition::Acked { .. })).await?;
    ensure!(matches!(acked, Transition::Acked { position: 4, first: true, .. }), "{acked:?}");

    // A cluster that changes warms for 15 s unless its endpoints come after it.
    stage.set(&[cluster("c", "2s")]);
    let took = stage.stat("cluster_manager.cluster_modified", 1).await?;
    let warmed = stage.stat("cluster_manager.warming_clusters", 0).await?;
    ensure!(took + warmed < Duration::from_secs(5), "warming took {:?}", took + warmed);

    stage.set(&[endpoints("c", &[two.address()])]);
    stage.answers(at, "http://a.test/", 200, Some("two")).await?;

    // A new route on a new cluster: 404 before, then 200, never 503.
    stage.set(&[
        cluster("d", "1s"),
        endpoints("d", &[one.address()]),
        table(
            "t",
            &[("a.test", vec![(prefix("/new"), "d"), (prefix("/"), "c")]), ("b.test", vec![(prefix("/"), "d")])],
        ),
    ]);
    until(|| async {
        let exchange = get(&Endpoint::http1(at), "http://b.test/").await?;
        assert!(exchange.status == 404 || exchange.status == 200, "{}", exchange.status);
        ensure!(exchange.status == 200, "not yet");
        Ok(())
    })
    .await?;

    // No endpoints are an answer too.
    stage.set(&[endpoints("d", &[])]);
    stage.answers(at, "http://b.test/", 503, None).await?;
    stage.answers(at, "http://a.test/", 200, Some("two")).await?;

    // The cluster goes after the table that names it.
    stage.publish(vec![
        Change { key: ResourceKey::new(Cluster, "d"), resource: None },
        Change { key: ResourceKey::new(Endpoints, "d"), resource: None },
        crate::stage::set(&table("t", &[("a.test", vec![(prefix("/"), "c")])])),
    ]);
    stage.stat("cluster_manager.cluster_removed", 1).await?;
    stage.answers(at, "http://b.test/", 404, None).await?;

    stage.publish(vec![Change { key: ResourceKey::new(Listener, "l"), resource: None }]);
    stage.stat("listener_manager.listener_removed", 1).await?;
    ensure!(stage.served.metric("refusals_total", "cluster") == 0);
    Ok(())
}

#[tokio::test]
async fn swapping_the_cluster_of_a_route_under_load_fails_nothing() -> Result<()> {
    let (one, two) = (Echo::start(EchoOptions::named("one")).await?, Echo::start(EchoOptions::named("two")).await?);
    let at = ports::address()?;
    let world = |name: &str, echo: &Echo| {
        vec![
            cluster(name, "1s"),
            endpoints(name, &[echo.address()]),
            table("t", &[("a.test", vec![(prefix("/"), name)])]),
        ]
    };
    let mut first = world("c0", &one);
    first.push(listener("l", at, "t"));
    let mut stage = Stage::new(first).await?;
    stage.answers(at, "http://a.test/", 200, Some("one")).await?;
    let mut previous = "c0".to_string();
    for round in 1..=10 {
        let name = format!("c{round}");
        let (echo, backend) = if round % 2 == 0 { (&one, "one") } else { (&two, "two") };
        let mut changes: Vec<_> = world(&name, echo).iter().map(crate::stage::set).collect();
        changes.push(Change { key: ResourceKey::new(Cluster, previous.as_str()), resource: None });
        changes.push(Change { key: ResourceKey::new(Endpoints, previous.as_str()), resource: None });
        stage.publish(changes);
        until(|| async {
            let exchange = get(&Endpoint::http1(at), "http://a.test/").await?;
            assert_eq!(exchange.status, 200, "round {round}");
            ensure!(exchange.header(portolan_testkit::echo::IDENTITY) == Some(backend), "not yet");
            Ok(())
        })
        .await?;
        previous = name;
    }
    stage.stat("cluster_manager.cluster_removed", 10).await?;
    Ok(())
}

#[tokio::test]
async fn a_filter_configuration_moves_a_tcp_listener_without_changing_it() -> Result<()> {
    let (one, two) = (Echo::start(EchoOptions::named("one")).await?, Echo::start(EchoOptions::named("two")).await?);
    let at = ports::address()?;
    let mut stage = Stage::new(vec![
        cluster("one", "1s"),
        cluster("two", "1s"),
        endpoints("one", &[one.address()]),
        endpoints("two", &[two.address()]),
        tcp_proxy("tcp/l", "l", "one"),
        tcp_listener("l", at, "tcp/l"),
    ])
    .await?;
    stage.answers(at, "http://any.test/", 200, Some("one")).await?;
    stage.publish(vec![
        crate::stage::set(&tcp_proxy("tcp/l", "l", "two")),
        Change { key: ResourceKey::new(Cluster, "one"), resource: None },
        Change { key: ResourceKey::new(Endpoints, "one"), resource: None },
    ]);
    stage.answers(at, "http://any.test/", 200, Some("two")).await?;
    stage.stat("cluster_manager.cluster_removed", 1).await?;
    // A bad one is refused and told; the one before it stays.
    stage.set(&[tcp_proxy("tcp/l", "", "two")]);
    let refused = stage.served.transition(|transition| matches!(transition, Transition::Refused { .. })).await?;
    ensure!(matches!(&refused, Transition::Refused { key, .. } if key.name.as_ref() == "tcp/l"), "{refused:?}");
    stage.answers(at, "http://any.test/", 200, Some("two")).await?;
    stage.stat("listener_manager.listener_modified", 0).await?;
    Ok(())
}
