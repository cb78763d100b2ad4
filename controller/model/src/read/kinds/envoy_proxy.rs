//! EnvoyProxy.

use std::sync::Arc;

use super::super::document::Node;
use super::super::schema::{Choice, Fields, Pattern, Reader, Shape, Text, duration};
use super::access_log;
use super::forms::{LABEL_PATTERN, LONG_VALUE};
use super::infrastructure::LABEL_VALUE;
use crate::Name;
use crate::objects::{
    EnvoyProxy, Meta, Patch, ProxyAutoscaler, ProxyBootstrap, ProxyContainer, ProxyDisruptionBudget, ProxyPod,
    ProxyService, ProxyWorkload,
};

static PROVIDER: Choice = Choice::of(&["Kubernetes", "External"]);
static PATCH_TYPE: Choice = Choice::of(&["StrategicMerge", "JSONMerge"]);
static SERVICE_TYPE: Choice = Choice::of(&["ClusterIP", "LoadBalancer", "NodePort"]);
static TRAFFIC_POLICY: Choice = Choice::of(&["Local", "Cluster"]);
static LEVEL: Choice = Choice::of(&["trace", "debug", "info", "warn", "error", "critical", "off"]);
static BOOTSTRAP_TYPE: Choice = Choice::of(&["Merge", "Replace"]);
pub(super) static QUANTITY: Pattern = Pattern::new(r"^[0-9]+%?$", "a number or a percentage, such as `1` or `25%`");

static NAME: Text = Text::formed(1, 63, &LABEL_PATTERN);
static LABEL: Text = Text::formed(0, 63, &LABEL_VALUE);
static ADDRESS: Text = Text::sized(1, 45);
static ARGUMENT: Text = Text::sized(1, 1024);

pub(super) fn read(fields: &mut Fields<'_>, meta: Meta) -> EnvoyProxy {
    let mut proxy = EnvoyProxy {
        meta,
        external: false,
        deployment: None,
        daemon_set: None,
        service: ProxyService::default(),
        autoscaler: None,
        disruption_budget: ProxyDisruptionBudget::default(),
        concurrency: fields.unsigned("concurrency", 1..=1024),
        extra_args: fields.texts("extraArgs", 0..=64, &ARGUMENT),
        log_levels: fields
            .optional("logging", |reader, node| {
                reader.object(node, |fields| fields.map("level", 32, |reader, node| LEVEL.read(reader, node)))
            })
            .unwrap_or_default(),
        bootstrap: None,
        drain_timeout: None,
        min_drain_duration: None,
        access_logs: None,
        unsupported: Vec::new(),
    };
    fields.optional("provider", |reader, node| {
        reader.object(node, |fields| {
            proxy.external = &*fields.required_choice("type", &PROVIDER) == "External";
            if proxy.external && fields.has("kubernetes") {
                proxy.unsupported.push("provider.kubernetes beside the type External".into());
            }
            fields.optional("kubernetes", |reader, node| reader.object(node, |fields| kubernetes(fields, &mut proxy)));
        });
    });
    fields.optional("shutdown", |reader, node| {
        reader.object(node, |fields| {
            proxy.drain_timeout = fields.optional("drainTimeout", duration);
            proxy.min_drain_duration = fields.optional("minDrainDuration", duration);
        });
    });
    proxy.bootstrap =
        fields.optional("bootstrap", |reader, node| bootstrap(reader, node, &mut proxy.unsupported)).flatten();
    proxy.access_logs = fields
        .optional("telemetry", |reader, node| {
            reader.object(node, |fields| access_log::telemetry(fields, &mut proxy.unsupported))
        })
        .flatten();
    let others = [
        "filterOrder",
        "backendTLS",
        "mergeGateways",
        "endpointRoutingDisabled",
        "routingType",
        "ipFamily",
        "preserveRouteOrder",
        "luaValidation",
    ];
    fields.unsupported(&others, &mut proxy.unsupported);
    proxy
}

fn kubernetes(fields: &mut Fields<'_>, proxy: &mut EnvoyProxy) {
    let unsupported = &mut proxy.unsupported;
    proxy.deployment = fields.optional("envoyDeployment", |reader, node| {
        reader.object(node, |fields| ProxyWorkload {
            replicas: fields.unsigned("replicas", 0..=i64::from(i32::MAX)),
            strategy: fields.raw("strategy", Shape::Object),
            ..workload(fields, unsupported)
        })
    });
    proxy.daemon_set = fields.optional("envoyDaemonSet", |reader, node| {
        reader.object(node, |fields| ProxyWorkload {
            strategy: fields.raw("strategy", Shape::Object),
            ..workload(fields, unsupported)
        })
    });
    if proxy.deployment.is_some() && proxy.daemon_set.is_some() {
        fields.refuse("envoyDaemonSet", "must not be given together with envoyDeployment; remove one");
    }
    proxy.service = fields.optional("envoyService", service).unwrap_or_default();
    proxy.autoscaler = fields.optional("envoyHpa", autoscaler);
    if proxy.autoscaler.is_some() && proxy.daemon_set.is_some() {
        fields.refuse("envoyHpa", "must not be given together with envoyDaemonSet, which has one pod per node");
    }
    proxy.disruption_budget = fields.optional("envoyPDB", disruption_budget).unwrap_or_default();
    // Proxies always bind the port of the listener.
    fields.boolean("useListenerPortAsContainerPort");
}

