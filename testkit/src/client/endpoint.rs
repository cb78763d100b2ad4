//! Where and how to connect.

use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls_pki_types::{CertificateDer, ServerName};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};

use super::{Cause, Failure};

/// The socket to connect to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    /// An address and port.
    Tcp(SocketAddr),
    /// A Unix socket, as of Envoy's admin interface.
    Unix(PathBuf),
}

impl From<SocketAddr> for Address {
    fn from(address: SocketAddr) -> Self {
        Self::Tcp(address)
    }
}

impl From<&Path> for Address {
    fn from(path: &Path) -> Self {
        Self::Unix(path.to_owned())
    }
}

impl fmt::Display for Address {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => write!(formatter, "{address}"),
            Self::Unix(path) => write!(formatter, "{}", path.display()),
        }
    }
}

/// The version of HTTP to speak.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// HTTP/1.1.
    Http1,
    /// HTTP/2, with prior knowledge where there is no TLS.
    Http2,
}

/// How to connect.
#[derive(Clone)]
pub struct Endpoint {
    /// The socket.
    pub address: Address,
    /// The version of HTTP.
    pub protocol: Protocol,
    tls: Option<(Arc<rustls::ClientConfig>, ServerName<'static>)>,
}

pub(crate) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

impl Endpoint {
    /// Plain text.
    pub fn new(address: impl Into<Address>, protocol: Protocol) -> Self {
        Self { address: address.into(), protocol, tls: None }
    }

    /// Plain-text HTTP/1.1.
    pub fn http1(address: impl Into<Address>) -> Self {
        Self::new(address, Protocol::Http1)
    }

    /// Plain-text HTTP/2 with prior knowledge.
    pub fn http2(address: impl Into<Address>) -> Self {
        Self::new(address, Protocol::Http2)
    }

    /// The same over TLS, asking for this server name (SNI). The protocols offered by ALPN are those of the settings: give it settings
    /// that offer what the endpoint speaks.
    ///
    /// # Errors
    /// When the name is neither a DNS name nor an address.
    pub fn tls(mut self, config: Arc<rustls::ClientConfig>, server_name: &str) -> anyhow::Result<Self> {
        self.tls = Some((config, ServerName::try_from(server_name.to_owned())?));
        Ok(self)
    }

    /// Whether it is one with TLS.
    pub fn is_tls(&self) -> bool {
        self.tls.is_some()
    }

    pub(crate) async fn connect(&self) -> Result<(Box<dyn Stream>, Option<CertificateDer<'static>>), Failure> {
        let refused = |error| Failure::new(Cause::Connect, format!("{}: {error}", self.address));
        let stream: Box<dyn Stream> = match &self.address {
            Address::Tcp(address) => {
                let stream = TcpStream::connect(address).await.map_err(refused)?;
                // Only slower where it fails.
                let _ = stream.set_nodelay(true);
                Box::new(stream)
            }
            Address::Unix(path) => Box::new(UnixStream::connect(path).await.map_err(refused)?),
        };
        let Some((config, name)) = &self.tls else { return Ok((stream, None)) };
        let handshake = tokio_rustls::TlsConnector::from(Arc::clone(config)).connect(name.clone(), stream);
        let stream = handshake
            .await
            .map_err(|error| Failure::new(Cause::Tls, format!("{} as {}: {error}", self.address, name.to_str())))?;
        let certificate =
            stream.get_ref().1.peer_certificates().and_then(<[_]>::first).map(|leaf| leaf.clone().into_owned());
        Ok((Box::new(stream), certificate))
    }
}
