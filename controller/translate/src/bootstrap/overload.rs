//! Limits of a whole proxy.

use portolan_proto::envoy::overload::{
    OverloadAction, OverloadManager, ResourceMonitor, ThresholdTrigger, Trigger, resource_monitor::ConfigType,
    trigger::TriggerOneof,
};
use portolan_proto::envoy::{Any, Duration, downstream_connections, fixed_heap, pack_any};

/// Connections of clients that a proxy takes unless told otherwise: the number in Envoy's guide for edge proxies.
pub const DEFAULT_CONNECTION_LIMIT: u64 = 50_000;

const HEAP: &str = "envoy.resource_monitors.fixed_heap";

/// Refuses connections above `connections`; with a heap limit also gives memory back (at 92 %) and answers 503 (at 98 %), since the
/// kernel would end the process and with it every connection.
pub fn manager(heap: Option<u64>, connections: u64) -> OverloadManager {
    let mut monitors = vec![monitor(
        "envoy.resource_monitors.global_downstream_max_connections",
        pack_any(downstream_connections::DownstreamConnectionsConfig {
            max_active_downstream_connections: i64::try_from(connections).unwrap_or(i64::MAX),
        }),
    )];
    let mut actions = Vec::new();
    if let Some(max_heap_size_bytes) = heap {
        let config = fixed_heap::FixedHeapConfig { max_heap_size_bytes, ..Default::default() };
        monitors.push(monitor(HEAP, pack_any(config)));
        actions.push(action("envoy.overload_actions.shrink_heap", 0.92));
        actions.push(action("envoy.overload_actions.stop_accepting_requests", 0.98));
    }
    OverloadManager {
        refresh_interval: Some(Duration { seconds: 0, nanos: 250_000_000 }),
        resource_monitors: monitors,
        actions,
        ..Default::default()
    }
}

fn monitor(name: &str, config: Any) -> ResourceMonitor {
    ResourceMonitor { name: name.into(), config_type: Some(ConfigType::TypedConfig(config)) }
}

fn action(name: &str, at: f64) -> OverloadAction {
    OverloadAction {
        name: name.into(),
        triggers: vec![Trigger {
            name: HEAP.into(),
            trigger_oneof: Some(TriggerOneof::Threshold(ThresholdTrigger { value: at })),
        }],
        ..Default::default()
    }
}
