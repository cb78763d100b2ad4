//! The way to the API server, whose other end may vanish.

use std::error::Error;
use std::time::Duration;

use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use kube::client::retry::RetryPolicy;
use kube::client::{Body, ClientBuilder, ConfigExt as _};
use kube::{Client, Config};
use tower::retry::RetryLayer;
use tower::util::{ServiceExt as _, option_layer};

/// A connection that is silent for so long is asked whether its other end is there, and again after as long.
const PING: Duration = Duration::from_secs(5);
/// After so long without any answer it is none. A watch is silent where nothing happens, and otherwise waits for its bookmarks, and a request
/// without an end of its own for a quarter of an hour.
const GONE: Duration = Duration::from_secs(15);

/// How long an API server may take for one request.
const REQUEST: Duration = Duration::from_secs(10);

/// The answer to one request that comes in time: an API server that takes connections and says nothing is not waited for.
///
/// # Errors
/// Those of the request, or that there was no answer.
pub async fn bounded<T>(request: impl Future<Output = kube::Result<T>>) -> kube::Result<T> {
    let late = || kube::Error::Service(format!("no answer within {} s", REQUEST.as_secs()).into());
    tokio::time::timeout(REQUEST, request).await.unwrap_or_else(|_| Err(late()))
}

/// As `kube::Client::try_from` makes one, but for what happens when the machine of the API server, or the way to it, is gone: TCP notices, within 20 s.
/// Without kube's traces of requests, its limit to writing, and its look at when the credentials of a program end.
///
/// # Errors
/// Where what the configuration names (certificates, a program that logs in) cannot be had. A proxy is not supported.
pub fn client(config: Config) -> kube::Result<Client> {
    if let Some(proxy_url) = config.proxy_url {
        return Err(kube::Error::ProxyProtocolUnsupported { proxy_url });
    }
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_connect_timeout(config.connect_timeout);
    tcp.set_keepalive(Some(PING));
    tcp.set_keepalive_interval(Some(PING));
    // Of what is sent, too; and this, not a number of questions, ends a silent one (tcp(7), TCP_USER_TIMEOUT).
    tcp.set_tcp_user_timeout(Some(GONE));
    let tls = config.rustls_https_connector_with_connector(tcp)?;
    let http = hyper_util::client::legacy::Client::builder(TokioExecutor::new()).build::<_, Body>(tls);
    let http = http.map_err(Box::<dyn Error + Send + Sync>::from);
    let is_retried = config.default_retry.then(|| RetryLayer::new(RetryPolicy::server_retry()));
    Ok(ClientBuilder::new(http, config.default_namespace.clone())
        .with_layer(&config.extra_headers_layer()?)
        .with_layer(&option_layer(config.auth_layer()?))
        .with_layer(&option_layer(is_retried))
        .with_layer(&config.base_uri_layer())
        .build())
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt as _;
    use tokio::net::TcpListener;

    use super::*;

    /// What the kernel will do next on the connection with this port at its other end: the kind of its timer, and in hundredths of a second when
    /// (proc_net_tcp: 2 is one that asks whether the other end is there).
    fn timer(port: u16) -> Option<(u8, u64)> {
        let table = std::fs::read_to_string("/proc/self/net/tcp").unwrap();
        let other = format!(":{port:04X}");
        let fields = table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
        let mut timer =
            fields.filter(|fields| fields[2].ends_with(&other) && fields[3] == "01").map(|fields| fields[5]);
        let (kind, when) = timer.next_back()?.split_once(':')?;
        Some((u8::from_str_radix(kind, 16).unwrap(), u64::from_str_radix(when, 16).unwrap()))
    }

    #[tokio::test]
    async fn the_kernel_asks_whether_a_silent_api_server_is_there() {
        _ = rustls::crypto::ring::default_provider().install_default();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let at = listener.local_addr().unwrap();
        let config = Config::new(format!("http://{at}").parse().unwrap());
        let asking = client(config).unwrap();
        let request = http::Request::get("/api").body(Vec::new()).unwrap();
        let asked = tokio::spawn(async move { asking.request_text(request).await });
        let (mut connection, _) = listener.accept().await.unwrap();
        // The request has come, and gets no answer.
        let mut buffer = [0; 4096];
        assert!(connection.read(&mut buffer).await.unwrap() > 0);
        tokio::time::sleep(Duration::from_millis(300)).await;
        let (kind, hundredths) = timer(at.port()).expect("a connection");
        assert!(kind == 2 && hundredths <= PING.as_secs() * 100, "{kind} {hundredths}");
        drop(connection);
        asked.await.unwrap().unwrap_err();
    }
}
