//! The gRPC service: `DeltaAggregatedResources` over any kind of connection.

use std::convert::Infallible;
use std::future::{self, Future};
use std::io;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures::{Stream, StreamExt};
use http::HeaderValue;
use http::header::CONTENT_TYPE;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc;
use tonic::body::Body;
use tonic::codegen::{Body as HttpBody, StdError};
use tonic::server::NamedService;
use tonic::transport::server::Connected;
use tonic::{Code, Status};

use crate::frames::Cut;
use crate::framing::{Requests, Responses};
use crate::pump;
use crate::server::{Inner, Server};
use crate::transition::FleetName;

type Identify = Arc<dyn Fn(&http::Extensions) -> Option<FleetName> + Send + Sync>;

/// The window of a stream with which HTTP/2 begins (RFC 9113 6.9.2). Why not less: `frames`.
const REQUEST_WINDOW: u32 = 65_535;

/// After a connection could not be accepted. Where no file descriptor is left it stays to be accepted, and would be tried without end.
const ACCEPT_PAUSE: Duration = Duration::from_secs(1);

const METHOD: &str = "/envoy.service.discovery.v3.AggregatedDiscoveryService/DeltaAggregatedResources";

impl Server {
    /// Serves connections until `shutdown` ends, then lets the open streams go.
    ///
    /// `identify` says by the credentials of a connection which fleet it belongs to; `None` refuses it. Nothing that the proxy says
    /// of itself is asked (design invariant 7: `node.id` is not trusted).
    pub async fn serve<S, IO, Info>(
        &self,
        incoming: S,
        identify: impl Fn(&Info) -> Option<FleetName> + Send + Sync + 'static,
        shutdown: impl Future<Output = ()> + Send,
    ) -> Result<(), tonic::transport::Error>
    where
        S: Stream<Item = io::Result<IO>> + Send,
        IO: AsyncRead + AsyncWrite + Connected<ConnectInfo = Info> + Unpin + Send + 'static,
        Info: Clone + Send + Sync + 'static,
    {
        let identify: Identify = Arc::new(move |extensions| identify(extensions.get::<Info>()?));
        let service = Service { server: Arc::clone(&self.inner), identify };
        let (interval, timeout) = self.inner.options.keepalive;
        tonic::transport::Server::builder()
            .http2_keepalive_interval(Some(interval))
            .http2_keepalive_timeout(Some(timeout))
            .initial_stream_window_size(REQUEST_WINDOW)
            .add_service(service)
            .serve_with_incoming_shutdown(incoming.then(unhurried), shutdown)
            .await
    }
}

/// Passes on a connection, or an error after a while.
async fn unhurried<IO>(connection: io::Result<IO>) -> io::Result<Cut<IO>> {
    if connection.is_err() {
        tokio::time::sleep(ACCEPT_PAUSE).await;
    }
    connection.map(Cut::new)
}

#[derive(Clone)]
struct Service {
    server: Arc<Inner>,
    identify: Identify,
}

impl NamedService for Service {
    const NAME: &'static str = "envoy.service.discovery.v3.AggregatedDiscoveryService";
}

impl<B> tower::Service<http::Request<B>> for Service
where
    B: HttpBody<Data = Bytes> + Send + 'static,
    B::Error: Into<StdError> + Send + 'static,
{
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = future::Ready<Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<B>) -> Self::Future {
        if request.uri().path() != METHOD {
            let status = Status::new(Code::Unimplemented, "only DeltaAggregatedResources is served");
            return future::ready(Ok(status.into_http()));
        }
        let Some(fleet) = (self.identify)(request.extensions()) else {
            let status = Status::permission_denied("these credentials belong to no fleet");
            return future::ready(Ok(status.into_http()));
        };
        let requests = Requests::new(Body::new(request.into_body()), self.server.options.request_bytes);
        let (outbound, waiting) = mpsc::channel(pump::WAITING);
        tokio::spawn(pump::run(Arc::clone(&self.server), fleet, requests, outbound));
        let mut response = http::Response::new(Body::new(Responses::new(waiting)));
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
        future::ready(Ok(response))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use prometheus_client::registry::Registry;

    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn connections_that_cannot_be_accepted_are_not_tried_without_end() {
        let (server, _transitions) = Server::new(crate::Options::default(), &mut Registry::default());
        let tries = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&tries);
        let incoming = futures::stream::repeat_with(move || {
            counted.fetch_add(1, Ordering::Relaxed);
            Err::<tokio::io::DuplexStream, _>(io::Error::from_raw_os_error(24))
        });
        let served = server.serve(incoming, |()| None, tokio::time::sleep(Duration::from_millis(1500)));
        served.await.unwrap();
        assert!((1..4).contains(&tries.load(Ordering::Relaxed)), "{tries:?}");
    }
}
