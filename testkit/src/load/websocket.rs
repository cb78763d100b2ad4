//! A websocket that is held open: every message must come back, and the connection must not end.

use std::time::Instant;

use bytes::Bytes;
use futures::{SinkExt as _, StreamExt as _};
use http::{Request, Response};
use tokio::time::timeout;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::client::generate_key;
use tokio_tungstenite::tungstenite::{Error, Message};

use super::worker::{Pace, judge};
use super::{Tally, Worker};
use crate::client::{Cause, Exchange, Failure, Stream};

type Socket = WebSocketStream<Box<dyn Stream>>;

pub(super) async fn run(worker: Worker, mut pace: Pace) -> (&'static str, Tally) {
    let mut tally = Tally::default();
    let mut ticks = pace.ticks();
    let mut socket: Option<Socket> = None;
    let mut serial = 0_u64;
    while let Some(due) = pace.next(&mut ticks).await {
        serial += 1;
        let outcome = match timeout(worker.limit, turn(&worker, socket.take(), &mut tally, serial)).await {
            Ok(Ok(open)) => {
                socket = Some(open);
                Ok(())
            }
            Ok(Err(failure)) => Err(failure),
            Err(_) => Err(Failure::new(
                Cause::Timeout,
                format!("message {serial} did not come back within {:?}", worker.limit),
            )),
        };
        pace.count(&mut tally, due, outcome);
    }
    if let Some(mut socket) = socket {
        // The load is over: whether the peer takes note no longer matters.
        let _ = socket.close(None).await;
    }
    (worker.name, tally)
}

/// Sends one message and waits for it, on the open socket or a new one; yields the socket for the next turn.
async fn turn(worker: &Worker, socket: Option<Socket>, tally: &mut Tally, serial: u64) -> Result<Socket, Failure> {
    let mut socket = match socket {
        Some(socket) => socket,
        None => open(worker, tally).await?,
    };
    let broken = |error: &Error| Failure::new(Cause::Broken, format!("websocket at message {serial}: {error}"));
    let text = format!("message {serial} at {:?}", Instant::now());
    socket.send(Message::text(text.clone())).await.map_err(|error| broken(&error))?;
    loop {
        match socket.next().await {
            Some(Ok(Message::Text(back))) if back.as_str() == text => return Ok(socket),
            Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
            Some(Ok(other)) if other.is_close() => {
                return Err(Failure::new(Cause::Broken, format!("websocket closed: {other}")));
            }
            Some(Ok(other)) => return Err(Failure::new(Cause::Body, format!("{text:?} came back as {other}"))),
            Some(Err(error)) => return Err(broken(&error)),
            None => return Err(Failure::new(Cause::Broken, format!("websocket ended at message {serial}"))),
        }
    }
}

async fn open(worker: &Worker, tally: &mut Tally) -> Result<Socket, Failure> {
    tally.connections += 1;
    let (stream, certificate) = worker.endpoint.connect().await?;
    let request = (worker.request)(0);
    let exchange = |response: &Response<Option<Vec<u8>>>| Exchange {
        status: response.status(),
        headers: response.headers().clone(),
        body: response.body().clone().map(Bytes::from).unwrap_or_default(),
        trailers: None,
        certificate: certificate.clone(),
    };
    match tokio_tungstenite::client_async(handshake(&request)?, stream).await {
        Ok((socket, response)) => {
            judge(&worker.expect, &request, &exchange(&response))?;
            Ok(socket)
        }
        Err(Error::Http(response)) => {
            judge(&worker.expect, &request, &exchange(&response))?;
            Err(Failure::new(Cause::Status, format!("{} instead of a websocket", response.status())))
        }
        Err(error) => Err(Failure::new(Cause::Broken, format!("websocket handshake: {error}"))),
    }
}

/// The opening handshake (RFC 6455, 4.1), with the headers of the worker's request.
fn handshake(request: &Request<Bytes>) -> Result<Request<()>, Failure> {
    let authority = request.uri().authority().map(ToString::to_string).unwrap_or_default();
    let scheme = if request.uri().scheme_str() == Some("https") { "wss" } else { "ws" };
    let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
    let mut handshake = Request::get(format!("{scheme}://{authority}{path}"))
        .header("host", authority)
        .header("connection", "upgrade")
        .header("upgrade", "websocket")
        .header("sec-websocket-version", "13")
        .header("sec-websocket-key", generate_key());
    for (name, value) in request.headers() {
        handshake = handshake.header(name, value);
    }
    handshake.body(()).map_err(|error| Failure::new(Cause::Body, error))
}
