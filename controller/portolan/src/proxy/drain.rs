//! The end of a proxy without losing a request (envoy-l4-secrets-drain.md 7.2): wait until nobody sends here any more, then let each
//! connection end with its next response, then wait for the last one.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hyper::Method;
use portolan_standalone::envoy::admin;
use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::shell::Shell;

const EVERY: Duration = Duration::from_millis(250);

/// One drain, however often it is asked for.
pub struct Drain {
    socket: Arc<PathBuf>,
    wait: Duration,
    limit: Duration,
    begun: AtomicBool,
    /// How many connections were left; `None`: not over yet
    over: Mutex<Option<u64>>,
}

impl Drain {
    /// `wait`: until load balancers have let go. `limit`: the end of it, counted from the beginning.
    pub fn new(socket: Arc<PathBuf>, wait: Duration, limit: Duration) -> Self {
        Self { socket, wait, limit, begun: AtomicBool::new(false), over: Mutex::new(None) }
    }

    pub fn has_begun(&self) -> bool {
        self.begun.load(Ordering::Acquire)
    }

    /// Begins, where nobody has, and returns when it is over: how many connections are left. Those that are silent, and TCP, end only with
    /// Envoy.
    pub async fn finish(&self, shell: Shell) -> u64 {
        self.begun.store(true, Ordering::Release);
        let mut over = self.over.lock().await;
        if let Some(left) = *over {
            return left;
        }
        let end = Instant::now() + self.limit;
        shell.err(format_args!("draining: new connections are taken for another {} s", self.wait.as_secs()));
        tokio::time::sleep(self.wait.min(self.limit)).await;
        if let Err(error) = admin::request(&self.socket, Method::POST, "/healthcheck/fail").await {
            shell.err(format_args!("Envoy cannot be drained: {error}"));
        }
        let left = loop {
            // An Envoy that is gone has no connections.
            let left = admin::connections(&self.socket).await.unwrap_or(0);
            if left == 0 || Instant::now() + EVERY > end {
                break left;
            }
            tokio::time::sleep(EVERY).await;
        };
        shell.err(format_args!("drained: {left} connections are left"));
        *over = Some(left);
        left
    }
}
