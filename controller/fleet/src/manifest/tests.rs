//! Whole fleets as goldens, and what must not change them.

use std::sync::Arc;

use portolan_model::objects::{EnvoyProxy, GatewayAddress, Object};
use portolan_model::read::json as read;

use super::*;

fn platform() -> Platform {
    Platform {
        xds_host: "portolan.portolan-system.svc".into(),
        xds_port: 18000,
        server_name: "portolan.portolan-system.svc".into(),
        proxy_image: "envoy:1".into(),
        portolan_image: "portolan:1".into(),
        probe_port: 19001,
    }
}

fn gateway() -> NamespacedName {
    NamespacedName::new("infra", "edge")
}

fn proxy(spec: &str) -> Arc<EnvoyProxy> {
    let spec = portolan_model::read::yaml(spec).unwrap();
    let metadata = json!({"name": "proxy", "namespace": "infra"});
    let object =
        json!({"apiVersion": "portolan.dev/v1alpha1", "kind": "EnvoyProxy", "metadata": metadata, "spec": spec});
    let manifest = read(&object);
    assert!(!manifest.is_refused(), "{:?}", manifest.violations);
    let Some(Object::EnvoyProxy(proxy)) = manifest.object else { panic!("{:?}", manifest.violations) };
    proxy
}

fn plain() -> FleetIntent {
    FleetIntent { ports: vec![(80, false), (443, true)], ..FleetIntent::default() }
}

fn make(intent: &FleetIntent, platform: &Platform, running: Option<&Value>) -> Manifests {
    let gateway = gateway();
    let fleet = ManagedFleet { gateway: &gateway, uid: "3f1c", intent };
    let made = manifests(fleet, platform, running, false);
    assert_eq!(made, manifests(fleet, platform, running, false), "the same again");
    made
}

fn find<'a>(made: &'a Manifests, kind: &str) -> &'a Value {
    made.objects.iter().find(|object| object["kind"] == kind).unwrap_or_else(|| panic!("no {kind}"))
}

fn golden(name: &str, made: &Manifests) {
    let text = made.objects.iter().fold(String::new(), |text, object| text + &format!("{object:#}\n"));
    insta::with_settings!({snapshot_path => "../../testdata", prepend_module_to_snapshot => false, omit_expression => true}, {
        insta::assert_snapshot!(name, text.replace("\\n", "\n"));
    });
}

const EVERYTHING: &str = "
provider:
  type: Kubernetes
  kubernetes:
    envoyDeployment:
      replicas: 3
      strategy: {type: Recreate}
      pod:
        annotations: {team: edge}
        labels: {cost: shared}
        priorityClassName: high
        nodeSelector: {disk: fast}
        tolerations: [{key: edge, operator: Exists}]
        volumes: [{name: extra, emptyDir: {}}]
        securityContext: {fsGroup: 7}
      container:
        image: envoy:custom
        resources: {limits: {memory: 1Gi, cpu: 2}}
        env: [{name: A, value: b}]
        volumeMounts: [{name: extra, mountPath: /extra}]
      patch:
        value: {spec: {template: {spec: {containers: [{name: envoy, tty: true}]}}}}
    envoyService:
      annotations: {lb: internal}
      externalTrafficPolicy: Cluster
      loadBalancerClass: example.test/lb
      loadBalancerSourceRanges: [10.0.0.0/8]
    envoyHpa: {minReplicas: 2, maxReplicas: 9}
    envoyPDB: {minAvailable: 50%}
concurrency: 4
extraArgs: [--cpuset-threads]
logging: {level: {default: warn, http: debug}}
shutdown: {drainTimeout: 90s, minDrainDuration: 1500ms}
bootstrap: {type: Merge, value: 'stats_flush_interval: 7s'}
telemetry: {tracing: {}}
";

#[test]
fn a_plain_fleet() {
    let made = make(&plain(), &platform(), None);
    golden("plain", &made);
    let superseded: Vec<&str> = made.superseded.iter().map(|id| id.kind).collect();
    assert_eq!((superseded, made.problems), (vec!["DaemonSet", "HorizontalPodAutoscaler"], vec![]));
}

#[test]
fn everything_that_parameters_can_say() {
    let address = GatewayAddress { kind: "IPAddress".into(), value: Some("192.0.2.7".into()) };
    let intent = FleetIntent {
        addresses: vec![address],
        labels: [("app.kubernetes.io/name".into(), "mine".into()), ("team".into(), "a".into())].into(),
        annotations: [("note".into(), "b".into())].into(),
        class_parameters: Some(proxy(EVERYTHING)),
        parameters: Some(proxy(
            "provider: {type: Kubernetes, kubernetes: {envoyDeployment: {replicas: 5, container: {image: evil}}, envoyService: {annotations: {own: c}}}}",
        )),
        ..plain()
    };
    let made = make(&intent, &platform(), None);
    golden("everything", &made);
    assert_eq!(made.problems, [""; 0]);
    let deployment = find(&made, "Deployment");
    assert!(deployment["spec"].get("replicas").is_none(), "the autoscaler's business");
    assert_eq!(deployment["spec"]["template"]["metadata"]["labels"]["app.kubernetes.io/name"], names::PROXY);
    assert_eq!(deployment["spec"]["template"]["spec"]["containers"][0]["image"], "envoy:custom");
}

