//! A replica that does not know the world yet.

use std::io::ErrorKind;
use std::time::{Duration, Instant};

use portolan_testkit::Forwarder;
use portolan_testkit::client::{Endpoint, get};
use portolan_testkit::kube::{Kube, KubeOptions};
use tokio::net::TcpStream;

use crate::cut_off::Replica;
use crate::{CLASS, PATIENCE, until};

/// As a container that starts again in its pod, to which its Service may lead for a moment: whoever it refused goes to another replica, whoever
/// it let wait would hear of nothing meanwhile.
#[tokio::test(flavor = "multi_thread")]
async fn a_replica_lets_nobody_in_until_it_knows_the_world() {
    let kube = Kube::start(&KubeOptions::default()).await.unwrap();
    kube.apply(CLASS).unwrap();
    let good = Replica::start(&kube.kubeconfig(), "good");
    until(&kube, &good.process, "secret", "portolan-system/portolan-ca", |_| true).await;
    let api = Forwarder::start(kube.address()).await.unwrap();
    api.stall(true);
    let slow = Replica::behind(&kube, &api, "slow");
    let ready =
        async || get(&Endpoint::http1(slow.admin), "http://portolan/readyz").await.map(|answer| answer.status.as_u16());
    let open = async || TcpStream::connect(slow.xds).await.map(|_| ()).map_err(|error| error.kind());
    let end = Instant::now() + PATIENCE;
    while ready().await.ok() != Some(503) {
        assert!(Instant::now() < end, "{}", slow.process.log());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    for _ in 0..20 {
        assert_eq!(open().await, Err(ErrorKind::ConnectionRefused));
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(ready().await.unwrap(), 503);
    api.stall(false);
    let end = Instant::now() + PATIENCE;
    while open().await.is_err() {
        assert!(Instant::now() < end, "{}", slow.process.log());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(ready().await.unwrap(), 200, "it lets proxies in, and is not ready");
}
