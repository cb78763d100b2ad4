//! What a Gateway's parameters and those of its class come to.

use std::collections::BTreeMap;
use std::time::Duration;

use portolan_engine::FleetIntent;
use portolan_model::Name;
use portolan_model::objects::{EnvoyProxy, ProxyAutoscaler, ProxyDisruptionBudget, ProxyService, ProxyWorkload};
use serde_json::Value;

/// How long a proxy goes on before it drains: until the EndpointSlice and load balancers outside have let go.
const MIN_DRAIN: Duration = Duration::from_secs(10);
/// When a proxy that drains ends whatever connections are left; counted from the beginning, [`MIN_DRAIN`] included.
const DRAIN: Duration = Duration::from_mins(1);

/// The class's parameters, and over them what a Gateway's own may set (design section 6): replicas, resources, labels, the Service's
/// type and annotations.
pub(super) struct Settings {
    pub daemon_set: bool,
    /// `None`: an autoscaler's business
    pub replicas: Option<u32>,
    pub workload: ProxyWorkload,
    pub service: ProxyService,
    pub autoscaler: Option<ProxyAutoscaler>,
    pub disruption_budget: ProxyDisruptionBudget,
    pub concurrency: Option<u32>,
    pub extra_args: Vec<Name>,
    pub log_levels: BTreeMap<Name, Name>,
    pub bootstrap: Option<Name>,
    pub min_drain: Duration,
    pub drain: Duration,
}

impl Settings {
    pub fn of(intent: &FleetIntent) -> Self {
        let class = intent.class_parameters.as_deref();
        let own = intent.parameters.as_deref();
        let daemon_set = class.is_some_and(|class| class.daemon_set.is_some());
        let mut workload = class.and_then(workload_of).cloned().unwrap_or_default();
        let mut service = class.map(|class| class.service.clone()).unwrap_or_default();
        if let Some(own) = own {
            if let Some(own) = workload_of(own) {
                workload.replicas = own.replicas.or(workload.replicas);
                if let Some(resources) = own.container.spec.get("resources") {
                    workload.container.spec.insert("resources".into(), resources.clone());
                }
                workload.pod.labels.extend(clone(&own.pod.labels));
            }
            service.kind = own.service.kind.clone().or(service.kind);
            service.annotations.extend(clone(&own.service.annotations));
            service.labels.extend(clone(&own.service.labels));
        }
        let autoscaler = class.and_then(|class| class.autoscaler.clone());
        let drain = class.and_then(|class| class.drain_timeout).unwrap_or(DRAIN);
        Self {
            daemon_set,
            replicas: autoscaler.is_none().then(|| workload.replicas.unwrap_or(1)),
            workload,
            service,
            autoscaler,
            disruption_budget: class.map(|class| class.disruption_budget.clone()).unwrap_or_default(),
            concurrency: class.and_then(|class| class.concurrency),
            extra_args: class.map(|class| class.extra_args.clone()).unwrap_or_default(),
            log_levels: class.map(|class| class.log_levels.clone()).unwrap_or_default(),
            bootstrap: class.and_then(|class| class.bootstrap.as_ref()).map(|bootstrap| bootstrap.value.clone()),
            min_drain: class.and_then(|class| class.min_drain_duration).unwrap_or(MIN_DRAIN).min(drain),
            drain,
        }
    }

    /// `resources.limits.memory` in bytes.
    pub fn memory_limit(&self) -> Option<u64> {
        let resources = self.workload.container.spec.get("resources")?;
        quantity(resources.pointer("/limits/memory")?)
    }
}

fn workload_of(proxy: &EnvoyProxy) -> Option<&ProxyWorkload> {
    proxy.deployment.as_ref().or(proxy.daemon_set.as_ref())
}

fn clone(map: &BTreeMap<Name, Name>) -> impl Iterator<Item = (Name, Name)> {
    map.iter().map(|(key, value)| (Name::clone(key), Name::clone(value)))
}

/// A Kubernetes quantity in whole units: `512Mi`, `1G`, `1500000`, `1.5Gi`.
fn quantity(value: &Value) -> Option<u64> {
    let text = value.as_str().map_or_else(|| value.to_string(), ToOwned::to_owned);
    let end = text.find(|char: char| char.is_ascii_alphabetic()).unwrap_or(text.len());
    let (number, unit) = text.split_at_checked(end)?;
    let factor = match unit {
        "" => 1.0,
        "k" => 1e3,
        "M" => 1e6,
        "G" => 1e9,
        "T" => 1e12,
        "Ki" => 1024.0,
        "Mi" => 1024.0 * 1024.0,
        "Gi" => 1024.0 * 1024.0 * 1024.0,
        "Ti" => 1024.0 * 1024.0 * 1024.0 * 1024.0,
        _ => return None,
    };
    let bytes = number.parse::<f64>().ok()? * factor;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the range is checked")]
    (1.0..9e18).contains(&bytes).then_some(bytes as u64)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn quantities() {
        for (value, expected) in [
            (json!("512Mi"), Some(512 << 20)),
            (json!("1G"), Some(1_000_000_000)),
            (json!(1500), Some(1500)),
            (json!("1.5Gi"), Some(3 << 29)),
            (json!("100m"), None),
            (json!("lots"), None),
        ] {
            assert_eq!(quantity(&value), expected, "{value}");
        }
    }
}