#[test]
fn a_daemon_set_takes_the_place_of_the_deployment() {
    let spec = "provider: {type: Kubernetes, kubernetes: {envoyDaemonSet: {patch: {value: {spec: {template: {spec: {hostNetwork: true}}}}}}, envoyService: {type: ClusterIP}}}";
    let made = make(&FleetIntent { class_parameters: Some(proxy(spec)), ..plain() }, &platform(), None);
    let superseded: Vec<&str> = made.superseded.iter().map(|id| id.kind).collect();
    assert_eq!(superseded, ["Deployment", "HorizontalPodAutoscaler"]);
    assert!(find(&made, "Service")["spec"].get("externalTrafficPolicy").is_none());
    let pod = &find(&made, "DaemonSet")["spec"]["template"]["spec"];
    assert_eq!(pod["hostNetwork"], true);
    assert!(pod["securityContext"].get("sysctls").is_none(), "the API server refuses them in the host's network");
}

/// No edit of a listener and no new Portolan restarts a proxy; a change of the fleet's own parameters does, and then everything is new.
#[test]
fn only_its_own_parameters_roll_a_fleet() {
    let first = make(&plain(), &platform(), None);
    let running = find(&first, "Deployment");
    let pods = |made: &Manifests| find(made, "Deployment")["spec"]["template"].clone();

    let ports = FleetIntent { ports: vec![(8080, false)], ..FleetIntent::default() };
    assert_eq!(pods(&make(&ports, &platform(), Some(running))), pods(&first));

    let newer = Platform {
        proxy_image: "envoy:2".into(),
        portolan_image: "portolan:2".into(),
        probe_port: 19_002,
        ..platform()
    };
    assert_eq!(make(&plain(), &newer, Some(running)), first, "an upgrade changes nothing");
    let changed = FleetIntent { class_parameters: Some(proxy("concurrency: 2")), ..plain() };
    let rolled = pods(&make(&changed, &newer, Some(running))).to_string();
    assert!(rolled.contains("envoy:2") && rolled.contains("portolan:2") && rolled.contains("19002"), "{rolled}");
    let gateway = gateway();
    let intent = plain();
    let fleet = ManagedFleet { gateway: &gateway, uid: "3f1c", intent: &intent };
    assert!(pods(&manifests(fleet, &newer, Some(running), true)).to_string().contains("envoy:2"), "asked for");

    // Replicas are no part of the template.
    let more = "provider: {type: Kubernetes, kubernetes: {envoyDeployment: {replicas: 4}}}";
    let more = make(&FleetIntent { class_parameters: Some(proxy(more)), ..plain() }, &newer, Some(running));
    assert_eq!((pods(&more), &find(&more, "Deployment")["spec"]["replicas"]), (pods(&first), &json!(4)));
}

/// A fleet stays with the revision of its template only if that is rendered as it was, byte for byte: by its digest the next Portolan knows it.
#[test]
fn what_a_revision_renders_never_changes() {
    let everything = FleetIntent { class_parameters: Some(proxy(EVERYTHING)), ..plain() };
    let digest = |intent: &FleetIntent| {
        let made = make(intent, &platform(), None);
        let annotations = find(&made, "Deployment")["metadata"]["annotations"].clone();
        let text = |name: &str| annotations[name].as_str().unwrap().to_owned();
        let template: Value = serde_json::from_str(&text(template::TEMPLATE)).unwrap();
        (template["revision"].as_u64().unwrap(), text(template::DIGEST))
    };
    let rendered = [digest(&plain()), digest(&everything)];
    let rendered = rendered.map(|(revision, digest)| format!("{revision} {digest}\n")).concat();
    assert_eq!(
        rendered,
        include_str!("../../testdata/revisions.txt"),
        "fleets that run would restart at an upgrade: raise REVISION, and go on rendering the older one"
    );
}

#[test]
fn a_bootstrap_that_is_none_is_left_out_and_told() {
    let spec = "bootstrap: {type: Merge, value: 'no_such_field: 1'}";
    let made = make(&FleetIntent { class_parameters: Some(proxy(spec)), ..plain() }, &platform(), None);
    assert!(made.problems[0].contains("no_such_field"), "{:?}", made.problems);
    assert_eq!(find(&made, "ConfigMap"), find(&make(&plain(), &platform(), None), "ConfigMap"));
}

/// The API server judges what comes out.
#[test]
fn a_patch_may_make_nonsense_and_breaks_nothing_here() {
    for value in [
        "{spec: x}",
        "{spec: {template: [1]}}",
        "{metadata: null}",
        "{spec: {template: {spec: {hostNetwork: true, securityContext: 7}}}}",
    ] {
        let spec = format!(
            "provider: {{type: Kubernetes, kubernetes: {{envoyDeployment: {{patch: {{value: {value}}}}}, envoyService: {{patch: {{value: {value}}}}}}}}}"
        );
        let made = make(&FleetIntent { class_parameters: Some(proxy(&spec)), ..plain() }, &platform(), None);
        assert_eq!(made.objects.len(), 5, "{value}");
    }
}
