//! The CustomResourceDefinitions of Portolan's own kinds. The schemas are those of the readers; here are the words.

use portolan_model::{Kind, PORTOLAN_GROUP};
use serde_json::{Value, json};

use crate::manifest::set;
use crate::names::plural;

/// Words by the path of their field below `spec`.
type Words = &'static [(&'static str, &'static str)];

/// Portolan's own kinds, with what `kubectl explain` says of each field. Fields of Kubernetes' own types (a pod's affinity and the like)
/// have their words there.
const KINDS: [(Kind, &str, Words); 2] = [
    (Kind::Backend, "Endpoints outside of the cluster, or beside it, that routes can name as a backend.", BACKEND),
    (
        Kind::EnvoyProxy,
        "How the proxies of a Gateway (spec.infrastructure.parametersRef) or of a GatewayClass (spec.parametersRef) are run. At a Gateway only replicas, resources, labels and the Service's type and annotations have an effect.",
        ENVOY_PROXY,
    ),
];

const BACKEND: Words = &[
    ("appProtocols", "How to speak to the endpoints: h2c or ws, with or without a group before it."),
    ("endpoints", "Where requests go."),
    ("endpoints[].fqdn", "A name that the proxies resolve."),
    ("endpoints[].fqdn.hostname", "The name."),
    ("endpoints[].fqdn.port", "The port."),
    ("endpoints[].ip", "An IP address."),
    ("endpoints[].ip.address", "IPv4 or IPv6."),
    ("endpoints[].ip.port", "The port."),
    ("endpoints[].unix", "A Unix socket on the proxies' machine."),
    ("endpoints[].unix.path", "Path of the socket; an abstract one begins with @."),
    ("type", "Endpoints, which is all that there is."),
];

const UNSUPPORTED: &str = "Not supported by Portolan: reported and ignored.";

