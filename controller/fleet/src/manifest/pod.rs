//! The pods of a fleet: Envoy and the sidecar `portolan proxy`.

use std::time::Duration;

use portolan_model::objects::Raw;
use portolan_translate::ENVOY_ARGUMENTS;
use serde_json::{Map, Value, json};
use xxhash_rust::xxh3::xxh3_128;

use super::settings::Settings;
use super::template::{DIGEST, TEMPLATE};
use super::{ManagedFleet, Template, bootstrap, patch, set, template, texts};
use crate::names;

/// A user without rights and without a name: "nonroot" of distroless images.
const USER: u32 = 65532;
/// Between the end of draining and the kernel's end of the pod.
const SLACK: Duration = Duration::from_secs(10);
/// Where the sidecar tells that it may drain.
pub const DRAIN_TOKEN_HEADER: &str = "portolan-token";

/// The `template` of the workload.
///
/// Envoy binds the listeners' own ports, below 1024 too: `net.ipv4.ip_unprivileged_port_start` is one of Kubernetes' safe sysctls, allowed
/// by the "restricted" Pod Security Standard, and spares the process every capability. To shift ports instead would make the proxy see
/// another port than its clients do, and could serve no listener at the end of the range. Pods on the host's network have no sysctls of
/// their own: there the node must allow low ports.
pub(super) fn template(
    fleet: ManagedFleet<'_>,
    settings: &Settings,
    template: &Template,
    files: &Map<String, Value>,
) -> Value {
    let Settings { workload, drain, .. } = settings;
    let mut labels = texts(&workload.pod.labels);
    labels.extend(fleet.labels());
    let mut annotations = fleet.annotations();
    annotations.extend(texts(&workload.pod.annotations));
    // Envoy reads its bootstrap once, when it starts.
    annotations.insert("portolan.dev/bootstrap".into(), json!(template::digest(&[&Value::Object(files.clone())])));
    let mut spec = json!({
        "serviceAccountName": names::resource_name(fleet.gateway),
        "automountServiceAccountToken": false,
        "enableServiceLinks": false,
        "terminationGracePeriodSeconds": seconds(*drain + SLACK),
        "securityContext": {
            "runAsNonRoot": true,
            "runAsUser": USER,
            "runAsGroup": USER,
            "fsGroup": USER,
            "seccompProfile": {"type": "RuntimeDefault"},
            "sysctls": [{"name": "net.ipv4.ip_unprivileged_port_start", "value": "0"}],
        },
        "topologySpreadConstraints": [
            spread(fleet, "topology.kubernetes.io/zone"),
            spread(fleet, "kubernetes.io/hostname"),
        ],
        "initContainers": [sidecar(fleet, settings, template)],
        "containers": [envoy(fleet, settings, template)],
        "volumes": [
            {"name": "bootstrap", "configMap": {"name": names::resource_name(fleet.gateway)}},
            {"name": "identity", "secret": {"secretName": names::resource_name(fleet.gateway), "defaultMode": 0o440}},
            {"name": "run", "emptyDir": {"sizeLimit": "1Mi"}},
        ],
    });
    overlay(&mut spec, &workload.pod.spec, &["volumes"]);
    json!({"metadata": {"labels": labels, "annotations": annotations}, "spec": spec})
}

/// Deployment or DaemonSet.
pub(super) fn workload(
    fleet: ManagedFleet<'_>,
    settings: &Settings,
    template: &Template,
    digest: &str,
    pod: Value,
) -> Value {
    let Settings { daemon_set, replicas, workload, .. } = settings;
    let mut spec = json!({
        "selector": {"matchLabels": names::selector(fleet.gateway)},
        "revisionHistoryLimit": 2,
    });
    let kind = if *daemon_set { "DaemonSet" } else { "Deployment" };
    let strategy = workload.strategy.clone();
    if *daemon_set {
        set(&mut spec, &["updateStrategy"], strategy.unwrap_or_else(|| json!({"type": "RollingUpdate"})));
    } else {
        if let Some(replicas) = replicas {
            set(&mut spec, &["replicas"], *replicas);
        }
        // A fleet of one would otherwise be away while it is replaced.
        let careful = json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0, "maxSurge": "25%"}});
        set(&mut spec, &["strategy"], strategy.unwrap_or(careful));
    }
    set(&mut spec, &["template"], pod);
    let mut object = fleet.object("apps/v1", kind, json!({"spec": spec}));
    set(&mut object, &["metadata", "annotations", TEMPLATE], template.annotation());
    set(&mut object, &["metadata", "annotations", DIGEST], digest);
    patch::apply(&mut object, workload.patch.as_ref());
    let pod = object.pointer_mut("/spec/template/spec");
    if let Some(pod) = pod.filter(|pod| pod.get("hostNetwork") == Some(&Value::Bool(true)))
        && let Some(context) = pod.pointer_mut("/securityContext").and_then(Value::as_object_mut)
    {
        context.shift_remove("sysctls");
    }
    object
}

