//! gRPC's framing of both directions: "Length-Prefixed-Message → Compressed-Flag Message-Length Message" (gRPC over HTTP2, Requests).
//!
//! Our own, since tonic's encoder and decoder keep a buffer as large as the largest message for as long as the stream lives: a route table or a
//! list of names, megabytes for each proxy in step. Here a message that has gone leaves nothing behind, and large resources are never copied.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{BufMut, Bytes, BytesMut};
use http::HeaderMap;
use http_body::Frame;
use http_body_util::BodyExt;
use portolan_proto::delta::Pieces;
use portolan_proto::envoy::discovery::DeltaDiscoveryRequest;
use prost::Message;
use tokio::sync::mpsc;
use tonic::Status;
use tonic::body::Body;

use crate::pump::Queued;

/// Flag and length.
const PREFIX: usize = 5;
const NOT_COMPRESSED: u8 = 0;

/// The requests of a proxy.
pub(crate) struct Requests {
    body: Body,
    /// The beginning of the next message
    received: Vec<u8>,
    /// Bytes of the largest message that is read
    limit: usize,
}

impl Requests {
    pub(crate) const fn new(body: Body, limit: usize) -> Self {
        Self { body, received: Vec::new(), limit }
    }

    /// The next request; `None` when the proxy has ended the stream. Nothing is lost when the future is dropped.
    pub(crate) async fn next(&mut self) -> Result<Option<DeltaDiscoveryRequest>, Status> {
        loop {
            if let Some(request) = self.take()? {
                return Ok(Some(request));
            }
            match self.body.frame().await {
                Some(Ok(frame)) => self.received.extend_from_slice(frame.data_ref().map_or(&[], |data| data)),
                Some(Err(status)) => return Err(status),
                None => return Ok(None),
            }
        }
    }

    fn take(&mut self) -> Result<Option<DeltaDiscoveryRequest>, Status> {
        let Some((&[flag, a, b, c, d], rest)) = self.received.split_first_chunk::<PREFIX>() else { return Ok(None) };
        let length = u32::from_be_bytes([a, b, c, d]) as usize;
        if flag != NOT_COMPRESSED {
            return Err(Status::unimplemented("compressed requests are not read"));
        }
        if length > self.limit {
            return Err(Status::out_of_range(format!("a request of {length} bytes; {} are read", self.limit)));
        }
        let Some(message) = rest.get(..length) else { return Ok(None) };
        let request = DeltaDiscoveryRequest::decode(message)
            .map_err(|error| Status::invalid_argument(format!("no DeltaDiscoveryRequest: {error}")))?;
        // What remains in memory of its own size.
        self.received = self.received.split_off(PREFIX + length);
        Ok(Some(request))
    }
}

/// The responses to a proxy as a body, with the status in its trailers.
pub(crate) struct Responses {
    waiting: mpsc::Receiver<Queued>,
    /// What is being sent
    pieces: Option<Pieces>,
    ended: bool,
}

impl Responses {
    pub(crate) const fn new(waiting: mpsc::Receiver<Queued>) -> Self {
        Self { waiting, pieces: None, ended: false }
    }
}

impl http_body::Body for Responses {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if self.ended {
            return Poll::Ready(None);
        }
        if let Some(piece) = self.pieces.as_mut().and_then(Iterator::next) {
            return Poll::Ready(Some(Ok(Frame::data(piece))));
        }
        self.pieces = None;
        let status = match ready!(self.waiting.poll_recv(context)) {
            Some(Ok(response)) => match u32::try_from(response.encoded_len()) {
                Ok(length) => {
                    self.pieces = Some(response.into_pieces());
                    let mut prefix = BytesMut::with_capacity(PREFIX);
                    prefix.put_u8(NOT_COMPRESSED);
                    prefix.put_u32(length);
                    return Poll::Ready(Some(Ok(Frame::data(prefix.freeze()))));
                }
                Err(_) => Status::out_of_range("a response of more than 4 GiB"),
            },
            Some(Err(status)) => status,
            None => Status::ok(""),
        };
        self.ended = true;
        let mut trailers = HeaderMap::new();
        // Fails for messages that are no header values; then the proxy sees a stream without a status, which is an error as well.
        _ = status.add_header(&mut trailers);
        Poll::Ready(Some(Ok(Frame::trailers(trailers))))
    }
}

#[cfg(test)]
#[path = "framing_tests.rs"]
mod tests;