const ENVOY_PROXY: Words = &[
    ("bootstrap", "Additions to Envoy's bootstrap."),
    (
        "bootstrap.type",
        "Merge: maps are merged, lists get further items. To replace the whole bootstrap is not supported.",
    ),
    ("bootstrap.value", "The additions, YAML."),
    ("concurrency", "Envoy's worker threads; one per processor if not set."),
    ("extraArgs", "Further arguments for Envoy."),
    ("logging", "What Envoy writes to its log."),
    ("logging.level", "The level per component of Envoy; `default` is for all the others. warn if not set."),
    ("provider", "Where the proxies run."),
    (
        "provider.type",
        "Kubernetes, or External: somebody else runs them, with what `portolan bootstrap` prints, and the addresses of a Gateway are those that it names.",
    ),
    ("provider.kubernetes", "In Kubernetes, the Gateway's namespace."),
    ("provider.kubernetes.envoyDaemonSet", "One proxy per node, instead of a Deployment."),
    ("provider.kubernetes.envoyDeployment", "The Deployment."),
    ("provider.kubernetes.envoyDeployment.replicas", "How many proxies; 1 if not set. Without effect beside envoyHpa."),
    ("provider.kubernetes.envoyHpa", "A HorizontalPodAutoscaler for the Deployment."),
    ("provider.kubernetes.envoyHpa.behavior", "As in a HorizontalPodAutoscaler."),
    ("provider.kubernetes.envoyHpa.maxReplicas", "The most proxies."),
    ("provider.kubernetes.envoyHpa.metrics", "As in a HorizontalPodAutoscaler; 80 % of the CPU requests if not set."),
    ("provider.kubernetes.envoyHpa.minReplicas", "The fewest proxies; 1 if not set."),
    ("provider.kubernetes.envoyPDB", "How many proxies may be evicted at a time; one if not set."),
    ("provider.kubernetes.envoyPDB.maxUnavailable", "A number or a percentage."),
    ("provider.kubernetes.envoyPDB.minAvailable", "A number or a percentage."),
    ("provider.kubernetes.envoyService", "The Service in front of the proxies."),
    ("provider.kubernetes.envoyService.allocateLoadBalancerNodePorts", "As in a Service."),
    (
        "provider.kubernetes.envoyService.externalTrafficPolicy",
        "Local, which keeps the clients' addresses, or Cluster; Local if not set.",
    ),
    ("provider.kubernetes.envoyService.loadBalancerClass", "As in a Service."),
    (
        "provider.kubernetes.envoyService.loadBalancerIP",
        "The address to ask for, where the Gateway's spec.addresses names none.",
    ),
    ("provider.kubernetes.envoyService.loadBalancerSourceRanges", "As in a Service."),
    ("provider.kubernetes.envoyService.type", "ClusterIP, LoadBalancer or NodePort; LoadBalancer if not set."),
    ("provider.kubernetes.useListenerPortAsContainerPort", "Proxies always bind the listeners' own ports."),
    ("shutdown", "How proxies end."),
    (
        "shutdown.drainTimeout",
        "When connections that have not ended are cut, counted from the beginning of the end; 60s if not set.",
    ),
    (
        "shutdown.minDrainDuration",
        "How long a proxy goes on as if nothing was, until load balancers have let go; 10s if not set.",
    ),
    ("telemetry", "What the proxies of the class tell of requests."),
    ("telemetry.accessLog", "Access logs; if not set, JSON on standard output."),
    ("telemetry.accessLog.disable", "No access logs."),
    ("telemetry.accessLog.settings", "The logs."),
    ("telemetry.accessLog.settings[].format", "What a line holds; if not set, JSON with the usual members."),
    (
        "telemetry.accessLog.settings[].format.json",
        "For the type JSON: its members, strings with Envoy's command operators.",
    ),
    ("telemetry.accessLog.settings[].format.text", "For the type Text: the line, with Envoy's command operators."),
    ("telemetry.accessLog.settings[].format.type", "Text or JSON; if not set, whichever is given."),
    ("telemetry.accessLog.settings[].sinks", "Where lines go."),
    ("telemetry.accessLog.settings[].sinks[].file", "For the type File."),
    ("telemetry.accessLog.settings[].sinks[].file.path", "The file, /dev/stdout if not set. Others need a volume."),
    (
        "telemetry.accessLog.settings[].sinks[].type",
        "File. ALS and OpenTelemetry are not supported: reported and ignored.",
    ),
];

/// Of fields that occur in several places, by the end of their path.
const COMMON: Words = &[
    (".annotations", "Annotations."),
    (".container", "Envoy's container."),
    (".container.env", "Further environment variables."),
    (".container.image", "The image, with Envoy as `envoy` on its PATH."),
    (".container.resources", "Requests and limits. Below a memory limit Envoy sheds load before it is ended."),
    (".container.securityContext", "As in a container; merged with the default."),
    (".container.volumeMounts", "Further mounts."),
    (".labels", "Labels."),
    (".name", "Not the object's name: ignored, the name is portolan-GATEWAY."),
    (".patch", "A change of the finished manifest."),
    (
        ".patch.type",
        "StrategicMerge, which merges lists of named things by name, or JSONMerge; StrategicMerge if not set.",
    ),
    (".patch.value", "The change."),
    (".pod", "The pods."),
    (".pod.affinity", "As in a pod."),
    (".pod.imagePullSecrets", "As in a pod."),
    (".pod.nodeSelector", "As in a pod."),
    (".pod.priorityClassName", "As in a pod."),
    (".pod.securityContext", "As in a pod; merged with the default."),
    (".pod.tolerations", "As in a pod."),
    (".pod.topologySpreadConstraints", "As in a pod; over zones and nodes if not set."),
    (".pod.volumes", "Further volumes."),
    (".strategy", "How pods are replaced; if not set, Deployments start the new one first."),
];

/// The definitions, ready to be applied.
#[must_use]
pub fn crds() -> Vec<Value> {
    KINDS.iter().map(|(kind, purpose, words)| crd(*kind, purpose, words)).collect()
}

