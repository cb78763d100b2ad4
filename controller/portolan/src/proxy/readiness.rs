//! Whether Envoy serves what Portolan told it.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hyper::Method;
use portolan_standalone::envoy::admin;

use crate::shell::Shell;

const EVERY: Duration = Duration::from_millis(250);
const COUNTERS: &str = "/stats?filter=%5E(listener_manager.lds%7Ccluster_manager.cds).update_success%24";

/// What Envoy said last.
pub struct Readiness {
    socket: Arc<PathBuf>,
    /// `None`: ready
    missing: Mutex<Option<String>>,
}

impl Readiness {
    pub fn new(socket: Arc<PathBuf>) -> Self {
        Self { socket, missing: Mutex::new(Some("Envoy has not been asked yet".to_owned())) }
    }

    /// Why Envoy is not ready.
    pub fn missing(&self) -> Option<String> {
        self.missing.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Asks Envoy again and again.
    pub async fn watch(&self, shell: Shell) {
        loop {
            let before = self.missing();
            let now = self.ask(before.is_none()).await;
            if before != now {
                shell.err(now.as_deref().unwrap_or("Envoy is ready"));
            }
            *self.missing.lock().unwrap_or_else(PoisonError::into_inner) = now;
            tokio::time::sleep(EVERY).await;
        }
    }

    /// Envoy's own `/ready` is 200 after half a minute without any control plane: both counters have to say that it got something.
    /// `was_ready`: then neither a listener that warms nor a lost control plane makes a proxy that serves unready; another process in its
    /// place does, whose counters begin at zero.
    async fn ask(&self, was_ready: bool) -> Option<String> {
        let counters = match admin::request(&self.socket, Method::GET, COUNTERS).await {
            Ok((_, counters)) => counters,
            // It is there and busy.
            Err(error) if was_ready && error.kind() == std::io::ErrorKind::TimedOut => return None,
            Err(error) => return Some(format!("Envoy's admin interface does not answer: {error}")),
        };
        for (counter, what) in
            [("listener_manager.lds.update_success", "listeners"), ("cluster_manager.cds.update_success", "clusters")]
        {
            if count(&counters, counter) == 0 {
                return Some(format!("Envoy has no {what} from Portolan yet"));
            }
        }
        if was_ready {
            return None;
        }
        match admin::request(&self.socket, Method::GET, "/ready").await {
            Ok((200, _)) => None,
            Ok((_, state)) => Some(format!("Envoy is {}", state.trim())),
            Err(error) => Some(format!("Envoy's admin interface does not answer: {error}")),
        }
    }
}

fn count(stats: &str, name: &str) -> u64 {
    let value = stats.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
    value.and_then(|value| value.trim().parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_found_by_their_whole_name() {
        let stats = "cluster_manager.cds.update_success: 3\nlistener_manager.lds.update_success: 0\n";
        assert_eq!(count(stats, "cluster_manager.cds.update_success"), 3);
        assert_eq!(count(stats, "listener_manager.lds.update_success"), 0);
        assert_eq!(count(stats, "cluster_manager.cds"), 0);
    }
}
