//! Certificates of a listener and the authority behind xDS, both replaced under load.

use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kube::api::{Patch, PatchParams};
use portolan_testkit::certs::{Authority, Pair};
use portolan_testkit::client::{Endpoint, Protocol, get};
use portolan_testkit::load::{Kind, Load, Worker, backend};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use serde_json::{Value, json};
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::bed::{PATIENCE, Replica, SECRET, kubectl};
use crate::process::Envoy;
use crate::scene::{HOST, Scene, phase, settle};

const NAMESPACE: &str = "live-certificates";
/// How long it goes on. A new authority signs ten minutes after it was asked for, with the leaves of ten minutes that `live.sh` sets, and the one before it is
/// forgotten after ten more.
const MINUTES: &str = "PORTOLAN_LIVE_MINUTES";
const LEAF: Duration = Duration::from_mins(10);
/// Between two certificates of the listener.
const EVERY: Duration = Duration::from_secs(5);
/// When new authorities are asked for.
const ROTATIONS: [Duration; 3] = [Duration::from_secs(10), Duration::from_mins(1), Duration::from_secs(110)];
/// From the moment that a step is due until the fleet's Secret shows it: the leader looks every five seconds.
const LOOK: Duration = Duration::from_secs(20);

fn certificate(secret: &Value, key: &str) -> String {
    String::from_utf8(STANDARD.decode(secret["data"][key].as_str().unwrap()).unwrap()).unwrap()
}

/// The common name of the authority that has signed the first certificate.
fn issuer(pem: &str) -> String {
    let der = CertificateDer::from_pem_slice(pem.as_bytes()).unwrap();
    let (_, parsed) = x509_parser::parse_x509_certificate(&der).unwrap();
    parsed.issuer().iter_common_name().next().unwrap().as_str().unwrap().to_owned()
}

/// Whether a proxy with this identity and a replica take each other, by a handshake: what the proxy would meet if it came at this moment.
async fn trust([certificate, key, authorities]: &[String; 3], replica: &Replica) -> io::Result<()> {
    let mut roots = rustls::RootCertStore::empty();
    for authority in CertificateDer::pem_slice_iter(authorities.as_bytes()) {
        roots.add(authority.unwrap()).unwrap();
    }
    let chain = CertificateDer::pem_slice_iter(certificate.as_bytes()).map(Result::unwrap).collect();
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
    let config = rustls::ClientConfig::builder().with_root_certificates(roots).with_client_auth_cert(chain, key);
    let mut config = config.unwrap();
    config.alpn_protocols = vec![b"h2".to_vec()];
    let name = ServerName::try_from("portolan.portolan-system.svc").unwrap();
    let mut stream =
        TlsConnector::from(Arc::new(config)).connect(name, TcpStream::connect(replica.xds()).await?).await?;
    // With TLS 1.3 the server judges the client's certificate after this: an alert is the first that it sends then.
    stream.get_ref().0.peek(&mut [0]).await?;
    assert_eq!(stream.read(&mut []).await?, 0);
    Ok(())
}

fn workers(scene: &Scene, authority: &Authority) -> Vec<Worker> {
    let uri = format!("https://{HOST}/");
    let at = std::net::SocketAddr::new(scene.address.ip(), 443);
    let endpoint = |protocol, alpn: &str| {
        Endpoint::new(at, protocol).tls(authority.client_config(&[alpn]).unwrap(), HOST).unwrap()
    };
    let (h1, h2) = (endpoint(Protocol::Http1, "http/1.1"), endpoint(Protocol::Http2, "h2"));
    let plain = Endpoint::http1(scene.address);
    let worker = |name, kind, endpoint: &Endpoint, uri: &str, rate| {
        Worker::get(name, kind, endpoint.clone(), uri, rate, backend("echo")).unwrap()
    };
    let plain = worker("plain", Kind::KeepAlive, &plain, &format!("http://{HOST}/"), 20.0);
    let kept = worker("http1 tls", Kind::KeepAlive, &h1, &uri, 20.0);
    let streams = worker("http2 tls", Kind::Streams(10), &h2, &uri, 200.0);
    let new = [
        worker("new tls", Kind::NewConnection, &h1, &uri, 10.0),
        worker("new tls", Kind::NewConnection, &h2, &uri, 10.0),
    ];
    [vec![plain; 5], vec![kept; 5], vec![streams], [new.as_slice(); 5].concat()].concat()
}

