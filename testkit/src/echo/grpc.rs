//! The conformance suite's `GrpcEcho` service over plain HTTP/2 frames: unary calls of a few messages need no generated server.

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use futures::stream;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue, Request, Response, Version};
use http_body_util::{BodyExt as _, StreamBody};
use hyper::body::{Frame, Incoming};
use prost::Message;

use super::answer::headers;
use super::http::{Arrival, Body, authority};
use crate::client::{Endpoint, Exchange, send};

/// The full name of the service.
pub const GRPC_SERVICE: &str = "gateway_api_conformance.echo_basic.grpcecho.GrpcEcho";

/// gRPC status codes that this server gives.
const OK: u32 = 0;
const UNIMPLEMENTED: u32 = 12;

#[derive(Clone, PartialEq, Message)]
struct Header {
    #[prost(string, tag = "1")]
    key: String,
    #[prost(string, tag = "2")]
    value: String,
}

#[derive(Clone, PartialEq, Message)]
struct Context {
    #[prost(string, tag = "1")]
    namespace: String,
    #[prost(string, tag = "2")]
    ingress: String,
    #[prost(string, tag = "3")]
    service_name: String,
    #[prost(string, tag = "4")]
    pod: String,
}

#[derive(Clone, PartialEq, Message)]
struct TlsAssertions {
    #[prost(string, tag = "1")]
    version: String,
    #[prost(string, tag = "2")]
    negotiated_protocol: String,
    #[prost(string, tag = "3")]
    server_name: String,
    #[prost(string, tag = "4")]
    cipher_suite: String,
}

/// A call as it arrived, and who received it.
#[derive(Clone, PartialEq, Message)]
pub struct Assertions {
    /// `/package.Service/Method`.
    #[prost(string, tag = "1")]
    pub fully_qualified_method: String,
    #[prost(message, repeated, tag = "2")]
    headers: Vec<Header>,
    /// The `:authority`.
    #[prost(string, tag = "3")]
    pub authority: String,
    #[prost(message, optional, tag = "4")]
    context: Option<Context>,
    #[prost(message, optional, tag = "5")]
    tls: Option<TlsAssertions>,
}

impl Assertions {
    /// The first value of a header that arrived.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|header| header.key == name).map(|header| header.value.as_str())
    }

    /// The backend's name.
    pub fn service(&self) -> &str {
        self.context.as_ref().map_or("", |context| &context.service_name)
    }

    /// The backend's namespace.
    pub fn namespace(&self) -> &str {
        self.context.as_ref().map_or("", |context| &context.namespace)
    }
}

/// The answer of `Echo` and `EchoTwo`.
#[derive(Clone, PartialEq, Message)]
pub struct EchoResponse {
    /// What arrived.
    #[prost(message, optional, tag = "1")]
    pub assertions: Option<Assertions>,
}

pub(super) async fn respond(arrival: &Arrival, request: Request<Incoming>) -> anyhow::Result<Response<Body>> {
    let (parts, body) = request.into_parts();
    body.collect().await?;
    let method = parts.uri.path().to_owned();
    let known = [format!("/{GRPC_SERVICE}/Echo"), format!("/{GRPC_SERVICE}/EchoTwo")].contains(&method);

    let message = known.then(|| {
        let options = &arrival.shared.options;
        let pairs = headers(&parts.headers).into_iter();
        frame(&EchoResponse {
            assertions: Some(Assertions {
                fully_qualified_method: method,
                headers: pairs
                    .flat_map(|(key, values)| values.into_iter().map(move |value| Header { key: key.clone(), value }))
                    .collect(),
                authority: authority(&parts),
                context: Some(Context {
                    namespace: options.namespace.clone(),
                    ingress: String::new(),
                    service_name: options.name.clone(),
                    pod: options.pod.clone(),
                }),
                tls: arrival.tls.as_ref().map(|tls| TlsAssertions {
                    version: tls.version.clone(),
                    negotiated_protocol: tls.negotiated_protocol.clone(),
                    server_name: tls.server_name.clone(),
                    cipher_suite: tls.cipher_suite.clone(),
                }),
            }),
        })
    });
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", HeaderValue::from(if known { OK } else { UNIMPLEMENTED }));
    let frames = message.map(Frame::data).into_iter().chain([Frame::trailers(trailers)]).map(Ok);
    let mut response = Response::new(StreamBody::new(stream::iter(frames)).boxed_unsync());
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    Ok(response)
}

/// Calls a method of the echo service with an empty message: the gRPC status, and the answer where the status is 0.
///
/// # Errors
/// When the exchange breaks, or the answer carries no status or cannot be decoded.
pub async fn call(
    endpoint: &Endpoint,
    authority: &str,
    method: &str,
    metadata: &[(&str, &str)],
) -> anyhow::Result<(u32, Option<EchoResponse>, Exchange)> {
    let scheme = if endpoint.is_tls() { "https" } else { "http" };
    let mut request = Request::post(format!("{scheme}://{authority}/{GRPC_SERVICE}/{method}"))
        .version(Version::HTTP_2)
        .header(CONTENT_TYPE, "application/grpc")
        .header("te", "trailers");
    for (name, value) in metadata {
        request = request.header(*name, *value);
    }
    let exchange = send(endpoint, request.body(Bytes::from_static(&[0; 5]))?).await?;
    // A response without messages carries the status in its headers ("trailers-only").
    let status = exchange
        .trailers
        .as_ref()
        .and_then(|trailers| trailers.get("grpc-status"))
        .or_else(|| exchange.headers.get("grpc-status"));
    let status = status
        .ok_or_else(|| anyhow::anyhow!("HTTP status {} without grpc-status", exchange.status))?
        .to_str()?
        .parse()?;
    let message = if status == OK { Some(unframe(exchange.body.clone())?) } else { None };
    Ok((status, message, exchange))
}

/// A message behind its prefix: a byte for "not compressed" and the length (gRPC over HTTP/2, "Length-Prefixed-Message").
fn frame(message: &impl Message) -> Bytes {
    let length = message.encoded_len();
    let mut buffer = BytesMut::with_capacity(length + 5);
    buffer.put_u8(0);
    buffer.put_u32(u32::try_from(length).unwrap_or(u32::MAX));
    buffer.put_slice(&message.encode_to_vec());
    buffer.freeze()
}

fn unframe<M: Message + Default>(mut bytes: Bytes) -> anyhow::Result<M> {
    anyhow::ensure!(bytes.len() >= 5, "a gRPC message of {} bytes has no prefix", bytes.len());
    bytes.advance(5);
    Ok(M::decode(bytes)?)
}
