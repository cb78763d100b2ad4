//! The load that disturbances are measured under: every kind of client at once.

use std::net::SocketAddr;

use super::{Expect, Kind, Worker};
use crate::certs::Authority;
use crate::client::{Endpoint, Protocol};

/// Where a mix sends its requests.
#[derive(Clone, Copy)]
pub struct Mix<'a> {
    /// The proxy's plain-text port.
    pub http: SocketAddr,
    /// The proxy's TLS port, and the authority that signed its certificates.
    pub https: Option<(SocketAddr, &'a Authority)>,
    /// The host that requests name, and the server name (SNI) that connections ask for.
    pub host: &'a str,
    /// What every answer has to be.
    pub expect: &'a Expect,
}

impl Mix<'_> {
    /// 560 requests a second: HTTP/1.1 keep-alive with and without bodies, HTTP/2 with several streams, one websocket; with `https` the same total is
    /// shared with HTTP/2 over TLS and a new TLS connection for each of 40 requests a second.
    ///
    /// # Errors
    /// When the host is not a name.
    pub fn workers(&self) -> anyhow::Result<Vec<Worker>> {
        let expect = || self.expect.clone();
        let (h1, h2) = (Endpoint::http1(self.http), Endpoint::http2(self.http));
        let uri = format!("http://{}/", self.host);
        // What TLS does not take goes to the plain port.
        let spare = if self.https.is_some() { 0.0 } else { 140.0 };
        let mut workers = vec![
            Worker::get("http1", Kind::KeepAlive, h1.clone(), &uri, 150.0 + spare, expect())?,
            Worker::post("http1 post", Kind::KeepAlive, h1.clone(), &uri, 5000, 50.0, expect())?,
            Worker::get("http2", Kind::Streams(4), h2, &uri, 200.0, expect())?,
            Worker::get("websocket", Kind::Websocket, h1, &uri, 20.0, expect())?,
        ];
        if let Some((address, authority)) = self.https {
            let uri = format!("https://{}/", self.host);
            let endpoint = |protocol, alpn: &str| {
                Endpoint::new(address, protocol).tls(authority.client_config(&[alpn])?, self.host)
            };
            let (h1, h2) = (endpoint(Protocol::Http1, "http/1.1")?, endpoint(Protocol::Http2, "h2")?);
            workers.push(Worker::get("http2 tls", Kind::Streams(2), h2, &uri, 100.0, expect())?);
            workers.push(Worker::get("new tls", Kind::NewConnection, h1, &uri, 40.0, expect())?);
        }
        Ok(workers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::backend;

    #[test]
    fn the_total_is_the_same_with_and_without_tls() {
        let (authority, address, expect) =
            (Authority::new("test").unwrap(), SocketAddr::from(([127, 0, 0, 1], 1)), backend("a"));
        for https in [None, Some((address, &authority))] {
            let workers = Mix { http: address, https, host: "a.example", expect: &expect }.workers().unwrap();
            let rate: f64 = workers.iter().map(|worker| worker.rate).sum();
            assert!((rate - 560.0).abs() < 1e-9, "{rate}");
        }
    }
}
