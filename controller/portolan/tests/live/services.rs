//! A Service is replaced by another and deleted in the same moment (design invariant 18).

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use portolan_testkit::load::{Load, backends};
use portolan_testkit::{Echo, EchoOptions};

use crate::bed::{PATIENCE, ROUTE, SERVICE, SLICE};
use crate::scene::{Scene, phase, route, service, settle};

const NAMESPACE: &str = "live-services";
const TIMES: usize = 200;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_service_that_is_replaced_and_deleted_at_once_fails_nothing() {
    let scene = Scene::new(NAMESPACE, 2).await;
    let bed = &scene.bed;
    let (_, node) = bed.node().await;
    let echo = async |name: &str| {
        let listen = SocketAddr::new(node, 0);
        Echo::start(EchoOptions { listen, ..EchoOptions::named(name) }).await.unwrap()
    };
    let backs = [("a", echo("a").await), ("b", echo("b").await)];
    let make = async |(name, echo): &(&str, Echo)| {
        for (kind, object) in [SERVICE, SLICE].into_iter().zip(service(name, echo.address())) {
            bed.put(kind, NAMESPACE, name, &object).await;
        }
    };
    make(&backs[0]).await;
    bed.put(ROUTE, NAMESPACE, "app", &route("app", "a")).await;
    let load = Load::start(&scene.workers(&backends(&["echo", "a", "b"])));
    load.further(500, PATIENCE).await.unwrap();
    let mut so_far = phase("undisturbed", &load, (0, 0));
    let began = Instant::now();
    for time in 0..TIMES {
        let (old, new) = (&backs[time % 2], &backs[(time + 1) % 2]);
        make(new).await;
        let arrived = new.1.requests();
        let moved = route("app", new.0);
        // Each as soon as the one before is stored, as `kubectl apply --prune` does it: there is no moment in which the route names nothing.
        bed.put(ROUTE, NAMESPACE, "app", &moved).await;
        tokio::join!(bed.delete(SERVICE, NAMESPACE, old.0), bed.delete(SLICE, NAMESPACE, old.0));
        let end = Instant::now() + PATIENCE;
        while new.1.requests() < arrived + 20 {
            assert!(Instant::now() < end, "{time}: no request arrives at {}", new.0);
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        if time % 50 == 49 {
            so_far = phase(&format!("replaced {} times, in {:?}", time + 1, began.elapsed()), &load, so_far);
        }
    }
    settle(load).await;
    scene.finish();
}
