//! Bounds on what one proxy can make the server hold or wait for.

use std::time::Duration;

/// Bounds per stream.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Bytes of messages after which a response is closed and the rest goes into the next. Default 1.5 MiB
    pub response_bytes: usize,
    /// How long a response may stay unanswered before its stream is reset. Default 60 s (design invariant 2)
    pub answer_within: Duration,
    /// How long a listener waits until it is sent again when a proxy could not bind its port. Default 1 s, then twice as long each time
    pub retry_first: Duration,
    /// The longest that it waits. Default 30 s
    pub retry_at_most: Duration,
    /// Names that one stream may subscribe to, over all types. Default 200,000
    pub subscriptions: usize,
    /// Bytes of one name. Default 4 KiB
    pub name_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            response_bytes: 3 << 19,
            answer_within: Duration::from_mins(1),
            retry_first: Duration::from_secs(1),
            retry_at_most: Duration::from_secs(30),
            subscriptions: 200_000,
            name_bytes: 4 << 10,
        }
    }
}

/// Why a stream is ended from this side. The proxy connects again and resumes by state.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Reset {
    #[error("no answer to a {0:?} response within the time allowed")]
    NoAnswer(portolan_proto::ResourceType),
    #[error("more names subscribed to than allowed, or a name too long")]
    TooManyNames,
    #[error("the stream fell behind the change log")]
    Behind,
}
