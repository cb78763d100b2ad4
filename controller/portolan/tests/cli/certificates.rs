//! Certificates whose time comes and goes while `portolan run` runs.

use std::net::SocketAddr;
use std::time::{Duration, Instant, SystemTime};

use portolan_testkit::certs::{Authority, Leaf, Pair, trust_anything};
use portolan_testkit::client::{Endpoint, get};
use portolan_testkit::{Dir, ports};
use serde_json::Value;

use crate::fixture::{PATIENCE, Portolan, gateway};

const HOST: &str = "shop.example";

/// The certificate that a new connection is shown.
async fn shown(port: u16) -> Vec<u8> {
    let plain = Endpoint::http1(SocketAddr::from(([127, 0, 0, 1], port)));
    let endpoint = plain.tls(trust_anything(&["http/1.1"]).unwrap(), HOST).unwrap();
    let answer = get(&endpoint, &format!("https://{HOST}/")).await.unwrap();
    assert_eq!(answer.status.as_u16(), 404, "no route");
    answer.certificate.unwrap().to_vec()
}

fn der(pair: &Pair) -> Vec<u8> {
    pair.der().unwrap().to_vec()
}

/// `ResolvedRefs` of the listener.
async fn resolved(portolan: &Portolan) -> Value {
    let gateway = portolan.json("/objects/Gateway/default/web").await;
    let conditions = gateway["status"]["listeners"][0]["conditions"].as_array().unwrap().clone();
    conditions.into_iter().find(|condition| condition["type"] == "ResolvedRefs").unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_expires_is_held_and_a_renewed_one_heals() {
    let authority = Authority::new("test").unwrap();
    let port = ports::free().unwrap();
    let dir = Dir::new().unwrap();
    let listener =
        gateway(port).replace("protocol: HTTP\n", "protocol: HTTPS\n    tls: {certificateRefs: [{name: shop}]}\n");
    dir.write("gateway.yaml", listener).unwrap();
    // Long enough for Portolan and Envoy to be there on a busy machine.
    let short = Leaf::server(&[HOST]).expiring(Duration::from_secs(15));
    let end = short.not_after;
    let short = authority.issue(&short).unwrap();
    dir.write("shop.yaml", short.secret("default", "shop")).unwrap();
    let mut portolan = Portolan::start(&dir, &[]);
    portolan.ready().await;
    assert_eq!(resolved(&portolan).await["status"], "True");
    assert_eq!(shown(port).await, der(&short));
    assert!(SystemTime::now() < end, "the machine is too slow for this test");

    portolan
        .line(
            0,
            &[
                "gateway.yaml:",
                "listener http",
                "ResolvedRefs=False",
                "InvalidCertificateRef",
                "default/shop",
                "expired on",
            ],
        )
        .await;
    assert!(SystemTime::now() > end);
    let condition = resolved(&portolan).await;
    assert_eq!((&condition["status"], &condition["reason"]), (&"False".into(), &"InvalidCertificateRef".into()));
    // Held: new connections are served with what Envoy has, now and later.
    for _ in 0..10 {
        assert_eq!(shown(port).await, der(&short));
        tokio::time::sleep(Duration::from_millis(100)).await;
    }

    let renewed = authority.server(&[HOST]).unwrap();
    let from = portolan.log().len();
    dir.write("shop.yaml", renewed.secret("default", "shop")).unwrap();
    portolan.line(from, &["cleared:", "ResolvedRefs=False"]).await;
    let end = Instant::now() + PATIENCE;
    while shown(port).await != der(&renewed) {
        assert!(Instant::now() < end, "the renewed certificate is not shown");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    portolan.stop().await;
}

/// The time of the call counts for commands that do not serve.
#[test]
fn check_judges_by_the_time_of_the_call() {
    let authority = Authority::new("test").unwrap();
    let dir = Dir::new().unwrap();
    dir.write(
        "gateway.yaml",
        gateway(443).replace("protocol: HTTP\n", "protocol: HTTPS\n    tls: {certificateRefs: [{name: shop}]}\n"),
    )
    .unwrap();
    let expired = authority.issue(&Leaf::server(&[HOST]).expired()).unwrap();
    dir.write("shop.yaml", expired.secret("default", "shop")).unwrap();
    let path = dir.path();
    let output = crate::fixture::portolan(&path, &["check", "."]);
    let text = crate::fixture::out(&output) + &crate::fixture::err(&output);
    assert!(text.contains("Secret default/shop has a certificate that expired on 2021-01-01T00:00:00Z"), "{text}");
    dir.write("shop.yaml", authority.server(&[HOST]).unwrap().secret("default", "shop")).unwrap();
    assert!(crate::fixture::portolan(&path, &["check", "."]).status.success());
}
