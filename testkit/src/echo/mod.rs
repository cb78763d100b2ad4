//! The backend of tests and demonstrations: it answers with what arrived and who it is.
//!
//! One port speaks HTTP/1.1, HTTP/2 with prior knowledge (h2c), websocket and gRPC; with a certificate the same over TLS. Answers and the gRPC service
//! have the form of the `echo-basic` server of the Gateway API conformance suite, plus the length and hash of the body, so that the suite's
//! expectations apply to it as they stand.
//!
//! | request | answer |
//! |---|---|
//! | anything | 200 and an [`Answer`] as JSON |
//! | `/status/503` | that status, with the same body |
//! | `/delay?ms=200`, any path with `?delay=200ms` | the same, later |
//! | `/close` | the same with `connection: close` |
//! | `/break` | none: the connection is cut |
//! | `upgrade: websocket` | 101, then every message comes back |
//! | `content-type: application/grpc` | the suite's `GrpcEcho` service |
//! | header `x-echo-set-header: a:b, c:d` | these response headers as well |

mod answer;
mod grpc;
mod http;
mod listener;
mod websocket;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::watch;

pub use answer::{Answer, Tls, body_hash};
pub use grpc::{Assertions, EchoResponse, GRPC_SERVICE, call as grpc_call};

/// The response header that names the backend on every response, also where there is no body to do so.
pub const IDENTITY: &str = "x-echo-service";

/// What an echo server calls itself, and where it listens.
#[derive(Clone)]
pub struct EchoOptions {
    /// Its name, in the answers' `service` and in the response header [`IDENTITY`].
    pub name: String,
    /// The namespace it claims to be in.
    pub namespace: String,
    /// The pod it claims to be.
    pub pod: String,
    /// Where to listen; port 0 takes a free one.
    pub listen: SocketAddr,
    /// TLS settings; none for plain text.
    pub tls: Option<Arc<rustls::ServerConfig>>,
    /// Changes every answer before it is sent: how a test shows that a client notices a wrong one.
    pub alter: Option<fn(&mut Answer)>,
}

impl EchoOptions {
    /// A plain-text server of this name on a free loopback port, in namespace `default`, in a pod of the same name.
    pub fn named(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            namespace: "default".to_owned(),
            pod: name.to_owned(),
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            tls: None,
            alter: None,
        }
    }
}

/// What a connection is told: go on, or finish the requests in hand. Being told nothing more (the sender is gone) means to stop at once.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Serving,
    Draining,
}

/// What all connections of one server share.
struct Shared {
    options: EchoOptions,
    requests: AtomicU64,
}

/// A running echo server. Dropping it cuts its connections at once, as a killed process would.
pub struct Echo {
    address: SocketAddr,
    phase: watch::Sender<Phase>,
    shared: Arc<Shared>,
}

impl Echo {
    /// Starts a server on the current tokio runtime.
    ///
    /// # Errors
    /// When the address is taken.
    pub async fn start(options: EchoOptions) -> std::io::Result<Self> {
        let listener = tokio::net::TcpListener::bind(options.listen).await?;
        let address = listener.local_addr()?;
        let (phase, told) = watch::channel(Phase::Serving);
        let shared = Arc::new(Shared { options, requests: AtomicU64::new(0) });
        tokio::spawn(listener::serve(listener, told, Arc::clone(&shared)));
        Ok(Self { address, phase, shared })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// How many requests have arrived so far, websocket handshakes and gRPC calls included.
    pub fn requests(&self) -> u64 {
        self.shared.requests.load(Ordering::Relaxed)
    }

    /// Stops accepting, announces the end on every connection (`connection: close`, GOAWAY) and waits until all have finished; open websockets are cut.
    pub async fn drain(self) {
        // Fails only when every connection and the listener are gone, which is what is waited for.
        let _ = self.phase.send(Phase::Draining);
        self.phase.closed().await;
    }
}
