//! The wall clock, as Kubernetes writes it. Nothing is decided by it.

use k8s_openapi::jiff::Timestamp;

/// RFC 3339 in UTC, whole seconds.
pub(crate) fn now() -> String {
    let now = Timestamp::now();
    Timestamp::from_second(now.as_second()).unwrap_or(now).to_string()
}
