//! Who is answered, and from when: with a client that speaks the protocol itself.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use hyper_util::rt::TokioIo;
use portolan_proto::ResourceType::{Cluster, Endpoints};
use portolan_proto::envoy::discovery::aggregated_discovery_service_client::AggregatedDiscoveryServiceClient;
use portolan_proto::envoy::discovery::{DeltaDiscoveryRequest, DeltaDiscoveryResponse};
use portolan_xds::{FleetName, Options, Server, Transition};
use prometheus_client::registry::Registry;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::mpsc;
use tokio_stream::wrappers::{ReceiverStream, UnixListenerStream};
use tonic::transport::Endpoint;
use tonic::transport::server::UdsConnectInfo;
use tonic::{Code, Status, Streaming};
use tower::service_fn;

use crate::resources::{cluster, endpoints};
use crate::stage::{SOON, set};

/// A server on `socket` whose connections belong to `fleet`.
fn serve(
    socket: &Path,
    options: Options,
    fleet: Option<&'static str>,
) -> Result<(Server, mpsc::UnboundedReceiver<Transition>, Registry)> {
    let mut registry = Registry::default();
    let (server, transitions) = Server::new(options, &mut registry);
    let incoming = UnixListenerStream::new(UnixListener::bind(socket)?);
    let serving = server.clone();
    let identify = move |_: &UdsConnectInfo| fleet.map(FleetName::new);
    tokio::spawn(async move { serving.serve(incoming, identify, std::future::pending()).await });
    Ok((server, transitions, registry))
}

struct Proxy {
    requests: mpsc::Sender<DeltaDiscoveryRequest>,
    responses: Streaming<DeltaDiscoveryResponse>,
}

impl Proxy {
    async fn connect(socket: &Path) -> Result<Self, Status> {
        let socket = socket.to_owned();
        let connector = move |_| {
            let socket = socket.clone();
            async move { UnixStream::connect(socket).await.map(TokioIo::new) }
        };
        let endpoint = Endpoint::from_static("http://xds");
        let channel = endpoint
            .connect_with_connector(service_fn(connector))
            .await
            .map_err(|error| Status::unavailable(error.to_string()))?;
        let (requests, stream) = mpsc::channel(16);
        let mut client = AggregatedDiscoveryServiceClient::new(channel);
        let responses = client.delta_aggregated_resources(ReceiverStream::new(stream)).await?.into_inner();
        Ok(Self { requests, responses })
    }

    async fn ask(&self, kind: portolan_proto::ResourceType, names: &[&str]) {
        let request = DeltaDiscoveryRequest {
            type_url: kind.type_url().into(),
            resource_names_subscribe: names.iter().map(ToString::to_string).collect(),
            ..Default::default()
        };
        self.requests.send(request).await.unwrap();
    }

    async fn next(&mut self) -> Result<DeltaDiscoveryResponse, Status> {
        match tokio::time::timeout(SOON, self.responses.message()).await {
            Ok(Ok(Some(response))) => Ok(response),
            Ok(Ok(None)) => Err(Status::cancelled("the stream ended")),
            Ok(Err(status)) => Err(status),
            Err(_) => Err(Status::deadline_exceeded("no response")),
        }
    }

    async fn is_silent(&mut self) -> bool {
        tokio::time::timeout(Duration::from_millis(200), self.responses.message()).await.is_err()
    }
}

fn names(response: &DeltaDiscoveryResponse) -> Vec<&str> {
    response.resources.iter().map(|resource| resource.name.as_str()).collect()
}

#[tokio::test]
async fn streams_are_held_until_the_gate_opens_and_the_fleet_is_known() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let socket = directory.path().join("xds.sock");
    let (server, mut transitions, _registry) = serve(&socket, Options::default(), Some("mine"))?;
    let mut proxy = Proxy::connect(&socket).await?;
    proxy.ask(Cluster, &[]).await;
    let fleet = FleetName::new("mine");
    server.publish(&fleet, vec![set(&cluster("c", "1s"))]);
    ensure!(proxy.is_silent().await, "the gate is closed");
    server.open();
    ensure!(names(&proxy.next().await?) == ["c"]);
    ensure!(
        matches!(transitions.recv().await, Some(Transition::StreamOpened { fleet, .. }) if fleet.0.as_ref() == "mine")
    );

    server.remove_fleet(&fleet);
    ensure!(proxy.next().await.is_err_and(|status| status.code() == Code::Unavailable));
    let closed = transitions.recv().await.context("a transition")?;
    ensure!(matches!(closed, Transition::StreamClosed { remaining: 0, .. }), "{closed:?}");
    let mut again = Proxy::connect(&socket).await?;
    again.ask(Cluster, &[]).await;
    ensure!(again.is_silent().await, "an unknown fleet is held");
    server.publish(&fleet, vec![set(&cluster("d", "1s"))]);
    ensure!(names(&again.next().await?) == ["d"]);
    Ok(())
}

#[tokio::test]
async fn a_connection_without_a_fleet_is_refused_and_a_fleet_sees_its_own_resources() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let (open, shut) = (directory.path().join("open.sock"), directory.path().join("shut.sock"));
    let (_server, _transitions, _registry) = serve(&shut, Options::default(), None)?;
    let refused = Proxy::connect(&shut).await.err().context("accepted")?;
    ensure!(refused.code() == Code::PermissionDenied, "{refused}");

    let (server, _transitions, _registry) = serve(&open, Options::default(), Some("mine"))?;
    server.publish(&FleetName::new("mine"), vec![set(&cluster("mine", "1s"))]);
    server.publish(&FleetName::new("other"), vec![set(&cluster("other", "1s")), set(&endpoints("other", &[]))]);
    server.open();
    let mut proxy = Proxy::connect(&open).await?;
    proxy.ask(Cluster, &[]).await;
    ensure!(names(&proxy.next().await?) == ["mine"]);
    proxy.ask(Endpoints, &["other"]).await;
    let response = proxy.next().await?;
    ensure!(response.resources.is_empty() && response.removed_resources == ["other"], "{response:?}");
    Ok(())
}

#[tokio::test]
async fn a_proxy_that_does_not_answer_is_cut_off_and_its_state_is_counted() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let socket = directory.path().join("xds.sock");
    let limits = portolan_xds::Limits { answer_within: Duration::from_millis(300), ..Default::default() };
    let options = Options { limits, tick: Duration::from_millis(50), ..Options::default() };
    let (server, _transitions, registry) = serve(&socket, options, Some("mine"))?;
    server.publish(&FleetName::new("mine"), vec![set(&cluster("c", "1s"))]);
    server.open();
    let mut proxy = Proxy::connect(&socket).await?;
    proxy.ask(Cluster, &[]).await;
    proxy.next().await?;
    let metrics = || {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        text
    };
    ensure!(metrics().contains("portolan_xds_streams{fleet=\"mine\",state=\"syncing\"} 1"), "{}", metrics());
    ensure!(proxy.next().await.is_err_and(|status| status.code() == Code::Aborted));
    ensure!(metrics().contains("portolan_xds_resets_total{fleet=\"mine\"} 1"), "{}", metrics());
    ensure!(metrics().contains("portolan_xds_streams{fleet=\"mine\",state=\"syncing\"} 0"), "{}", metrics());
    Ok(())
}
