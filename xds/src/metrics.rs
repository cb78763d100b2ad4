//! What the server counts.

use std::sync::Arc;
use std::time::Duration;

use portolan_proto::{DeltaResponse, ResourceType};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};

use crate::core::stream::StreamState;
use crate::transition::FleetName;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfFleet {
    fleet: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfType {
    fleet: String,
    r#type: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfState {
    fleet: String,
    state: &'static str,
}

/// The server's metrics. Those of all fleets, told apart by label.
#[derive(Clone, Debug)]
pub(crate) struct Metrics {
    publish: Family<OfFleet, Histogram, fn() -> Histogram>,
    held: Family<OfFleet, Gauge>,
    streams: Family<OfState, Gauge>,
    answers: Family<OfType, Histogram, fn() -> Histogram>,
    refusals: Family<OfType, Counter>,
    missing: Family<OfType, Counter>,
    bytes: Family<OfType, Counter>,
    resources: Family<OfType, Counter>,
    removals: Family<OfType, Counter>,
    resets: Family<OfFleet, Counter>,
    cut_off: Gauge,
}

/// From 0.1 ms to 13 s.
fn seconds() -> Histogram {
    Histogram::new(exponential_buckets(0.0001, 2.0, 18))
}

const fn short_name(kind: ResourceType) -> &'static str {
    match kind {
        ResourceType::Cluster => "cluster",
        ResourceType::Endpoints => "endpoints",
        ResourceType::Secret => "secret",
        ResourceType::Scope => "scope",
        ResourceType::Route => "route",
        ResourceType::Extension => "extension",
        ResourceType::Listener => "listener",
    }
}

/// `None`: held back, since nothing can be answered yet.
const fn state_name(state: Option<StreamState>) -> &'static str {
    match state {
        None => "held",
        Some(StreamState::Syncing) => "syncing",
        Some(StreamState::InStep) => "in_step",
        Some(StreamState::Refusing) => "refusing",
    }
}

impl Metrics {
    pub(crate) fn register(registry: &mut Registry) -> Self {
        let metrics = Self {
            publish: Family::new_with_constructor(seconds),
            held: Family::default(),
            streams: Family::default(),
            answers: Family::new_with_constructor(seconds),
            refusals: Family::default(),
            missing: Family::default(),
            bytes: Family::default(),
            resources: Family::default(),
            removals: Family::default(),
            resets: Family::default(),
            cut_off: Gauge::default(),
        };
        let registry = registry.sub_registry_with_prefix("portolan_xds");
        let named = &metrics;
        registry.register_with_unit(
            "publish",
            "Time to take over a set of changes",
            Unit::Seconds,
            named.publish.clone(),
        );
        registry.register(
            "held_resources",
            "Resources that cannot be served now, so proxies keep theirs",
            named.held.clone(),
        );
        registry.register("streams", "Connected proxies by state", named.streams.clone());
        registry.register_with_unit(
            "answer",
            "Time from a response to the proxy's answer to it",
            Unit::Seconds,
            named.answers.clone(),
        );
        registry.register("refusals", "Responses that a proxy refused", named.refusals.clone());
        registry.register(
            "missing",
            "Requests for a table or filter configuration that does not exist",
            named.missing.clone(),
        );
        registry.register("sent_bytes", "Bytes of encoded responses", named.bytes.clone());
        registry.register("sent_resources", "Resources in responses", named.resources.clone());
        registry.register("sent_removals", "Removed names in responses", named.removals.clone());
        registry.register("resets", "Streams ended from this side", named.resets.clone());
        registry.register(
            "cut_off",
            "1 while proxies are only helped, since what is known may be out of date",
            named.cut_off.clone(),
        );
        metrics
    }

    pub(crate) fn published(&self, fleet: &FleetName, took: Duration, held: usize) {
        self.publish.get_or_create(&of_fleet(fleet)).observe(took.as_secs_f64());
        self.held.get_or_create(&of_fleet(fleet)).set(i64::try_from(held).unwrap_or(i64::MAX));
    }

    pub(crate) fn sent(&self, fleet: &FleetName, response: &DeltaResponse) {
        let Some(kind) = ResourceType::from_type_url(response.type_url) else { return };
        let labels = of_type(fleet, kind);
        self.bytes.get_or_create(&labels).inc_by(response.encoded_len() as u64);
        self.resources.get_or_create(&labels).inc_by(response.resources.len() as u64);
        self.removals.get_or_create(&labels).inc_by(response.removed.len() as u64);
    }

    pub(crate) fn answered(&self, fleet: &FleetName, kind: ResourceType, after: Duration, is_refusal: bool) {
        self.answers.get_or_create(&of_type(fleet, kind)).observe(after.as_secs_f64());
        if is_refusal {
            self.refusals.get_or_create(&of_type(fleet, kind)).inc();
        }
    }

    pub(crate) fn missing(&self, fleet: &FleetName, kind: ResourceType) {
        self.missing.get_or_create(&of_type(fleet, kind)).inc();
    }

    pub(crate) fn reset(&self, fleet: &FleetName) {
        self.resets.get_or_create(&of_fleet(fleet)).inc();
    }

    pub(crate) fn cut_off(&self, is_cut_off: bool) {
        self.cut_off.set(i64::from(is_cut_off));
    }

    pub(crate) fn forget(&self, fleet: &FleetName) {
        self.publish.remove(&of_fleet(fleet));
        self.held.remove(&of_fleet(fleet));
        for labels in ResourceType::ALL.map(|kind| of_type(fleet, kind)) {
            self.answers.remove(&labels);
            for counter in [&self.refusals, &self.missing, &self.bytes, &self.resources, &self.removals] {
                counter.remove(&labels);
            }
        }
    }

    /// A stream counted under its state until it is dropped.
    pub(crate) fn stream(&self, fleet: &FleetName) -> CountedStream {
        let counted = CountedStream { streams: self.streams.clone(), fleet: fleet.0.clone(), state: None };
        counted.gauge().inc();
        counted
    }
}

/// See [`Metrics::stream`].
pub(crate) struct CountedStream {
    streams: Family<OfState, Gauge>,
    fleet: Arc<str>,
    state: Option<StreamState>,
}

impl CountedStream {
    pub(crate) fn set(&mut self, state: Option<StreamState>) {
        if self.state != state {
            self.gauge().dec();
            self.state = state;
            self.gauge().inc();
        }
    }

    fn gauge(&self) -> Gauge {
        self.streams.get_or_create_owned(&OfState { fleet: self.fleet.to_string(), state: state_name(self.state) })
    }
}

impl Drop for CountedStream {
    fn drop(&mut self) {
        self.gauge().dec();
    }
}

fn of_fleet(fleet: &FleetName) -> OfFleet {
    OfFleet { fleet: fleet.to_string() }
}

fn of_type(fleet: &FleetName, kind: ResourceType) -> OfType {
    OfType { fleet: fleet.to_string(), r#type: short_name(kind) }
}
