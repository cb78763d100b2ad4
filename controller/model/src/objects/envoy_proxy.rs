//! EnvoyProxy: how the proxies of a Gateway or of a class are run.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::{AccessLog, Meta};
use crate::Name;

/// Fields of Kubernetes' own types that are passed on as they are; the API server judges them.
pub type Raw = BTreeMap<Name, Value>;

/// `portolan.dev/v1alpha1` EnvoyProxy. Fields and their meaning are those of Envoy Gateway's kind of that name; what it leaves open is
/// `None`, and the default stands where the manifests are made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EnvoyProxy {
    pub meta: Meta,
    /// `provider.type: External`: somebody else runs the proxies
    pub external: bool,
    /// `provider.kubernetes.envoyDeployment`
    pub deployment: Option<ProxyWorkload>,
    /// `provider.kubernetes.envoyDaemonSet`
    pub daemon_set: Option<ProxyWorkload>,
    /// `provider.kubernetes.envoyService`
    pub service: ProxyService,
    /// `provider.kubernetes.envoyHpa`
    pub autoscaler: Option<ProxyAutoscaler>,
    /// `provider.kubernetes.envoyPDB`
    pub disruption_budget: ProxyDisruptionBudget,
    /// Worker threads
    pub concurrency: Option<u32>,
    pub extra_args: Vec<Name>,
    /// `logging.level`: by Envoy's component, `default` for all
    pub log_levels: BTreeMap<Name, Name>,
    pub bootstrap: Option<ProxyBootstrap>,
    /// `shutdown.drainTimeout`
    pub drain_timeout: Option<Duration>,
    /// `shutdown.minDrainDuration`
    pub min_drain_duration: Option<Duration>,
    /// `telemetry.accessLog`; `None`: nothing is said, empty: no logs
    pub access_logs: Option<Arc<[AccessLog]>>,
    /// Fields that are given and that Portolan does not support, by their paths below `spec`
    pub unsupported: Vec<Name>,
}

/// A Deployment or DaemonSet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProxyWorkload {
    pub name: Option<Name>,
    /// Deployments only
    pub replicas: Option<u32>,
    pub strategy: Option<Value>,
    pub pod: ProxyPod,
    pub container: ProxyContainer,
    pub patch: Option<Patch>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProxyPod {
    pub annotations: BTreeMap<Name, Name>,
    pub labels: BTreeMap<Name, Name>,
    /// Fields of a PodSpec
    pub spec: Raw,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProxyContainer {
    pub image: Option<Name>,
    /// Fields of a Container
    pub spec: Raw,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProxyService {
    pub name: Option<Name>,
    pub annotations: BTreeMap<Name, Name>,
    pub labels: BTreeMap<Name, Name>,
    /// `type`
    pub kind: Option<Name>,
    pub external_traffic_policy: Option<Name>,
    pub load_balancer_ip: Option<Name>,
    /// Fields of a ServiceSpec
    pub spec: Raw,
    pub patch: Option<Patch>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProxyAutoscaler {
    pub name: Option<Name>,
    pub min_replicas: Option<u32>,
    pub max_replicas: u32,
    /// Fields of a HorizontalPodAutoscalerSpec
    pub spec: Raw,
    pub patch: Option<Patch>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProxyDisruptionBudget {
    pub name: Option<Name>,
    /// A number or a percentage
    pub min_available: Option<Value>,
    pub max_unavailable: Option<Value>,
    pub patch: Option<Patch>,
}

/// A change of a manifest that is made last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Patch {
    /// Lists of named things are merged by name (`StrategicMerge`), or replaced as a whole (`JSONMerge`, RFC 7386)
    pub strategic: bool,
    pub value: Value,
}

/// What is put into Envoy's bootstrap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProxyBootstrap {
    /// YAML
    pub value: Name,
}
