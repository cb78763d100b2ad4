//! A server without memory sends a proxy that has everything nothing but endpoints and secrets.

use anyhow::{Result, ensure};
use portolan_proto::ResourceType::{Cluster, Endpoints};
use portolan_proto::{Change, ResourceKey};
use portolan_testkit::{Echo, EchoOptions, ports};
use portolan_xds::Transition;

use crate::resources::{cluster, endpoints, listener, prefix, table};
use crate::stage::{Stage, until};

#[tokio::test]
async fn a_new_server_sends_no_cluster_table_or_listener_that_did_not_change() -> Result<()> {
    let echo = Echo::start(EchoOptions::named("one")).await?;
    let at = ports::address()?;
    let mut stage = Stage::new(vec![
        cluster("c", "1s"),
        cluster("old", "1s"),
        endpoints("c", &[echo.address()]),
        endpoints("old", &[]),
        table("t", &[("a.test", vec![(prefix("/"), "c")])]),
        listener("l", at, "t"),
    ])
    .await?;
    stage.answers(at, "http://a.test/", 200, Some("one")).await?;

    stage.restart_server().await?;
    stage.served.transition(|transition| matches!(transition, Transition::Acked { .. })).await?;
    until(|| async {
        ensure!(stage.served.metric("sent_resources_total", "endpoints") == 2, "endpoints are answered once");
        Ok(())
    })
    .await?;
    for kind in ["cluster", "listener", "route"] {
        ensure!(stage.served.metric("sent_resources_total", kind) == 0, "{kind} was sent again");
        ensure!(stage.served.metric("sent_removals_total", kind) == 0, "{kind} was removed");
    }
    stage.answers(at, "http://a.test/", 200, Some("one")).await?;

    // What changed and what vanished while nobody served is made up for.
    stage.publish(vec![
        Change { key: ResourceKey::new(Cluster, "old"), resource: None },
        Change { key: ResourceKey::new(Endpoints, "old"), resource: None },
    ]);
    stage.stat("cluster_manager.cluster_removed", 1).await?;
    stage.set(&[cluster("c", "3s")]);
    stage.stat("cluster_manager.cluster_modified", 1).await?;
    stage.stat("cluster_manager.warming_clusters", 0).await?;
    stage.restart_server().await?;
    stage.served.transition(|transition| matches!(transition, Transition::Acked { .. })).await?;
    ensure!(stage.served.metric("sent_resources_total", "cluster") == 0);
    stage.set(&[table("t", &[("b.test", vec![(prefix("/"), "c")])])]);
    stage.answers(at, "http://b.test/", 200, Some("one")).await?;
    stage.answers(at, "http://a.test/", 404, None).await?;
    Ok(())
}
