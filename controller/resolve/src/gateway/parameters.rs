//! The EnvoyProxy objects that a Gateway and its class name.

use std::sync::Arc;

use portolan_model::objects::{
    EnvoyProxy, GatewayClass, ParametersRef, ProxyContainer, ProxyDisruptionBudget, ProxyPod, ProxyService,
    ProxyWorkload,
};
use portolan_model::{Kind, Name, NamespacedName, PORTOLAN_GROUP};

use crate::{World, refs};

/// What a fleet's manifests depend on beside its Gateway.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Parameters {
    /// Of the Gateway itself
    pub own: Option<Arc<EnvoyProxy>>,
    pub class: Option<Arc<EnvoyProxy>>,
    /// Its class names some that are not there
    pub class_is_lost: bool,
}

/// The parameters of a Gateway, as far as they are there.
pub fn parameters(world: &dyn World, name: &NamespacedName) -> Parameters {
    let Some(gateway) = world.gateway(name) else { return Parameters::default() };
    let reference = gateway.infrastructure.as_ref().and_then(|infrastructure| infrastructure.parameters_ref.as_ref());
    let own = reference.and_then(|reference| find(world, reference, Some(&name.namespace)).ok());
    let class = world.gateway_class(&gateway.class).and_then(|class| of_class(world, &class));
    Parameters { own, class_is_lost: matches!(class, Some(Err(_))), class: class.and_then(Result::ok) }
}

/// `None`: the class names none.
pub(super) fn of_class(world: &dyn World, class: &GatewayClass) -> Option<Result<Arc<EnvoyProxy>, String>> {
    class.parameters_ref.as_ref().map(|reference| find(world, reference, None))
}

/// Whether somebody else runs the proxies of a class.
pub(super) fn is_external(world: &dyn World, class: &GatewayClass) -> bool {
    of_class(world, class).and_then(Result::ok).is_some_and(|parameters| parameters.external)
}

/// The object, or what is wrong with the reference. `namespace`: where the object must be, whatever the reference says.
pub(super) fn find(
    world: &dyn World,
    reference: &ParametersRef,
    namespace: Option<&Name>,
) -> Result<Arc<EnvoyProxy>, String> {
    let ParametersRef { group, kind, .. } = reference;
    if &**group != PORTOLAN_GROUP || &**kind != Kind::EnvoyProxy.as_str() {
        return Err(format!(
            "names the kind {}, which Portolan does not support; name an EnvoyProxy.{PORTOLAN_GROUP}, or remove the reference",
            refs::kind(group, kind)
        ));
    }
    let Some(namespace) = namespace.or(reference.namespace.as_ref()) else {
        return Err("names no namespace, and an EnvoyProxy has one; add it".to_owned());
    };
    let name = NamespacedName::new(Arc::clone(namespace), Arc::clone(&reference.name));
    let missing = || format!("names EnvoyProxy {name}, which does not exist or cannot be read; create or correct it");
    world.envoy_proxy(&name).ok_or_else(missing)
}

/// What of an object has no effect, in a sentence; `None`: nothing. `own`: the object is a Gateway's, which may set replicas, resources,
/// labels, and the Service's type and annotations; all else is the class's.
pub(super) fn without_effect(proxy: &EnvoyProxy, own: bool) -> Option<String> {
    let name = &proxy.meta.name;
    let mut sentences = Vec::new();
    if !proxy.unsupported.is_empty() {
        sentences.push(format!(
            "EnvoyProxy {name} has fields that Portolan does not support: {}",
            proxy.unsupported.join(", ")
        ));
    }
    let reserved = if own { reserved_for_class(proxy) } else { Vec::new() };
    if !reserved.is_empty() {
        let fields = reserved.join(", ");
        sentences.push(format!("EnvoyProxy {name} sets what only the parameters of a GatewayClass may set: {fields}"));
    }
    (!sentences.is_empty()).then(|| sentences.join(". "))
}

fn reserved_for_class(proxy: &EnvoyProxy) -> Vec<&'static str> {
    let EnvoyProxy {
        meta: _,
        external,
        deployment,
        daemon_set,
        service,
        autoscaler,
        disruption_budget,
        concurrency,
        extra_args,
        log_levels,
        bootstrap,
        drain_timeout,
        min_drain_duration,
        access_logs,
        unsupported: _,
    } = proxy;
    let ProxyService {
        name,
        annotations: _,
        labels: _,
        kind: _,
        external_traffic_policy,
        load_balancer_ip,
        spec,
        patch,
    } = service;
    let service = name.is_some()
        || external_traffic_policy.is_some()
        || load_balancer_ip.is_some()
        || !spec.is_empty()
        || patch.is_some();
    [
        (*external, "provider.type: External"),
        (deployment.as_ref().is_some_and(is_more_than_size), "envoyDeployment (beyond replicas, resources and labels)"),
        (daemon_set.as_ref().is_some_and(is_more_than_size), "envoyDaemonSet (beyond resources and labels)"),
        (service, "envoyService (beyond type, annotations and labels)"),
        (autoscaler.is_some(), "envoyHpa"),
        (*disruption_budget != ProxyDisruptionBudget::default(), "envoyPDB"),
        (concurrency.is_some(), "concurrency"),
        (!extra_args.is_empty(), "extraArgs"),
        (!log_levels.is_empty(), "logging"),
        (bootstrap.is_some(), "bootstrap"),
        (drain_timeout.is_some() || min_drain_duration.is_some(), "shutdown"),
        (access_logs.is_some(), "telemetry"),
    ]
    .into_iter()
    .filter_map(|(is_set, field)| is_set.then_some(field))
    .collect()
}

fn is_more_than_size(workload: &ProxyWorkload) -> bool {
    let ProxyWorkload { name, replicas: _, strategy, pod, container, patch } = workload;
    let ProxyPod { annotations, labels: _, spec } = pod;
    let ProxyContainer { image, spec: container } = container;
    let container = image.is_some() || container.keys().any(|field| &**field != "resources");
    name.is_some() || strategy.is_some() || !annotations.is_empty() || !spec.is_empty() || container || patch.is_some()
}