fn crd(kind: Kind, purpose: &str, words: Words) -> Value {
    let singular = kind.as_str().to_lowercase();
    let plural = plural(&singular);
    let mut spec = portolan_model::read::schema(kind);
    describe(&mut spec, "", words);
    set(&mut spec, &["description"], "What is wanted.");
    let schema = json!({
        "type": "object",
        "description": purpose,
        "required": ["spec"],
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object"},
            "spec": spec,
        },
    });
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": format!("{plural}.{PORTOLAN_GROUP}"),
            "labels": {"app.kubernetes.io/name": "portolan", "app.kubernetes.io/managed-by": "portolan"},
            // To uninstall a chart must not take everybody's objects along.
            "annotations": {"helm.sh/resource-policy": "keep"},
        },
        "spec": {
            "group": PORTOLAN_GROUP,
            "names": {"kind": kind.as_str(), "listKind": format!("{}List", kind.as_str()), "plural": plural, "singular": singular},
            "scope": "Namespaced",
            "versions": [{
                "name": "v1alpha1",
                "served": true,
                "storage": true,
                "schema": {"openAPIV3Schema": schema},
            }],
        },
    })
}

fn describe(schema: &mut Value, path: &str, words: Words) {
    if let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) {
        for (name, property) in properties {
            let below = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
            if let Some(text) = description(&below, property, words) {
                property["description"] = json!(text);
            }
            describe(property, &below, words);
        }
    }
    if let Some(items) = schema.get_mut("items") {
        describe(items, &format!("{path}[]"), words);
    }
}

fn description(path: &str, property: &Value, words: Words) -> Option<&'static str> {
    let own = words.iter().find(|(field, _)| *field == path).map(|(_, text)| *text);
    let unsupported = || {
        (property.get("type").is_none() && property.get("x-kubernetes-int-or-string").is_none()).then_some(UNSUPPORTED)
    };
    let longest = || COMMON.iter().filter(|(end, _)| path.ends_with(end)).max_by_key(|(end, _)| end.len());
    own.or_else(unsupported).or_else(|| longest().map(|(_, text)| *text))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every field below `schema` by path, and whether it has words.
    fn fields(schema: &Value, path: &str, all: &mut Vec<(String, bool)>) {
        for (name, property) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
            let below = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
            all.push((below.clone(), property.get("description").is_some()));
            fields(property, &below, all);
        }
        if let Some(items) = schema.get("items") {
            fields(items, &format!("{path}[]"), all);
        }
    }

    #[test]
    fn every_field_has_words_and_every_word_a_field() {
        for ((_, _, words), crd) in KINDS.iter().zip(crds()) {
            let mut all = Vec::new();
            fields(&crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"], "", &mut all);
            let silent: Vec<_> = all.iter().filter(|(_, has)| !has).collect();
            assert!(silent.is_empty(), "{silent:?}");
            for (path, _) in *words {
                assert!(all.iter().any(|(field, _)| field == path), "no field {path}");
            }
        }
    }

    #[test]
    fn schemas_say_what_readers_ask_for() {
        let crds = crds();
        let spec = |crd: &Value| crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"].clone();
        let backend = spec(&crds[0]);
        assert_eq!(backend["required"], json!(["endpoints"]));
        assert_eq!(backend["properties"]["endpoints"]["maxItems"], 256);
        let proxy = spec(&crds[1]);
        let kubernetes = &proxy["properties"]["provider"]["properties"]["kubernetes"]["properties"];
        assert_eq!(
            kubernetes["envoyService"]["properties"]["type"]["enum"],
            json!(["ClusterIP", "LoadBalancer", "NodePort"])
        );
        assert_eq!(kubernetes["envoyPDB"]["properties"]["minAvailable"]["x-kubernetes-int-or-string"], true);
        assert_eq!(proxy["properties"]["mergeGateways"]["description"], UNSUPPORTED);
        assert_eq!(crds[1]["metadata"]["name"], "envoyproxies.portolan.dev");
    }
}