/// Writes a new certificate of the listener and waits until a new connection is shown it.
async fn renew(scene: &Scene, authority: &Authority) -> Duration {
    let pair: Pair = authority.server(&[HOST]).unwrap();
    let data = json!({"data": {"tls.crt": STANDARD.encode(&pair.certificate), "tls.key": STANDARD.encode(&pair.key)}});
    let api = scene.bed.api(SECRET, NAMESPACE);
    api.patch("cert", &PatchParams::default(), &Patch::Merge(data)).await.unwrap();
    let written = Instant::now();
    let at = std::net::SocketAddr::new(scene.address.ip(), 443);
    let endpoint = Endpoint::http1(at).tls(authority.client_config(&["http/1.1"]).unwrap(), HOST).unwrap();
    let new = pair.der().unwrap();
    loop {
        let shown = get(&endpoint, &format!("https://{HOST}/")).await.unwrap();
        if shown.certificate.as_ref() == Some(&new) {
            return written.elapsed();
        }
        assert!(written.elapsed() < EVERY, "the listener still shows its old certificate after {EVERY:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn certificates_and_authorities_that_are_replaced_fail_nothing() {
    let minutes: u64 = std::env::var(MINUTES).map_or(13, |minutes| minutes.parse().unwrap());
    let listeners = Authority::new("listeners").unwrap();
    let https = "  - {name: https, port: 443, protocol: HTTPS, tls: {certificateRefs: [{name: cert}]}}\n";
    let secret = listeners.server(&[HOST]).unwrap().secret(NAMESPACE, "cert");
    let scene = Scene::of_class("portolan", NAMESPACE, 2, https, &secret).await;
    let bed = &scene.bed;
    let proxies: Vec<Envoy> = bed.proxies(NAMESPACE, "web", 2).await.iter().map(|(_, uid)| Envoy::of(uid)).collect();
    let replicas = bed.replicas().await;
    let load = Load::start(&workers(&scene, &listeners));
    load.further(1000, PATIENCE).await.unwrap();
    let mut so_far = phase("undisturbed", &load, (0, 0));

    let (began, length) = (Instant::now(), Duration::from_secs(minutes * 60));
    let (mut times, mut handshakes, mut fewest) = (Vec::new(), 0, f64::INFINITY);
    let (mut issuers, mut most) = (BTreeSet::new(), 0);
    let mut asked = 0;
    let mut tick = tokio::time::interval(EVERY);
    while began.elapsed() < length {
        tick.tick().await;
        times.push(renew(&scene, &listeners).await);
        if ROTATIONS.get(asked).is_some_and(|due| *due <= began.elapsed()) {
            let value = format!("portolan.dev/rotate=live-{asked}-{:?}", std::time::SystemTime::now());
            kubectl(
                &["annotate", "secret", "portolan-ca", "-n", "portolan-system", "--overwrite", &value.replace(' ', "")],
                "",
            );
            asked += 1;
        }
        for proxy in &proxies {
            let identity = proxy.identity();
            for replica in &replicas {
                let trusted = trust(&identity, replica).await;
                assert!(
                    trusted.is_ok(),
                    "{:?}: {trusted:?} of {replica:?}, with {}",
                    began.elapsed(),
                    issuer(&identity[0])
                );
                handshakes += 1;
            }
        }
        fewest = fewest.min(replicas[0].streams(&scene.uid).await + replicas[1].streams(&scene.uid).await);
        let secret = bed.get(SECRET, NAMESPACE, "portolan-web").await.unwrap();
        let trusted = certificate(&secret, "ca.crt").matches("BEGIN").count();
        if issuers.insert(issuer(&certificate(&secret, "tls.crt"))) || trusted != most {
            most = trusted;
            println!(
                "{:?}: {trusted} authorities are trusted, signed by {:?}",
                began.elapsed(),
                issuers.last().unwrap()
            );
        }
        if times.len() % 60 == 0 {
            so_far = phase(&format!("{:?}", began.elapsed()), &load, so_far);
        }
    }
    times.sort_unstable();
    println!(
        "{} certificates of the listener, shown after {:?} (median), {:?} (most); {handshakes} handshakes of proxies with replicas; {fewest} streams at least",
        times.len(),
        times[times.len() / 2],
        times.last().unwrap(),
    );
    settle(load).await;
    // What has been due for long enough was done: each new authority has signed, the one before it is forgotten.
    let due = |after: Duration| ROTATIONS.iter().filter(|at| **at + after + LOOK < length).count();
    assert!(issuers.len() > due(LEAF), "{issuers:?}");
    let secret = bed.get(SECRET, NAMESPACE, "portolan-web").await.unwrap();
    let left = certificate(&secret, "ca.crt").matches("BEGIN").count();
    // Until the first of them has outlived all before, these are as many as they were.
    let forgotten = due(LEAF * 2);
    assert!(
        if forgotten == 0 { left > asked } else { left == 1 + asked - forgotten },
        "{left} are trusted, {asked} were asked for"
    );
    // No proxy was turned away, and none has turned Portolan away.
    for proxy in &proxies {
        let stats = get(&proxy.admin(), "http://admin/stats").await.unwrap();
        let stats = String::from_utf8_lossy(&stats.body).into_owned();
        let of = |name: &str| {
            stats.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": ")?.parse::<u64>().ok())
        };
        let (failed, made) =
            (of("cluster.portolan/xds.upstream_cx_connect_fail"), of("cluster.portolan/xds.upstream_cx_total"));
        println!("a proxy has made {made:?} connections to Portolan, {failed:?} failed");
        assert!(failed.unwrap_or(0) == 0 && made.unwrap() > 0);
        assert_eq!(of("control_plane.connected_state"), Some(1));
    }
    let log = kubectl(&["logs", "-n", "portolan-system", "-l", "app.kubernetes.io/name=portolan", "--tail=-1"], "");
    assert!(!log.contains("handshake fails"), "{log}");
    scene.finish();
}
