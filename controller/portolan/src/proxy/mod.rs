//! `portolan proxy`: the sidecar in a proxy's pod.
//!
//! ```text
//! kubelet ─ GET /ready ─▶ Readiness ◀─ watches ─┐
//!         ─ GET /drain ─▶ drain ────────────────┴─▶ Envoy's admin interface (Unix socket)
//! ```

mod drain;
mod readiness;

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::get;
use portolan_fleet::DRAIN_TOKEN_HEADER;
use tokio::net::TcpListener;

use crate::cli::ProxyOptions;
use crate::failure::{Failure, Verdict};
use crate::run::Signals;
use crate::shell::Shell;
use drain::Drain;
use readiness::Readiness;

#[derive(Clone)]
struct Sidecar {
    readiness: Arc<Readiness>,
    drain: Arc<Drain>,
    token: Arc<str>,
    shell: Shell,
}

/// Runs until it is told to end, which kubelet does after Envoy.
pub fn proxy(options: &ProxyOptions, shell: Shell) -> Result<Verdict, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(Failure::environment)?;
    runtime.block_on(serve(options, shell))
}

async fn serve(options: &ProxyOptions, shell: Shell) -> Result<Verdict, Failure> {
    let mut signals = Signals::listen().map_err(Failure::environment)?;
    let listener = bind(options.port).await?;
    let socket: Arc<PathBuf> = Arc::new(options.admin_socket.clone());
    let readiness = Arc::new(Readiness::new(Arc::clone(&socket)));
    let sidecar = Sidecar {
        readiness: Arc::clone(&readiness),
        drain: Arc::new(Drain::new(
            socket,
            Duration::from_secs(options.drain_wait),
            Duration::from_secs(options.drain_limit),
        )),
        token: options.drain_token.as_str().into(),
        shell,
    };
    shell.err(format_args!(
        "portolan {} looks after Envoy at {}",
        env!("CARGO_PKG_VERSION"),
        options.admin_socket.display()
    ));
    let router = Router::new()
        .route("/healthz", get(async || "ok\n"))
        .route("/ready", get(ready))
        .route("/drain", get(drain_now))
        .with_state(sidecar);
    let served = axum::serve(listener, router);
    tokio::select! {
        signal = signals.next() => shell.err(format_args!("{signal}: the end")),
        result = served => result.map_err(Failure::environment)?,
        () = readiness.watch(shell) => {}
    }
    Ok(Verdict::Good)
}

/// On all addresses: kubelet comes to the pod's own, of either family.
async fn bind(port: u16) -> Result<TcpListener, Failure> {
    let any = [SocketAddr::from((Ipv6Addr::UNSPECIFIED, port)), SocketAddr::from((Ipv4Addr::UNSPECIFIED, port))];
    TcpListener::bind(&any[..]).await.map_err(|error| {
        Failure::Environment(format!(
            "cannot listen on port {port} for kubelet's probes: {error}; a listener of the Gateway with this port has to move, or the installation's probe port"
        ))
    })
}

async fn ready(State(sidecar): State<Sidecar>) -> (StatusCode, String) {
    if sidecar.drain.has_begun() {
        return (StatusCode::SERVICE_UNAVAILABLE, "draining\n".to_owned());
    }
    match sidecar.readiness.missing() {
        None => (StatusCode::OK, "ready\n".to_owned()),
        Some(missing) => (StatusCode::SERVICE_UNAVAILABLE, format!("{missing}\n")),
    }
}

/// Kubelet's preStop hook of Envoy's container: answered when Envoy may end.
async fn drain_now(State(sidecar): State<Sidecar>, headers: HeaderMap) -> (StatusCode, String) {
    let given = headers.get(DRAIN_TOKEN_HEADER).and_then(|value| value.to_str().ok());
    if given != Some(&*sidecar.token) {
        return (StatusCode::FORBIDDEN, "only kubelet drains this proxy\n".to_owned());
    }
    let left = sidecar.drain.finish(sidecar.shell).await;
    (StatusCode::OK, format!("{left} connections are left\n"))
}
