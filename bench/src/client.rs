//! A proxy as far as xDS sees it: subscribes in Envoy's order, acknowledges everything, keeps nothing.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::Context as _;
use hyper_util::rt::TokioIo;
use portolan_proto::ResourceType;
use portolan_proto::envoy::core::Node;
use portolan_proto::envoy::discovery::DeltaDiscoveryRequest;
use prost::Message;
use tokio::net::UnixStream;
use tokio::sync::mpsc;
use tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::Request;
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::{Channel, Endpoint, Uri};
use tonic_prost::ProstCodec;
use tower::service_fn;

const METHOD: &str = "/envoy.service.discovery.v3.AggregatedDiscoveryService/DeltaAggregatedResources";

/// As much of a `DeltaDiscoveryResponse` as an acknowledgement needs; the rest is skipped without a copy.
#[derive(Clone, PartialEq, Message)]
struct Response {
    #[prost(message, repeated, tag = "2")]
    resources: Vec<Resource>,
    #[prost(string, tag = "4")]
    type_url: String,
    #[prost(string, tag = "5")]
    nonce: String,
    #[prost(string, repeated, tag = "6")]
    removed: Vec<String>,
}

#[derive(Clone, PartialEq, Message)]
struct Resource {
    #[prost(string, tag = "3")]
    name: String,
}

/// What all clients together have received.
#[derive(Default)]
pub struct Received {
    pub responses: AtomicU64,
    pub resources: AtomicU64,
}

/// The names that a proxy asks for once it has clusters and listeners.
pub struct Names {
    pub endpoints: Vec<String>,
    pub tables: Vec<String>,
}

/// Connects, and follows until the server ends the stream or the task is dropped.
pub async fn follow(socket: PathBuf, names: Arc<Names>, received: Arc<Received>) -> anyhow::Result<()> {
    let connect = service_fn(move |_: Uri| {
        let socket = socket.clone();
        async move { UnixStream::connect(socket).await.map(TokioIo::new) }
    });
    // Envoy's window of a stream.
    let window = 16 << 20;
    let channel: Channel = Endpoint::from_static("http://xds")
        .initial_stream_window_size(window)
        .initial_connection_window_size(window)
        .connect_timeout(Duration::from_secs(30))
        .connect_with_connector(connect)
        .await?;
    let (requests, outgoing) = mpsc::unbounded_channel();
    let mut first = request(ResourceType::Cluster);
    first.node = Some(Node { id: "bench".into(), cluster: "bench".into(), ..Node::default() });
    requests.send(first)?;
    requests.send(request(ResourceType::Listener))?;

    let mut grpc = Grpc::new(channel).max_decoding_message_size(usize::MAX);
    grpc.ready().await?;
    let codec: ProstCodec<DeltaDiscoveryRequest, Response> = ProstCodec::default();
    let outgoing = Request::new(UnboundedReceiverStream::new(outgoing));
    let mut responses = grpc.streaming(outgoing, PathAndQuery::from_static(METHOD), codec).await?.into_inner();
    let (mut asked_endpoints, mut asked_tables) = (false, false);
    while let Some(response) = responses.message().await? {
        received.responses.fetch_add(1, Ordering::Relaxed);
        received.resources.fetch_add(response.resources.len() as u64, Ordering::Relaxed);
        let kind = ResourceType::from_type_url(&response.type_url).context("a type that was not asked for")?;
        // Envoy asks for endpoints while it takes clusters, before it acknowledges them.
        if kind == ResourceType::Cluster && !std::mem::replace(&mut asked_endpoints, true) {
            requests.send(by_name(ResourceType::Endpoints, &names.endpoints))?;
        }
        if kind == ResourceType::Listener && !std::mem::replace(&mut asked_tables, true) {
            requests.send(by_name(ResourceType::Route, &names.tables))?;
        }
        requests.send(DeltaDiscoveryRequest { response_nonce: response.nonce, ..request(kind) })?;
    }
    Ok(())
}

fn request(kind: ResourceType) -> DeltaDiscoveryRequest {
    DeltaDiscoveryRequest { type_url: kind.type_url().into(), ..DeltaDiscoveryRequest::default() }
}

fn by_name(kind: ResourceType, names: &[String]) -> DeltaDiscoveryRequest {
    DeltaDiscoveryRequest { resource_names_subscribe: names.to_vec(), ..request(kind) }
}
