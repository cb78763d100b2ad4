//! Who is served: a stream belongs to the fleet of its certificate, whatever the proxy says of itself, and to none without a good one (design
//! invariant 7). Asked by a client of gRPC of our own, which shows every refusal, and by real Envoys.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use portolan_fleet::{Authorities, Identity, Leaf, Lifetimes, authorities};
use portolan_model::NamespacedName;
use portolan_proto::ResourceType;
use portolan_proto::envoy::core::Node;
use portolan_proto::envoy::discovery::{DeltaDiscoveryRequest, DeltaDiscoveryResponse};
use portolan_testkit::certs::Authority;
use portolan_testkit::client::Endpoint;
use portolan_testkit::envoy::{Envoy, EnvoyOptions};
use portolan_testkit::kube::{Kube, KubeOptions};
use portolan_testkit::process::Process;
use portolan_testkit::{client, ports};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use serde_json::Value;
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::{Code, Status, Streaming};
use tonic_prost::ProstCodec;

use crate::{CLASS, PATIENCE, get, until};

const METHOD: &str = "/envoy.service.discovery.v3.AggregatedDiscoveryService/DeltaAggregatedResources";
const SERVER: &str = "portolan.portolan-system.svc";
/// Who has heard nothing for so long gets nothing: answers take milliseconds.
const SILENCE: Duration = Duration::from_secs(3);
/// A leaf that was made so many seconds ago has ended.
const LATE: i64 = 2 * 24 * 3600;

fn gateway(name: &str, port: u16) -> String {
    format!(
        "---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {{name: {name}, namespace: default}}
spec:
  gatewayClassName: portolan
  listeners:
  - {{name: http, port: {port}, protocol: HTTP}}
  - {{name: https, port: 443, protocol: HTTPS, tls: {{certificateRefs: [{{name: of-{name}}}]}}}}
"
    )
}

/// What a client of xDS is told.
#[derive(Debug)]
enum Told {
    /// By TLS
    Tls(String),
    /// By gRPC
    Status(Status),
    /// A stream, with everything of it until it was silent: type and name
    Resources(Vec<(ResourceType, String)>),
}

impl Told {
    fn has(&self, kind: ResourceType, name: &str) -> bool {
        matches!(self, Self::Resources(all) if all.contains(&(kind, name.to_owned())))
    }
}

/// Where xDS is, and whom its clients trust.
struct Xds {
    address: SocketAddr,
    trusted: String,
}

impl Xds {
    /// A stream that says to be of `default/web` and asks for all clusters and listeners, and for the certificates of both Gateways.
    async fn open(&self, leaf: Option<&Leaf>) -> Result<Streaming<DeltaDiscoveryResponse>, Told> {
        let mut roots = rustls::RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(self.trusted.as_bytes()) {
            roots.add(certificate.unwrap()).unwrap();
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = rustls::ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let builder = builder.unwrap().with_root_certificates(roots);
        let mut config = match leaf {
            Some(leaf) => {
                let chain = CertificateDer::pem_slice_iter(leaf.certificate.as_bytes()).map(Result::unwrap).collect();
                builder
                    .with_client_auth_cert(chain, PrivateKeyDer::from_pem_slice(leaf.key.as_bytes()).unwrap())
                    .unwrap()
            }
            None => builder.with_no_client_auth(),
        };
        config.alpn_protocols = vec![b"h2".to_vec()];
        let stream = TcpStream::connect(self.address).await.unwrap();
        let name = ServerName::try_from(SERVER).unwrap();
        let mut stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap();
        // With TLS 1.3 the server judges the client's certificate after this: an alert is the first that it sends then.
        stream.get_ref().0.peek(&mut [0]).await.unwrap();
        let read = stream.read(&mut []).await.map_err(|alert| Told::Tls(alert.to_string()))?;
        assert_eq!(read, 0);
        let (sender, connection) = http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);

        let node = Node { id: "default/web".into(), cluster: "default/web".into(), ..Node::default() };
        let request = |kind: ResourceType, names: &[&str]| DeltaDiscoveryRequest {
            node: Some(node.clone()),
            type_url: kind.type_url().into(),
            resource_names_subscribe: names.iter().map(ToString::to_string).collect(),
            ..DeltaDiscoveryRequest::default()
        };
        let requests = [
            request(ResourceType::Cluster, &[]),
            request(ResourceType::Listener, &[]),
            request(ResourceType::Secret, &["default/of-web", "default/of-other"]),
        ];
        // Held open.
        let requests = futures::StreamExt::chain(futures::stream::iter(requests), futures::stream::pending());
        let call = tower::service_fn(move |request| sender.clone().send_request(request));
        let mut grpc = Grpc::with_origin(call, format!("https://{SERVER}").parse().unwrap());
        let codec = ProstCodec::<DeltaDiscoveryRequest, DeltaDiscoveryResponse>::default();
        let method = PathAndQuery::from_static(METHOD);
        let response = grpc.streaming(tonic::Request::new(requests), method, codec).await;
        response.map(tonic::Response::into_inner).map_err(Told::Status)
    }

