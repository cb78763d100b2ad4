//! Connections for xDS in a cluster: TCP with mutual TLS. Who a proxy is follows from its certificate alone (design invariant 7).

use std::future::Future as _;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::Stream;
use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::time::{Instant, Sleep};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::server::Connected;

use super::pilot::Progress;

/// A handshake takes two round trips; who takes longer holds a place for nothing.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// Handshakes at the same moment. A fleet of a thousand proxies that comes back waits in the kernel's queue meanwhile.
const HANDSHAKES: usize = 64;
/// Connections that may wait in the kernel until they are taken.
const WAITING: u32 = 1024;
/// After an error of `accept`, such as no free file descriptor, which would come back at once.
const PAUSE: Duration = Duration::from_millis(100);

/// What a proxy's certificate says.
#[derive(Clone, Debug)]
pub struct Peer {
    /// DER
    pub certificate: Arc<[u8]>,
}

/// A connection of a proxy that has shown a certificate of the authority. It ends by itself when it has lasted for as long as `lasting` said.
pub struct Secured {
    stream: TlsStream<TcpStream>,
    peer: Peer,
    end: Option<Pin<Box<Sleep>>>,
}

/// Takes connections from the moment at which `progress` says that the whole world is known, and there is a configuration: before, proxies would wait
/// here for what another replica may have for them. Each handshake is made with the configuration of its moment. `lasting` says by a certificate how long its connection may last: not
/// beyond the certificate (`None`: for ever).
pub fn connections(
    socket: TcpSocket,
    mut progress: watch::Receiver<Progress>,
    mut config: watch::Receiver<Option<Arc<ServerConfig>>>,
    lasting: impl Fn(&[u8]) -> Option<Duration> + Clone + Send + 'static,
) -> impl Stream<Item = io::Result<Secured>> + Send {
    let (ready, connections) = mpsc::channel(HANDSHAKES);
    tokio::spawn(async move {
        let places = Arc::new(Semaphore::new(HANDSHAKES));
        if progress.wait_for(|progress| progress.synced).await.is_err()
            || config.wait_for(Option::is_some).await.is_err()
        {
            return;
        }
        let listener = match socket.listen(WAITING) {
            Ok(listener) => listener,
            Err(error) => return tracing::error!(%error, "xDS cannot be served"),
        };
        loop {
            // Never closed.
            let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
            let (stream, address) = tokio::select! {
                () = ready.closed() => return,
                accepted = listener.accept() => match accepted {
                    Ok(accepted) => accepted,
                    Err(error) => {
                        tracing::warn!(%error, "a connection for xDS cannot be taken");
                        tokio::time::sleep(PAUSE).await;
                        continue;
                    }
                },
            };
            let Some(config) = config.borrow().clone() else { continue };
            let (ready, lasting) = (ready.clone(), lasting.clone());
            tokio::spawn(async move {
                match tokio::time::timeout(HANDSHAKE, secure(stream, config, lasting)).await {
                    Ok(Ok(secured)) => _ = ready.send(Ok(secured)).await,
                    Ok(Err(error)) => tracing::info!(%address, %error, "a proxy's handshake fails"),
                    Err(_) => tracing::info!(%address, "a handshake takes too long"),
                }
                drop(place);
            });
        }
    });
    ReceiverStream::new(connections)
}

async fn secure(
    stream: TcpStream,
    config: Arc<ServerConfig>,
    lasting: impl Fn(&[u8]) -> Option<Duration>,
) -> io::Result<Secured> {
    stream.set_nodelay(true)?;
    let stream = TlsAcceptor::from(config).accept(stream).await?;
    let certificate = stream.get_ref().1.peer_certificates().and_then(<[_]>::first);
    let certificate: Arc<[u8]> = certificate.map(|der| Arc::from(der.as_ref())).unwrap_or_default();
    let end = lasting(&certificate).map(|lasting| Box::pin(tokio::time::sleep_until(Instant::now() + lasting)));
    Ok(Secured { stream, peer: Peer { certificate }, end })
}

impl Connected for Secured {
    type ConnectInfo = Peer;

    fn connect_info(&self) -> Peer {
        self.peer.clone()
    }
}

impl AsyncRead for Secured {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.end.as_mut().is_some_and(|end| end.as_mut().poll(context).is_ready()) {
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the proxy's certificate ends")));
        }
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Secured {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
