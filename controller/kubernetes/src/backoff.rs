//! How long to wait before something is tried again.

use std::time::Duration;

const LONGEST_WAIT: Duration = Duration::from_mins(1);

/// 1 s, doubled each time, up to a minute.
pub(crate) fn growing(times: u32) -> Duration {
    Duration::from_secs(1_u64 << times.min(16)).min(LONGEST_WAIT)
}
