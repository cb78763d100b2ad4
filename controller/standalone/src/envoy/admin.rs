//! Envoy's admin interface on its Unix socket.

use std::io;
use std::path::Path;
use std::time::Duration;

use http_body_util::{BodyExt, Empty};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::{Method, Request};
use hyper_util::rt::TokioIo;
use tokio::net::UnixStream;

/// The interface answers from memory; later than this is never.
const PATIENCE: Duration = Duration::from_secs(5);

/// Sends one request and returns status and body.
///
/// # Errors
/// When nobody answers on the socket within five seconds.
pub async fn request(socket: &Path, method: Method, path: &str) -> io::Result<(u16, String)> {
    tokio::time::timeout(PATIENCE, exchange(socket, method, path))
        .await
        .map_err(|_| io::Error::new(io::ErrorKind::TimedOut, "Envoy's admin interface does not answer"))?
}

async fn exchange(socket: &Path, method: Method, path: &str) -> io::Result<(u16, String)> {
    let stream = UnixStream::connect(socket).await?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(io::Error::other)?;
    let connection = tokio::spawn(connection);
    let request = Request::builder().method(method).uri(path).header("host", "envoy").body(Empty::<Bytes>::new());
    let answer = async {
        let response = sender.send_request(request.map_err(io::Error::other)?).await.map_err(io::Error::other)?;
        let status = response.status().as_u16();
        let body = response.into_body().collect().await.map_err(io::Error::other)?.to_bytes();
        Ok((status, String::from_utf8_lossy(&body).into_owned()))
    };
    let answer = answer.await;
    connection.abort();
    answer
}

/// How many connections of clients Envoy holds, its admin interface aside.
///
/// # Errors
/// As [`request`].
pub async fn connections(socket: &Path) -> io::Result<u64> {
    let path = "/stats?filter=%5E(http%7Ctcp)%5C..*%5C.downstream_cx_active%24";
    let (_, text) = request(socket, Method::GET, path).await?;
    Ok(count(&text))
}

fn count(stats: &str) -> u64 {
    stats
        .lines()
        .filter(|line| !line.starts_with("http.admin."))
        .filter_map(|line| line.rsplit_once(": ")?.1.trim().parse::<u64>().ok())
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_are_those_of_clients() {
        let stats =
            "http.admin.downstream_cx_active: 1\nhttp.http/80.downstream_cx_active: 2\ntcp.x.downstream_cx_active: 3\n";
        assert_eq!(count(stats), 5);
        assert_eq!(count(""), 0);
    }
}
