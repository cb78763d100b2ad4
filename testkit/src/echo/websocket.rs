//! The websocket end: every text or binary message comes back as it is.

use bytes::Bytes;
use futures::{SinkExt as _, StreamExt as _};
use http::header::{CONNECTION, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, UPGRADE};
use http::{HeaderValue, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use tokio::sync::watch;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::Role;

use super::Phase;
use super::http::Body;

pub(super) fn accept(request: Request<Incoming>, told: watch::Receiver<Phase>) -> Response<Body> {
    let mut response = Response::new(Full::new(Bytes::new()).boxed_unsync());
    let accepted = request.headers().get(SEC_WEBSOCKET_KEY).map(|key| derive_accept_key(key.as_bytes()));
    let Some(accepted) = accepted.and_then(|key| HeaderValue::from_str(&key).ok()) else {
        *response.status_mut() = StatusCode::BAD_REQUEST;
        return response;
    };
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    response.headers_mut().insert(SEC_WEBSOCKET_ACCEPT, accepted);
    response.headers_mut().insert(UPGRADE, HeaderValue::from_static("websocket"));
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("upgrade"));
    tokio::spawn(echo(request, told));
    response
}

/// Ends with the connection, or when the server drains or is dropped.
async fn echo(request: Request<Incoming>, mut told: watch::Receiver<Phase>) {
    let Ok(upgraded) = hyper::upgrade::on(request).await else { return };
    let mut socket = WebSocketStream::from_raw_socket(TokioIo::new(upgraded), Role::Server, None).await;
    loop {
        let message = tokio::select! {
            message = socket.next() => message,
            _ = told.changed() => return,
        };
        match message {
            Some(Ok(message)) if message.is_text() || message.is_binary() => {
                if socket.send(message).await.is_err() {
                    return;
                }
            }
            // Pings and the closing handshake are answered by the library when it is polled next.
            Some(Ok(_)) => {}
            Some(Err(_)) | None => return,
        }
    }
}
