//! A connection that tells a request which never left from one which was lost.
//!
//! A client may send a request again only if the server cannot have seen it: it was not written yet; or it was on an HTTP/2 stream that a GOAWAY
//! excludes or that was refused (RFC 9113, 6.8 and 8.7). A connection that just ends under a request in flight is a failure.

use bytes::Bytes;
use http::header::{CONNECTION, HOST};
use http::uri::{PathAndQuery, Uri};
use http::{HeaderValue, Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::{TrySendError, http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls_pki_types::CertificateDer;

use super::endpoint::{Endpoint, Protocol};
use super::{Cause, Exchange, Failure};

type Outgoing = Request<Full<Bytes>>;

/// An open connection.
pub struct Connection {
    sender: Sender,
    certificate: Option<CertificateDer<'static>>,
}

enum Sender {
    Http1(http1::SendRequest<Full<Bytes>>),
    Http2(http2::SendRequest<Full<Bytes>>),
}

/// Why a request has no answer.
#[derive(Debug)]
pub enum Unsent {
    /// The server cannot have acted on it: it may be sent again on another connection.
    Again(String),
    /// It failed.
    Failed(Failure),
}

impl Connection {
    /// Connects, over TLS where the endpoint says so.
    ///
    /// # Errors
    /// When the server refuses, or its certificate does not verify.
    pub async fn open(endpoint: &Endpoint) -> Result<Self, Failure> {
        let (stream, certificate) = endpoint.connect().await?;
        let io = TokioIo::new(stream);
        let broken = |error: hyper::Error| Failure::of(Cause::Broken, &error);
        // The tasks end with their connection; how it ended is told to the request in flight.
        let sender = match endpoint.protocol {
            Protocol::Http1 => {
                let (sender, connection) = http1::handshake(io).await.map_err(broken)?;
                tokio::spawn(connection);
                Sender::Http1(sender)
            }
            Protocol::Http2 => {
                let (sender, connection) = http2::handshake(TokioExecutor::new(), io).await.map_err(broken)?;
                tokio::spawn(connection);
                Sender::Http2(sender)
            }
        };
        Ok(Self { sender, certificate })
    }

    /// Another handle to the same connection, for a further stream; none for HTTP/1.1, which has but one.
    pub fn share(&self) -> Option<Self> {
        match &self.sender {
            Sender::Http1(_) => None,
            Sender::Http2(sender) => {
                Some(Self { sender: Sender::Http2(sender.clone()), certificate: self.certificate.clone() })
            }
        }
    }

    /// Whether another request may be sent: false once either side has announced or made the end.
    pub fn is_open(&self) -> bool {
        match &self.sender {
            Sender::Http1(sender) => !sender.is_closed(),
            Sender::Http2(sender) => !sender.is_closed(),
        }
    }

    /// Sends a request whose URI is absolute, and reads the whole answer.
    ///
    /// # Errors
    /// [`Unsent`] says whether it may be sent again.
    pub async fn send(&mut self, request: Request<Bytes>) -> Result<Exchange, Unsent> {
        let response = match &mut self.sender {
            Sender::Http1(sender) => {
                sender.ready().await.map_err(|error| Unsent::Again(error.to_string()))?;
                sender.try_send_request(origin_form(request)?).await
            }
            Sender::Http2(sender) => {
                sender.ready().await.map_err(|error| Unsent::Again(error.to_string()))?;
                sender.try_send_request(request.map(Full::new)).await
            }
        };
        self.read(response.map_err(unsent)?).await
    }

    async fn read(&self, response: Response<Incoming>) -> Result<Exchange, Unsent> {
        let (parts, body) = response.into_parts();
        let collected = body.collect().await.map_err(|error| Unsent::Failed(Failure::of(Cause::Broken, &error)))?;
        let trailers = collected.trailers().cloned();
        Ok(Exchange {
            status: parts.status,
            headers: parts.headers,
            body: collected.to_bytes(),
            trailers,
            certificate: self.certificate.clone(),
        })
    }
}

/// HTTP/1.1 has the path in the request line and the authority in `host` (RFC 9112, 3.2.1).
fn origin_form(mut request: Request<Bytes>) -> Result<Outgoing, Unsent> {
    let invalid = |detail: String| Unsent::Failed(Failure::new(Cause::Body, detail));
    let authority = request.uri().authority().ok_or_else(|| invalid(format!("{} is not absolute", request.uri())))?;
    let host = HeaderValue::from_str(authority.as_str()).map_err(|error| invalid(error.to_string()))?;
    request.headers_mut().entry(HOST).or_insert(host);
    let path = request.uri().path_and_query().cloned().unwrap_or_else(|| PathAndQuery::from_static("/"));
    *request.uri_mut() = Uri::from(path);
    Ok(request.map(Full::new))
}

fn unsent(mut error: TrySendError<Outgoing>) -> Unsent {
    let never_written = error.take_message().is_some();
    let error = error.into_error();
    if never_written || excluded(&error) {
        Unsent::Again(error.to_string())
    } else {
        Unsent::Failed(Failure::of(Cause::Broken, &error))
    }
}

/// Whether an HTTP/2 error says that the server has not acted on the request.
fn excluded(error: &hyper::Error) -> bool {
    let mut source = std::error::Error::source(error);
    while let Some(inner) = source {
        if let Some(h2) = inner.downcast_ref::<h2::Error>() {
            let reason = h2.reason();
            return h2.is_remote()
                && ((h2.is_go_away() && reason == Some(h2::Reason::NO_ERROR))
                    || (h2.is_reset() && reason == Some(h2::Reason::REFUSED_STREAM)));
        }
        source = inner.source();
    }
    false
}

/// Marks a request as the only one of its connection.
pub(crate) fn only(mut request: Request<Bytes>, protocol: Protocol) -> Request<Bytes> {
    if protocol == Protocol::Http1 {
        request.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    request
}