    async fn ask(&self, leaf: Option<&Leaf>) -> Told {
        let mut stream = match self.open(leaf).await {
            Ok(stream) => stream,
            Err(told) => return told,
        };
        let mut all = Vec::new();
        while let Ok(response) = tokio::time::timeout(SILENCE, stream.message()).await {
            let response = response.unwrap().expect("the server has ended the stream");
            let kind = ResourceType::from_type_url(&response.type_url).unwrap();
            all.extend(response.resources.into_iter().map(|resource| (kind, resource.name)));
        }
        Told::Resources(all)
    }
}

/// What makes certificates, from the Secret with the authority.
struct Maker {
    authorities: Authorities,
    now: i64,
}

impl Maker {
    fn of(secret: &Value) -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
        Self { authorities: authorities(secret).unwrap(), now: now.try_into().unwrap() }
    }

    fn proxy(&self, gateway: &str, uid: &str, now: i64) -> Leaf {
        self.lasting(gateway, uid, now, Lifetimes::default())
    }

    fn lasting(&self, gateway: &str, uid: &str, now: i64, lifetimes: Lifetimes) -> Leaf {
        let identity = Identity { gateway: NamespacedName::new("default", gateway), uid: uid.into() };
        self.authorities.client(&identity, now, lifetimes, &mut || rcgen::KeyPair::generate()).unwrap()
    }
}

/// A real Envoy that says to be of `default/web`.
fn envoy(dir: &Path, xds: &Xds, leaf: &Leaf) -> Envoy {
    for (name, text) in [("tls.crt", &leaf.certificate), ("tls.key", &leaf.key), ("ca.crt", &xds.trusted)] {
        std::fs::write(dir.join(name), text).unwrap();
    }
    Envoy::start(&EnvoyOptions::new(
        crate::bootstrap("web", &xds.address.to_string(), dir),
        dir.join("admin.sock").as_path(),
    ))
    .unwrap()
}

