//! An HTTP client that shows what it did: one request on one connection, no pool, no redirects, no second try.

mod connection;
mod endpoint;

use std::fmt;

use bytes::Bytes;
use http::{HeaderMap, Request, StatusCode};
use rustls_pki_types::CertificateDer;

pub(crate) use connection::only;
pub use connection::{Connection, Unsent};
pub(crate) use endpoint::Stream;
pub use endpoint::{Address, Endpoint, Protocol};

use crate::echo::Answer;

/// What came back.
#[derive(Debug, Clone)]
pub struct Exchange {
    /// The status.
    pub status: StatusCode,
    /// The response's headers.
    pub headers: HeaderMap,
    /// The response's body, complete.
    pub body: Bytes,
    /// The response's trailers.
    pub trailers: Option<HeaderMap>,
    /// The certificate that the server presented on this connection.
    pub certificate: Option<CertificateDer<'static>>,
}

impl Exchange {
    /// The body as an echo server's answer, if it is one.
    pub fn answer(&self) -> Option<Answer> {
        serde_json::from_slice(&self.body).ok()
    }

    /// The first value of a response header.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }
}

/// Why an exchange is not what it should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// No connection.
    Connect,
    /// No TLS session: refused, reset, or a certificate that does not verify.
    Tls,
    /// The connection ended while a request was in flight and nothing had announced it.
    Broken,
    /// No answer within the limit.
    Timeout,
    /// Another status than expected.
    Status,
    /// The answer of another backend than expected.
    Identity,
    /// Another body than expected, or a request that did not arrive as it was sent.
    Body,
}

impl fmt::Display for Cause {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(match self {
            Self::Connect => "connect",
            Self::Tls => "tls",
            Self::Broken => "broken",
            Self::Timeout => "timeout",
            Self::Status => "status",
            Self::Identity => "identity",
            Self::Body => "body",
        })
    }
}

/// A failed exchange: the cause to count by, and the detail to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// What kind of failure.
    pub cause: Cause,
    /// What happened, in words.
    pub detail: String,
}

impl Failure {
    /// A failure of this cause.
    pub fn new(cause: Cause, detail: impl fmt::Display) -> Self {
        Self { cause, detail: detail.to_string() }
    }

    fn of(cause: Cause, error: &dyn std::error::Error) -> Self {
        let mut detail = error.to_string();
        let mut source = error.source();
        while let Some(inner) = source {
            detail = format!("{detail}: {inner}");
            source = inner.source();
        }
        Self { cause, detail }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.cause, self.detail)
    }
}

impl std::error::Error for Failure {}

/// Sends one request, whose URI is absolute, on a connection of its own.
///
/// # Errors
/// When no connection comes about or it breaks. The caller bounds the time.
pub async fn send(endpoint: &Endpoint, request: Request<Bytes>) -> Result<Exchange, Failure> {
    let mut connection = Connection::open(endpoint).await?;
    connection.send(request).await.map_err(|unsent| match unsent {
        Unsent::Again(why) => Failure::new(Cause::Broken, format!("a new connection took no request: {why}")),
        Unsent::Failed(failure) => failure,
    })
}

/// `GET` of an absolute URI such as `http://shop.example/cart`.
///
/// # Errors
/// When the URI is not one, or as [`send`].
pub async fn get(endpoint: &Endpoint, uri: &str) -> anyhow::Result<Exchange> {
    Ok(send(endpoint, Request::get(uri).body(Bytes::new())?).await?)
}
