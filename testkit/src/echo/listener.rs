//! Accepts connections and serves each until it ends, is told to finish, or is cut.

use std::sync::Arc;

use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use super::answer::Tls;
use super::http::{Arrival, respond};
use super::{Phase, Shared};

pub(super) async fn serve(listener: TcpListener, mut told: watch::Receiver<Phase>, shared: Arc<Shared>) {
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                // An error here is a client that has gone again, or no file descriptors: the next attempt may succeed.
                if let Ok((stream, _)) = accepted {
                    tokio::spawn(connection(stream, told.clone(), Arc::clone(&shared)));
                }
            }
            _ = told.changed() => return,
        }
    }
}

async fn connection(stream: TcpStream, mut told: watch::Receiver<Phase>, shared: Arc<Shared>) {
    let port = stream.local_addr().map(|address| address.port()).unwrap_or_default();
    // Small answers must not wait for Nagle; if it fails they are only slower.
    let _ = stream.set_nodelay(true);
    let Some(config) = shared.options.tls.clone() else {
        return http(stream, Arrival { port, tls: None, told, shared }).await;
    };
    tokio::select! {
        // A failed handshake is the client's to report.
        handshake = tokio_rustls::TlsAcceptor::from(config).accept(stream) => {
            if let Ok(stream) = handshake {
                let tls = Some(Tls::of(stream.get_ref().1));
                http(stream, Arrival { port, tls, told, shared }).await;
            }
        }
        () = cut(&mut told) => {}
    }
}

async fn http<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(stream: S, arrival: Arrival) {
    let mut told = arrival.told.clone();
    let arrival = Arc::new(arrival);
    let service = service_fn(move |request| respond(Arc::clone(&arrival), request));
    let builder = auto::Builder::new(TokioExecutor::new());
    let served = builder.serve_connection_with_upgrades(TokioIo::new(stream), service);
    tokio::pin!(served);
    if *told.borrow_and_update() == Phase::Draining {
        served.as_mut().graceful_shutdown();
    }
    loop {
        tokio::select! {
            // How it ended is the client's to report.
            _ = served.as_mut() => return,
            changed = told.changed() => match changed {
                Ok(()) => served.as_mut().graceful_shutdown(),
                Err(_) => return,
            },
        }
    }
}

/// Ends when the server is dropped.
async fn cut(told: &mut watch::Receiver<Phase>) {
    while told.changed().await.is_ok() {}
}
