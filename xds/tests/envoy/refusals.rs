//! What Envoy refuses is traced to its smallest part, and disturbs nothing else.

use anyhow::{Result, ensure};
use portolan_proto::Part;
use portolan_proto::ResourceType::Cluster;
use portolan_testkit::{Echo, EchoOptions, ports};
use portolan_xds::Transition;
use serde_json::json;

use crate::resources::{Host, cluster, endpoints, listener, origin, prefix, resource, table};
use crate::stage::Stage;

#[tokio::test]
async fn a_bad_route_among_good_ones_is_named_and_the_live_table_stays() -> Result<()> {
    let echo = Echo::start(EchoOptions::named("one")).await?;
    let at = ports::address()?;
    let names: Vec<_> = (0..20).map(|index| format!("h{index:02}.test")).collect();
    let hosts = |bad: bool| -> Vec<Host<'_>> {
        names
            .iter()
            .map(|name| {
                let mut routes = vec![(prefix("/x"), "c"), (prefix("/"), "c")];
                if bad && name == "h07.test" {
                    let regex = json!({"safe_regex": {"regex": "/(unclosed"}});
                    routes.insert(1, (regex, "c"));
                }
                (name.as_str(), routes)
            })
            .collect()
    };
    let world =
        vec![cluster("c", "1s"), endpoints("c", &[echo.address()]), table("t", &hosts(false)), listener("l", at, "t")];
    let mut stage = Stage::new(world).await?;
    stage.answers(at, "http://h07.test/", 200, Some("one")).await?;

    let mut with_bad = hosts(true);
    with_bad.push(("new.test", vec![(prefix("/"), "c")]));
    stage.set(&[table("t", &with_bad)]);
    let refused = stage.served.transition(|transition| matches!(transition, Transition::Refused { .. })).await?;
    let Transition::Refused { key, part, origins, text, .. } = &refused else { unreachable!() };
    ensure!(key.name.as_ref() == "t" && matches!(part, Part::Unit(_)), "{refused:?}");
    ensure!(origins == &[origin("h07.test-1")], "{refused:?}");
    ensure!(text.contains("missing )"), "{text}");
    stage.answers(at, "http://h07.test/", 200, Some("one")).await?;
    stage.answers(at, "http://new.test/", 404, None).await?;

    // Without it the table is taken.
    let mut without = hosts(false);
    without.push(("new.test", vec![(prefix("/"), "c")]));
    stage.set(&[table("t", &without)]);
    stage.answers(at, "http://new.test/", 200, Some("one")).await?;
    stage.served.transition(|transition| matches!(transition, Transition::RefusalCleared { .. })).await?;
    Ok(())
}

#[tokio::test]
async fn a_table_that_is_bad_from_the_start_does_not_keep_the_others_away() -> Result<()> {
    let echo = Echo::start(EchoOptions::named("one")).await?;
    let (good, bad) = (ports::address()?, ports::address()?);
    let regex = json!({"safe_regex": {"regex": "/(unclosed"}});
    let world = vec![
        cluster("c", "1s"),
        endpoints("c", &[echo.address()]),
        table("good", &[("a.test", vec![(prefix("/"), "c")])]),
        table("bad", &[("a.test", vec![(regex, "c")])]),
        listener("good", good, "good"),
    ];
    let mut stage = Stage::new(world).await?;
    stage.set(&[listener("bad", bad, "bad")]);
    let refused = stage.served.transition(|transition| matches!(transition, Transition::Refused { .. })).await?;
    let Transition::Refused { key, origins, .. } = &refused else { unreachable!() };
    ensure!(key.name.as_ref() == "bad" && origins == &[origin("a.test-0")], "{refused:?}");
    stage.answers(good, "http://a.test/", 200, Some("one")).await?;
    Ok(())
}

#[tokio::test]
async fn a_bad_cluster_among_many_is_named_and_the_others_are_taken() -> Result<()> {
    let echo = Echo::start(EchoOptions::named("one")).await?;
    let at = ports::address()?;
    // Refused by validation of the message, for which Envoy refuses the whole response and names no cluster.
    let bad = resource(Cluster, "m-bad", &json!({"name": "m-bad", "type": "STATIC", "connect_timeout": "-1s"}), &[]);
    let mut world: Vec<_> = (0..20).map(|index| cluster(&format!("c{index}"), "1s")).collect();
    world.extend((0..20).map(|index| endpoints(&format!("c{index}"), &[echo.address()])));
    world.extend([bad, cluster("z", "1s"), endpoints("z", &[echo.address()])]);
    world.push(table("t", &[("a.test", vec![(prefix("/bad"), "m-bad"), (prefix("/"), "z")])]));
    world.push(listener("l", at, "t"));
    let mut stage = Stage::new(world).await?;
    stage.answers(at, "http://a.test/", 200, Some("one")).await?;
    let refused = stage.served.transition(|transition| matches!(transition, Transition::Refused { .. })).await?;
    let Transition::Refused { key, part, .. } = &refused else { unreachable!() };
    ensure!(key.name.as_ref() == "m-bad" && *part == Part::Whole, "{refused:?}");
    stage.stat("cluster_manager.active_clusters", 22).await?;
    Ok(())
}