/// What Deployments and DaemonSets share.
fn workload(fields: &mut Fields<'_>, unsupported: &mut Vec<Name>) -> ProxyWorkload {
    fields.unsupported(&["initContainers"], unsupported);
    ProxyWorkload {
        name: fields.text("name", &NAME),
        replicas: None,
        strategy: None,
        pod: fields.optional("pod", pod).unwrap_or_default(),
        container: fields.optional("container", container).unwrap_or_default(),
        patch: fields.optional("patch", patch),
    }
}

fn pod(reader: &mut Reader, node: &Node) -> ProxyPod {
    reader.object(node, |fields| ProxyPod {
        annotations: fields.text_map("annotations", usize::MAX, &Text::ANY),
        labels: fields.text_map("labels", usize::MAX, &LABEL),
        spec: fields.raws(&[
            ("securityContext", Shape::Object),
            ("affinity", Shape::Object),
            ("tolerations", Shape::List),
            ("volumes", Shape::List),
            ("imagePullSecrets", Shape::List),
            ("nodeSelector", Shape::Object),
            ("topologySpreadConstraints", Shape::List),
            ("priorityClassName", Shape::Text),
        ]),
    })
}

fn container(reader: &mut Reader, node: &Node) -> ProxyContainer {
    reader.object(node, |fields| ProxyContainer {
        image: fields.text("image", &ARGUMENT),
        spec: fields.raws(&[
            ("env", Shape::List),
            ("resources", Shape::Object),
            ("securityContext", Shape::Object),
            ("volumeMounts", Shape::List),
        ]),
    })
}

fn service(reader: &mut Reader, node: &Node) -> ProxyService {
    reader.object(node, |fields| {
        let service = ProxyService {
            name: fields.text("name", &NAME),
            annotations: fields.text_map("annotations", usize::MAX, &LONG_VALUE),
            labels: fields.text_map("labels", usize::MAX, &LABEL),
            kind: fields.choice("type", &SERVICE_TYPE),
            external_traffic_policy: fields.choice("externalTrafficPolicy", &TRAFFIC_POLICY),
            load_balancer_ip: fields.text("loadBalancerIP", &ADDRESS),
            spec: fields.raws(&[
                ("loadBalancerClass", Shape::Text),
                ("allocateLoadBalancerNodePorts", Shape::Boolean),
                ("loadBalancerSourceRanges", Shape::Texts),
            ]),
            patch: fields.optional("patch", patch),
        };
        if service.kind.as_deref().is_some_and(|kind| kind != "LoadBalancer") {
            for field in
                ["loadBalancerIP", "loadBalancerClass", "allocateLoadBalancerNodePorts", "loadBalancerSourceRanges"]
            {
                if fields.has(field) {
                    fields.refuse(field, "is for the type LoadBalancer only");
                }
            }
        }
        service
    })
}

fn autoscaler(reader: &mut Reader, node: &Node) -> ProxyAutoscaler {
    reader.object(node, |fields| {
        let autoscaler = ProxyAutoscaler {
            name: fields.text("name", &NAME),
            min_replicas: fields.unsigned("minReplicas", 1..=i64::from(i32::MAX)),
            max_replicas: fields
                .required("maxReplicas", |reader, node| reader.integer(node, 1..=i64::from(i32::MAX)))
                .try_into()
                .unwrap_or(1),
            spec: fields.raws(&[("metrics", Shape::List), ("behavior", Shape::Object)]),
            patch: fields.optional("patch", patch),
        };
        if autoscaler.min_replicas.is_some_and(|min| min > autoscaler.max_replicas) {
            fields.refuse("maxReplicas", "must not be less than minReplicas");
        }
        autoscaler
    })
}

fn disruption_budget(reader: &mut Reader, node: &Node) -> ProxyDisruptionBudget {
    reader.object(node, |fields| {
        let budget = ProxyDisruptionBudget {
            name: fields.text("name", &NAME),
            min_available: fields.optional("minAvailable", |reader, node| reader.quantity(node, &QUANTITY)),
            max_unavailable: fields.optional("maxUnavailable", |reader, node| reader.quantity(node, &QUANTITY)),
            patch: fields.optional("patch", patch),
        };
        if fields.has("minAvailable") && fields.has("maxUnavailable") {
            fields.refuse("maxUnavailable", "must not be given together with minAvailable; remove one");
        }
        budget
    })
}

fn patch(reader: &mut Reader, node: &Node) -> Patch {
    reader.object(node, |fields| Patch {
        strategic: fields.choice("type", &PATCH_TYPE).is_none_or(|kind| &*kind == "StrategicMerge"),
        value: fields.required("value", |reader, node| reader.raw(node, Shape::Object)),
    })
}

/// Replacing the whole would leave out how the proxy comes to Portolan.
fn bootstrap(reader: &mut Reader, node: &Node, unsupported: &mut Vec<Name>) -> Option<ProxyBootstrap> {
    reader.object(node, |fields| {
        let merge = fields.choice("type", &BOOTSTRAP_TYPE).as_deref() == Some("Merge");
        let value = fields.text("value", &Text::ANY);
        fields.unsupported(&["jsonPatches"], unsupported);
        if !merge && value.is_some() {
            let message = "a bootstrap that replaces Portolan's is not supported: ignored; write `type: Merge`";
            fields.warn("type", message);
            unsupported.push(Arc::from("bootstrap.type: Replace"));
            return None;
        }
        value.map(|value| ProxyBootstrap { value })
    })
}
