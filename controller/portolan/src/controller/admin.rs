//! Liveness, readiness and metrics, for kubelet and whoever scrapes. Nothing here names an object or shows a configuration.

use std::fmt::{Display, Write as _};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::{RawQuery, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use portolan_kubernetes::KindState;
use portolan_kubernetes::watch::{Followed, Freshness};
use prometheus_client::registry::Registry;
use rustls::ServerConfig;
use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::watch;

use super::pilot::Progress;
use crate::door;
use crate::failure::Failure;

#[derive(Clone)]
pub struct Admin {
    pub registry: Arc<Registry>,
    pub progress: watch::Receiver<Progress>,
    pub freshness: Freshness,
    /// What proxies are let in with; none until there is an authority
    pub config: watch::Receiver<Option<Arc<ServerConfig>>>,
}

/// Takes a port on all addresses, of both families where there are both.
pub async fn bind(port: u16, what: &str) -> Result<TcpListener, Failure> {
    match TcpListener::bind(SocketAddr::from((Ipv6Addr::UNSPECIFIED, port))).await {
        Ok(listener) => Ok(listener),
        Err(_) => TcpListener::bind(SocketAddr::from((Ipv4Addr::UNSPECIFIED, port)))
            .await
            .map_err(|error| Failure::Environment(format!("{what} cannot be served on port {port}: {error}"))),
    }
}

/// Takes a port as [`bind`] does, and no connections yet: whoever comes before the socket listens is refused, and goes elsewhere.
pub fn reserve(port: u16, what: &str) -> Result<TcpSocket, Failure> {
    let take = |address: SocketAddr| {
        let socket = if address.is_ipv6() { TcpSocket::new_v6() } else { TcpSocket::new_v4() }?;
        socket.set_reuseaddr(true)?;
        socket.bind(address).map(|()| socket)
    };
    take(SocketAddr::from((Ipv6Addr::UNSPECIFIED, port)))
        .or_else(|_| take(SocketAddr::from((Ipv4Addr::UNSPECIFIED, port))))
        .map_err(|error| Failure::Environment(format!("{what} cannot be served on port {port}: {error}")))
}

/// Answers until the program ends.
pub async fn serve(listener: TcpListener, admin: Admin) {
    let router = Router::new()
        .route("/livez", get(async || "ok\n"))
        .route("/readyz", get(readyz))
        .route("/metrics", get(metrics))
        .with_state(admin);
    door::serve(listener, router, door::PATIENCE).await;
}

/// Ready once the whole world has been read and proxies can be let in. A replica whose watches are broken later stays ready: its proxies have nobody better, and it
/// takes nothing away from them (design invariant 17).
async fn readyz(State(admin): State<Admin>, RawQuery(query): RawQuery) -> Response {
    let progress = admin.progress.borrow().clone();
    let mut text = String::new();
    if query.is_some_and(|query| query.split('&').any(|field| field == "verbose" || field.starts_with("verbose="))) {
        let mut stale = admin.freshness.stale(Instant::now());
        let is_cut_off = !stale.is_empty();
        let old = |age: Duration| ("[-]", format!("not followed for {} s", age.as_secs()));
        // Text takes everything.
        let mut line = |of: &dyn Display, (sign, words): (&str, String)| _ = writeln!(text, "{sign} {of} {words}");
        for (kind, state) in &progress.kinds {
            let words = match (state, stale.remove(&Followed::Kind(*kind))) {
                (_, Some(age)) => old(age),
                (KindState::Served(version), None) => ("[+]", version.to_string()),
                (KindState::Absent, None) => ("[+]", "not installed".to_owned()),
                (KindState::Denied(text), None) => ("[-]", format!("may not be read: {text}")),
                (KindState::Failing(text), None) => ("[-]", text.to_string()),
            };
            line(kind, words);
        }
        for (followed, age) in stale {
            line(&followed, old(age));
        }
        if is_cut_off {
            text.push_str("[-] cut off: proxies keep what they have, and new ones get what was known last\n");
        }
    }
    let (status, word) = match (progress.synced, admin.config.borrow().is_some()) {
        (true, true) => (StatusCode::OK, "ok\n"),
        (false, _) => (StatusCode::SERVICE_UNAVAILABLE, "reading the world\n"),
        (true, false) => (StatusCode::SERVICE_UNAVAILABLE, "waiting for the authority\n"),
    };
    text.push_str(word);
    (status, text).into_response()
}

async fn metrics(State(admin): State<Admin>) -> Response {
    let mut text = String::new();
    match prometheus_client::encoding::text::encode(&mut text, &admin.registry) {
        Ok(()) => {
            let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
            ([(header::CONTENT_TYPE, kind)], text).into_response()
        }
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")).into_response(),
    }
}
