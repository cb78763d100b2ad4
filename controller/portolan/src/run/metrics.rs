//! How long a change of the directory takes until it is published. What proxies make of it, the xDS server counts.

use std::sync::atomic::AtomicU64;
use std::time::{Duration, SystemTime};

use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};

/// The times of the pilot.
#[derive(Debug)]
pub struct Times {
    event: Gauge<f64, AtomicU64>,
    engine: Histogram,
}

impl Times {
    pub fn register(registry: &mut Registry) -> Self {
        // From 0.05 ms to 6.5 s.
        let times = Self { event: Gauge::default(), engine: Histogram::new(exponential_buckets(0.000_05, 2.0, 18)) };
        let registry = registry.sub_registry_with_prefix("portolan");
        let help = "When the last change of objects was taken up, since the epoch";
        registry.register_with_unit("last_event_timestamp", help, Unit::Seconds, times.event.clone());
        registry.register_with_unit(
            "engine",
            "Time to compute what follows from a batch of events",
            Unit::Seconds,
            times.engine.clone(),
        );
        times
    }

    /// Objects have changed, and are about to be computed.
    pub fn event(&self, now: SystemTime) {
        self.event.set(now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs_f64());
    }

    pub fn computed(&self, took: Duration) {
        self.engine.observe(took.as_secs_f64());
    }
}
