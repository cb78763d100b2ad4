//! Who is let in: connections that ask in time, by a name that no stranger's page can take.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{StatusCode, header, uri::Authority};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::serve::Listener;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};

/// How long the head of a request may take, from the connection or the answer before it. Whoever is slower holds a file descriptor,
/// of which xDS needs some too.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// How many connections are served at a time; others wait. Each holds a file descriptor, and without one nothing is read from the
/// directory, no Envoy can be started and none can connect.
const CONNECTIONS: usize = 64;
/// How long a connection may last, in units of the patience with a request. Whoever does not read an answer would have it for good.
const PATIENCES: u32 = 6;

/// Answers until the program ends, whoever asks by whatever name.
pub async fn serve(mut listener: TcpListener, router: Router, patience: Duration) {
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    // It is never closed.
    while let Ok(place) = Arc::clone(&places).acquire_owned().await {
        // Waits where there are no descriptors left, for example.
        let (connection, _) = Listener::accept(&mut listener).await;
        let service = TowerToHyperService::new(router.clone());
        tokio::spawn(async move {
            let _place = place;
            let mut builder = http1::Builder::new();
            builder.timer(TokioTimer::new()).header_read_timeout(patience);
            let served = builder.serve_connection(TokioIo::new(connection), service);
            tokio::pin!(served);
            let ended = tokio::select! {
                ended = served.as_mut() => ended,
                () = sleep(patience * PATIENCES) => {
                    served.as_mut().graceful_shutdown();
                    timeout(patience, served).await.unwrap_or(Ok(()))
                }
            };
            if let Err(error) = ended {
                tracing::debug!(%error, "a connection of the admin endpoint has ended");
            }
        });
    }
}

/// Lets in only who asks for loopback or for what the endpoint is bound to.
pub fn guarded(router: Router, bound: SocketAddr) -> Router {
    router.layer(from_fn_with_state(bound, check_host))
}

/// A page of a stranger may point its own name at 127.0.0.1 and read what is served there ("DNS rebinding"). It cannot make a browser
/// leave that name out of the request.
async fn check_host(State(bound): State<SocketAddr>, request: Request, next: Next) -> Response {
    let named = request.headers().get_all(header::HOST).iter().map(|value| value.to_str().unwrap_or_default());
    let named = named.chain(request.uri().authority().map(Authority::as_str));
    let refused: Option<String> = named.into_iter().find(|name| !is_own(name, bound.ip())).map(ToOwned::to_owned);
    match refused {
        Some(name) => {
            let own = if bound.ip().is_unspecified() { "an address of this machine".into() } else { bound.to_string() };
            let text = format!("the admin endpoint is not called {name:?}; ask for it by localhost or {own}\n");
            (StatusCode::MISDIRECTED_REQUEST, text).into_response()
        }
        None => next.run(request).await,
    }
}

/// Whether a Host header names loopback or what the endpoint is bound to. Bound to all addresses, that is any address: a name alone
/// can be pointed elsewhere.
fn is_own(host: &str, bound: IpAddr) -> bool {
    let Ok(authority) = host.parse::<Authority>() else { return false };
    let name = authority.host();
    match name.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>() {
        Ok(address) => {
            let address = address.to_canonical();
            address.is_loopback() || bound.is_unspecified() || address == bound.to_canonical()
        }
        // RFC 6761, 6.3: names below localhost are loopback.
        Err(_) => {
            let name = name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase();
            name == "localhost" || name.ends_with(".localhost")
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use axum::routing::get;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpStream;

    use super::*;

    #[test]
    fn only_loopback_and_what_it_is_bound_to() {
        let own = |host, bound: &str| is_own(host, bound.parse().unwrap());
        for host in
            ["localhost", "LOCALHOST:9800", "localhost.", "a.localhost", "127.0.0.1:9800", "127.8.0.1", "[::1]:1"]
        {
            assert!(own(host, "127.0.0.1") && own(host, "10.0.0.7"), "{host}");
        }
        for host in ["evil.example", "localhost.evil.example", "127.0.0.1.nip.example", "10.0.0.8", "", "a b", "x@y@z"]
        {
            assert!(!own(host, "127.0.0.1") && !own(host, "10.0.0.7"), "{host}");
        }
        assert!(own("10.0.0.7:9800", "10.0.0.7") && own("[2001:db8::7]", "2001:db8::7"));
        assert!(own("10.0.0.7", "0.0.0.0") && own("10.0.0.7", "::") && !own("evil.example", "0.0.0.0"));
    }

    /// More than the sockets of both sides hold
    const LARGE: usize = 64 << 20;

    async fn start(patience: Duration) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = Router::new().route("/", get(async || "in")).route("/large", get(async || vec![b' '; LARGE]));
        tokio::spawn(serve(listener, guarded(router, address), patience));
        address
    }

    /// What comes back until the other side closes.
    async fn exchange(address: SocketAddr, request: &str) -> String {
        let mut connection = TcpStream::connect(address).await.unwrap();
        connection.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        let read = connection.read_to_string(&mut answer);
        timeout(Duration::from_secs(10), read).await.expect("the connection is closed").unwrap();
        answer
    }

    #[tokio::test]
    async fn a_strangers_name_is_told_the_right_one() {
        let address = start(PATIENCE).await;
        let ask = async |target: &str, host: &str| {
            exchange(address, &format!("GET {target} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n")).await
        };
        let answer = ask("/", "evil.example").await;
        assert!(answer.starts_with("HTTP/1.1 421 ") && answer.contains(&address.to_string()), "{answer}");
        assert!(ask("http://evil.example/", "localhost").await.starts_with("HTTP/1.1 421 "));
        assert!(ask("/", "localhost").await.ends_with("in"));
    }

    #[tokio::test]
    async fn whoever_does_not_finish_the_request_is_hung_up_on() {
        let address = start(Duration::from_millis(300)).await;
        let began = Instant::now();
        for request in
            ["", "GET / HTTP/1.1\r\nhost: localhost\r\nx-slow: ", "GET / HTTP/1.1\r\nhost: localhost\r\n\r\n"]
        {
            exchange(address, request).await;
        }
        assert!(began.elapsed() >= Duration::from_millis(600), "the request was not waited for");
    }

    #[tokio::test]
    async fn so_many_connections_at_a_time() {
        let patience = Duration::from_millis(500);
        let address = start(patience).await;
        let began = Instant::now();
        let mut silent = Vec::new();
        for _ in 0..CONNECTIONS {
            silent.push(TcpStream::connect(address).await.unwrap());
        }
        let answer = exchange(address, "GET / HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").await;
        assert!(answer.ends_with("in") && began.elapsed() >= patience * 9 / 10, "{:?}", began.elapsed());
    }

    #[tokio::test]
    async fn whoever_does_not_read_the_answer_is_hung_up_on() {
        let patience = Duration::from_millis(50);
        let address = start(patience).await;
        let mut connection = TcpStream::connect(address).await.unwrap();
        connection.write_all(b"GET /large HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
        sleep(patience * (PATIENCES + 1) * 4).await;
        let mut answer = Vec::new();
        // Cut in the middle, with or without a reset.
        let _reset = timeout(Duration::from_secs(10), connection.read_to_end(&mut answer)).await.unwrap();
        assert!(answer.len() < LARGE, "{}", answer.len());
    }
}