async fn is_open(port: u16) -> bool {
    let endpoint = Endpoint::http1(SocketAddr::from(([127, 0, 0, 1], port)));
    client::get(&endpoint, "http://a.test/").await.is_ok_and(|answer| answer.status == 404)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_proxy_gets_what_is_its_fleets_and_nothing_without_a_good_certificate() {
    let kube = Kube::start(&KubeOptions::default()).await.unwrap();
    let (address, metrics) = (ports::address().unwrap(), ports::address().unwrap());
    let (web_port, other_port) = (ports::free().unwrap(), ports::free().unwrap());
    let listeners = Authority::new("listeners").unwrap();
    kube.apply(CLASS).unwrap();
    for (name, port) in [("web", web_port), ("other", other_port)] {
        let secret = listeners.server(&[&format!("{name}.test")]).unwrap().secret("default", &format!("of-{name}"));
        kube.apply(&(secret + &gateway(name, port))).unwrap();
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_portolan"));
    command
        .args(["controller", "--pod", "here", "--xds-port", &address.port().to_string()])
        .args(["--metrics-port", &metrics.port().to_string()])
        .env("KUBECONFIG", kube.kubeconfig())
        .env("PORTOLAN_LOG", "info");
    let controller = Process::start(command).unwrap();
    let mut uids = Vec::new();
    for name in ["web", "other"] {
        let made = format!("portolan-{name}");
        for kind in ["secret", "service"] {
            until(&kube, &controller, kind, &made, |_| true).await;
        }
        let status = r#"{"status":{"loadBalancer":{"ingress":[{"ip":"127.0.0.1"}]}}}"#;
        kube.kubectl(&["patch", "service", &made, "--subresource=status", "--type=merge", "-p", status]).unwrap();
        uids.push(get(&kube, "gateway", name).unwrap()["metadata"]["uid"].as_str().unwrap().to_owned());
    }
    let maker = Maker::of(&get(&kube, "secret", "portolan-system/portolan-ca").unwrap());
    let xds = Xds { address, trusted: maker.authorities.certificates() };

    // The identity that Portolan has made, and one of the same authority for the same fleet.
    let made = get(&kube, "secret", "portolan-web").unwrap();
    let text = |key: &str| String::from_utf8(STANDARD.decode(made["data"][key].as_str().unwrap()).unwrap()).unwrap();
    let given = Leaf { certificate: text("tls.crt"), key: text("tls.key"), ..maker.proxy("web", &uids[0], maker.now) };
    let own = maker.proxy("web", &uids[0], maker.now);
    for (what, leaf) in [("given", &given), ("made here", &own)] {
        let end = Instant::now() + PATIENCE;
        let mut told = xds.ask(Some(leaf)).await;
        // Listeners come with the address.
        while !told.has(ResourceType::Secret, "default/of-web") && Instant::now() < end {
            told = xds.ask(Some(leaf)).await;
        }
        assert!(told.has(ResourceType::Secret, "default/of-web"), "{what}: {told:?}\n{}", controller.log());
        assert!(!told.has(ResourceType::Secret, "default/of-other"), "{what}: {told:?}");
    }

    // That of another fleet: the other fleet's, and not one thing of the fleet that it asks for.
    let foreign = maker.proxy("other", &uids[1], maker.now);
    let told = xds.ask(Some(&foreign)).await;
    assert!(
        told.has(ResourceType::Secret, "default/of-other") && !told.has(ResourceType::Secret, "default/of-web"),
        "{told:?}"
    );

    // Refused by TLS: the alerts of RFC 8446, 6.2.
    let expired = maker.proxy("web", &uids[0], maker.now - LATE);
    let another = Authorities::first(maker.now, Lifetimes::default(), &mut || rcgen::KeyPair::generate()).unwrap();
    let stranger = Maker { authorities: another, now: maker.now }.proxy("web", &uids[0], maker.now);
    let replica =
        maker.authorities.server(&[SERVER.into()], maker.now, Lifetimes::default(), &mut || rcgen::KeyPair::generate());
    let replica = replica.unwrap();
    for (what, leaf, alert) in [
        ("none", None, "CertificateRequired"),
        ("an expired one", Some(&expired), "CertificateExpired"),
        ("one of another authority", Some(&stranger), "UnknownCA"),
        ("that of a replica", Some(&replica), "UnsupportedCertificate"),
    ] {
        let told = xds.ask(leaf).await;
        println!("{what}: {told:?}");
        assert!(matches!(&told, Told::Tls(words) if words.contains(alert)), "{what}: {told:?}\n{}", controller.log());
    }
    // By gRPC: a good certificate, but not a fleet's.
    let told = xds.ask(Some(&maker.proxy("web", "", maker.now))).await;
    println!("nobody's: {told:?}");
    assert!(
        matches!(&told, Told::Status(status) if status.code() == Code::PermissionDenied && status.message().contains("belong to no fleet")),
        "{told:?}"
    );
    // By silence: the Gateway of that name is another one by now.
    let told = xds.ask(Some(&maker.proxy("web", "an-earlier-one", maker.now))).await;
    assert!(matches!(&told, Told::Resources(all) if all.is_empty()), "{told:?}");

    // A stream does not outlive its certificate.
    let brief = Lifetimes { leaf: Duration::from_secs(8), ..Lifetimes::default() };
    let brief = maker.lasting("web", &uids[0], unix_now(), brief);
    let mut stream = xds.open(Some(&brief)).await.unwrap();
    assert!(stream.message().await.unwrap().is_some());
    while let Ok(Some(_)) = stream.message().await {}
    let early = brief.not_after - unix_now();
    println!("ended {early} s before its certificate");
    // The last second counts as valid.
    assert!((-1..=4).contains(&early), "{early}");

    // Real Envoys, one with each.
    let dirs = [(); 3].map(|()| tempfile::tempdir().unwrap());
    let mut right = envoy(dirs[0].path(), &xds, &own);
    right.ready(PATIENCE).await.unwrap();
    assert!(is_open(web_port).await && !is_open(other_port).await);
    let refused = envoy(dirs[1].path(), &xds, &expired);
    let end = Instant::now() + PATIENCE;
    while refused.stat("cluster.portolan/xds.upstream_cx_total").await.ok().flatten().unwrap_or(0) == 0 {
        assert!(Instant::now() < end, "the Envoy has not tried:\n{}", refused.process.log());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    tokio::time::sleep(SILENCE).await;
    for taken in ["listener_manager.lds.update_success", "cluster_manager.cds.update_success"] {
        assert_eq!(refused.stat(taken).await.unwrap(), Some(0), "{}", refused.process.log());
    }
    let mut moved = envoy(dirs[2].path(), &xds, &foreign);
    moved.ready(PATIENCE).await.unwrap();
    assert!(is_open(other_port).await);
}

fn unix_now() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs().try_into().unwrap()
}