fn envoy(fleet: ManagedFleet<'_>, settings: &Settings, template: &Template) -> Value {
    let Settings { workload, concurrency, extra_args, log_levels, .. } = settings;
    let default_level = log_levels.get("default").map_or("warn", |level| level);
    let mut arguments: Vec<String> = ENVOY_ARGUMENTS.map(ToOwned::to_owned).to_vec();
    let mut argument = |name: &str, value: String| arguments.extend([name.to_owned(), value]);
    argument("--config-path", format!("{}/envoy.json", bootstrap::FILES));
    argument("--service-node", "$(POD_NAME)".to_owned());
    argument("--log-level", level(default_level).to_owned());
    let components: Vec<String> = log_levels
        .iter()
        .filter(|(component, _)| &***component != "default")
        .map(|(component, one)| format!("{component}:{}", level(one)))
        .collect();
    if !components.is_empty() {
        argument("--component-log-level", components.join(","));
    }
    if let Some(concurrency) = concurrency {
        argument("--concurrency", concurrency.to_string());
    }
    // Kubernetes 1.35 copies the node's zone to its pods; before, the value is empty. In one word with its name Envoy refuses that.
    argument("--service-zone", "$(POD_ZONE)".to_owned());
    arguments.extend(extra_args.iter().map(ToString::to_string));
    let field = |path: &str| json!({"fieldRef": {"fieldPath": path}});
    let mut container = json!({
        "name": "envoy",
        "image": workload.container.image.as_deref().unwrap_or(&template.proxy_image),
        "command": ["envoy"],
        "args": arguments,
        "env": [
            {"name": "POD_NAME", "valueFrom": field("metadata.name")},
            {"name": "POD_ZONE", "valueFrom": field("metadata.labels['topology.kubernetes.io/zone']")},
        ],
        "resources": {"requests": {"cpu": "50m", "memory": "64Mi"}},
        "securityContext": confined(),
        // Blocks until the proxy has drained; only then does Envoy get its signal.
        "lifecycle": {"preStop": {"httpGet": {
            "path": "/drain",
            "port": template.probe_port,
            "httpHeaders": [{"name": DRAIN_TOKEN_HEADER, "value": token(fleet)}],
        }}},
        "volumeMounts": [
            {"name": "bootstrap", "mountPath": bootstrap::FILES, "readOnly": true},
            {"name": "identity", "mountPath": bootstrap::IDENTITY, "readOnly": true},
            {"name": "run", "mountPath": bootstrap::RUN},
        ],
    });
    overlay(&mut container, &workload.container.spec, &["env", "volumeMounts"]);
    container
}

/// A native sidecar: it is there before Envoy and goes after it.
fn sidecar(fleet: ManagedFleet<'_>, settings: &Settings, template: &Template) -> Value {
    let probe = |seconds: u32| json!({"httpGet": {"path": "/ready", "port": template.probe_port}, "periodSeconds": seconds, "timeoutSeconds": 2});
    json!({
        "name": "portolan",
        "image": template.portolan_image,
        "restartPolicy": "Always",
        "args": [
            "proxy",
            "--admin-socket", bootstrap::ADMIN,
            "--port", template.probe_port.to_string(),
            "--drain-wait", seconds(settings.min_drain).to_string(),
            "--drain-limit", seconds(settings.drain).to_string(),
            "--drain-token", token(fleet),
        ],
        "ports": [{"name": "probe", "containerPort": template.probe_port}],
        // The pod is ready when the sidecar says so of Envoy.
        "readinessProbe": probe(2),
        "resources": {"requests": {"cpu": "5m", "memory": "16Mi"}},
        "securityContext": confined(),
        "volumeMounts": [{"name": "run", "mountPath": bootstrap::RUN}],
    })
}

/// Who may make a proxy drain: whoever can read its pod or its Gateway, as kubelet can. Everybody else in the cluster's network cannot.
fn token(fleet: ManagedFleet<'_>) -> String {
    format!("{:032x}", xxh3_128(format!("drain {}", fleet.uid).as_bytes()))
}

fn confined() -> Value {
    json!({
        "allowPrivilegeEscalation": false,
        "readOnlyRootFilesystem": true,
        "capabilities": {"drop": ["ALL"]},
    })
}

fn spread(fleet: ManagedFleet<'_>, topology: &str) -> Value {
    json!({
        "maxSkew": 1,
        "topologyKey": topology,
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": names::selector(fleet.gateway)},
    })
}

/// Fields of the parameters over those of the manifest; the lists in `added` keep what is there, which the proxy needs. Contexts are
/// merged, so that to set a user does not take the rest away.
fn overlay(target: &mut Value, fields: &Raw, added: &[&str]) {
    for (name, value) in fields {
        match (target.get_mut(&**name), value) {
            (Some(Value::Array(old)), Value::Array(new)) if added.contains(&&**name) => old.extend(new.iter().cloned()),
            (Some(Value::Object(old)), Value::Object(new)) if &**name == "securityContext" => old.extend(new.clone()),
            _ => set(target, &[name], value.clone()),
        }
    }
}

/// Envoy's name of the API's `warn`.
fn level(name: &str) -> &str {
    if name == "warn" { "warning" } else { name }
}

/// Whole seconds, upwards.
fn seconds(duration: Duration) -> u64 {
    duration.as_secs() + u64::from(duration.subsec_nanos() > 0)
}
