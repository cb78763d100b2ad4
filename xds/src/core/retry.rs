//! Content that a proxy refused for a reason that passes without a change of the content: a port that another process has.

use std::time::{Duration, Instant};

use portolan_proto::ResourceType;

use super::limits::Limits;

/// When refused content is sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Retry {
    wait: Duration,
    /// Set when the stream is looked after next
    at: Option<Instant>,
    is_due: bool,
}

impl Retry {
    /// The next attempt after a refusal with this text; each waits twice as long as the one `before`. `None`: the content itself was refused,
    /// and waits until it changes.
    pub(crate) fn after(kind: ResourceType, text: &str, before: Option<Self>, limits: &Limits) -> Option<Self> {
        let wait = before.map_or(limits.retry_first, |before| before.wait.saturating_mul(2));
        is_of_the_machine(kind, text).then(|| Self { wait: wait.min(limits.retry_at_most), at: None, is_due: false })
    }

    /// Takes note of the time.
    pub(crate) fn look_at(&mut self, now: Instant) {
        let at = *self.at.get_or_insert_with(|| now + self.wait);
        self.is_due = at <= now;
    }

    pub(crate) const fn is_due(&self) -> bool {
        self.is_due
    }
}

/// Envoy makes a listener's sockets while it takes the listener in, and refuses the listener when it cannot
/// (`ListenSocketFactoryImpl`: "cannot bind '127.0.0.1:80': Address already in use").
fn is_of_the_machine(kind: ResourceType, text: &str) -> bool {
    kind == ResourceType::Listener && text.contains("cannot bind")
}
