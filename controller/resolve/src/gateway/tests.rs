//! Gateways, ListenerSets and their conditions.

use portolan_model::ir::{GatewayView, Status};
use portolan_model::{Condition, ConditionType, NamespacedName, Reason};

use super::listeners_on;
use crate::testing::{CLASS, TestWorld, certificate, gateway, gateway_name as name};
use crate::{FleetState, World, status};

fn world(manifests: &str) -> TestWorld {
    TestWorld::read(&format!("{CLASS}{manifests}")).unwrap()
}

fn listener_set(namespace: &str, name: &str, created: &str, listeners: &str) -> String {
    format!(
        "
apiVersion: gateway.networking.k8s.io/v1
kind: ListenerSet
metadata: {{name: {name}, namespace: {namespace}, creationTimestamp: \"{created}\"}}
spec:
  parentRef: {{name: g, namespace: ns}}
  listeners:
{listeners}
---
"
    )
}

fn view(world: &TestWorld) -> std::sync::Arc<GatewayView> {
    world.gateway_view(&name()).unwrap()
}

/// `Accepted=True/Accepted` and so on.
fn shown(conditions: &[Condition]) -> Vec<String> {
    let show = |condition: &Condition| {
        let status = if condition.status { "True" } else { "False" };
        format!("{}={status}/{}", condition.kind, condition.reason)
    };
    conditions.iter().map(show).collect()
}

fn gateway_conditions(world: &TestWorld) -> Vec<String> {
    let Some(Status::Gateway { conditions, .. }) = status::gateway(world, &name()) else { panic!("no status") };
    shown(&conditions)
}

fn listeners(world: &TestWorld) -> Vec<(String, Vec<String>)> {
    let Some(Status::Gateway { listeners, .. }) = status::gateway(world, &name()) else { panic!("no status") };
    listeners.iter().map(|listener| (listener.name.to_string(), shown(&listener.conditions))).collect()
}

fn set(world: &TestWorld, namespace: &str, name: &str) -> (Vec<String>, Vec<Vec<String>>) {
    let Some(Status::ListenerSet { conditions, listeners }) =
        status::listener_set(world, &NamespacedName::new(namespace, name))
    else {
        panic!("no status")
    };
    (shown(&conditions), listeners.iter().map(|listener| shown(&listener.conditions)).collect())
}

const GOOD: [&str; 3] = ["Accepted=True/Accepted", "Programmed=True/Programmed", "ResolvedRefs=True/ResolvedRefs"];

#[test]
fn a_plain_gateway_is_programmed_once_a_proxy_has_it() {
    let mut world = world(&gateway("  listeners: [{name: http, port: 80, protocol: HTTP}]"));
    assert_eq!(gateway_conditions(&world), GOOD);
    assert_eq!(listeners(&world), [("http".to_string(), GOOD.map(String::from).to_vec())]);

    world.fleets.insert(name(), FleetState::default());
    assert_eq!(gateway_conditions(&world)[1], "Programmed=False/Pending");
    assert_eq!(listeners(&world)[0].1[1], "Programmed=False/Pending");

    world.bindings.insert(name(), None);
    assert_eq!(gateway_conditions(&world)[1], "Programmed=False/AddressNotAssigned");

    world.fleets.clear();
    world.bindings.clear();
    let table = portolan_model::ir::TableId { gateway: name(), port: 80, server: None };
    for table in [None, Some(table)] {
        world.refused_ports.insert(name(), vec![crate::PortRefusal { port: 80, table, text: "in use".into() }]);
        assert_eq!(gateway_conditions(&world)[1], "Programmed=False/Invalid");
        assert_eq!(listeners(&world)[0].1[1], "Programmed=False/Invalid");
    }

    let unusable =
        portolan_model::ir::Binding { unusable: vec![("192.0.2.1".into(), "not here".into())], ..Default::default() };
    world.fleets.clear();
    world.bindings.insert(name(), Some(unusable));
    assert_eq!(gateway_conditions(&world)[1], "Programmed=False/AddressNotUsable");
}

#[test]
fn another_controllers_gateway_is_none_of_portolans() {
    let other = CLASS.replace("portolan.dev/gateway-controller", "example.com/other");
    let spec = gateway("  listeners: [{name: http, port: 80, protocol: HTTP}]");
    assert!(TestWorld::read(&format!("{other}{spec}")).unwrap().gateway_view(&name()).is_none());
    assert!(TestWorld::read(&spec).unwrap().gateway_view(&name()).is_none());
}

#[test]
fn what_cannot_be_done_refuses_the_gateway() {
    let http = "  listeners: [{name: http, port: 80, protocol: HTTP}]\n";
    for (spec, expected) in [
        (
            format!("{http}  infrastructure: {{parametersRef: {{group: invalid.io, kind: Nope, name: x}}}}"),
            "Accepted=False/InvalidParameters",
        ),
        (format!("{http}  addresses: [{{type: test/unknown, value: x}}]"), "Accepted=False/UnsupportedAddress"),
        ("  listeners: [{name: x, port: 1111, protocol: INVALID}]".into(), "Accepted=False/ListenersNotValid"),
        (
            "  listeners: [{name: x, port: 1111, protocol: INVALID}, {name: http, port: 80, protocol: HTTP}]".into(),
            "Accepted=True/ListenersNotValid",
        ),
    ] {
        let world = world(&gateway(&spec));
        assert_eq!(gateway_conditions(&world)[0], expected, "{spec}");
        // What is wrong with the fleet is not the listeners' fault, and what serves goes on.
        let view = world.gateway_view(&name()).unwrap();
        assert_eq!(view.refused, !expected.ends_with("ListenersNotValid"), "{spec}");
        assert_eq!(listeners_on(&view, 80, false).count(), usize::from(spec.contains("port: 80")), "{spec}");
    }
}

#[test]
fn parameters_are_found_or_refused_and_what_has_no_effect_is_named() {
    let proxy = |namespace: &str, spec: &str| {
        format!(
            "\napiVersion: portolan.dev/v1alpha1\nkind: EnvoyProxy\nmetadata: {{name: p, namespace: {namespace}}}\nspec: {spec}\n---\n"
        )
    };
    let spec = |reference: &str| {
        gateway(&format!(
            "  listeners: [{{name: http, port: 80, protocol: HTTP}}]\n  infrastructure: {{parametersRef: {{{reference}}}}}"
        ))
    };
    let own = spec("group: portolan.dev, kind: EnvoyProxy, name: p");
    let accepted = |manifests: &str| {
        let Some(Status::Gateway { conditions, .. }) = status::gateway(&world(manifests), &name()) else { panic!() };
        (conditions[0].status, conditions[0].message.to_string())
    };
    assert_eq!(accepted(&format!("{own}{}", proxy("ns", "{}"))), (true, "Accepted".into()));
    let (status, message) = accepted(&format!("{own}{}", proxy("elsewhere", "{}")));
    assert!(!status && message.contains("EnvoyProxy ns/p, which does not exist"), "{message}");
    let (status, message) = accepted(&format!(
        "{own}{}",
        proxy(
            "ns",
            "{concurrency: 2, telemetry: {tracing: {}, accessLog: {disable: true}}, provider: {type: Kubernetes, kubernetes: {envoyDeployment: {replicas: 2}}}}"
        )
    ));
    assert!(status, "{message}");
    assert!(message.contains("does not support: telemetry.tracing"), "{message}");
    assert!(message.ends_with("only the parameters of a GatewayClass may set: concurrency, telemetry"), "{message}");

    let class = |namespace: &str| {
        let reference = format!("{{group: portolan.dev, kind: EnvoyProxy, name: p{namespace}}}");
        let controller = "controllerName: portolan.dev/gateway-controller";
        let class = CLASS.replace(controller, &format!("{controller}, parametersRef: {reference}"));
        let world =
            TestWorld::read(&format!("{class}{}", proxy("ns", "{concurrency: 2, mergeGateways: true}"))).unwrap();
        let Some(Status::GatewayClass { conditions, .. }) = status::gateway_class(&world, &"portolan".into()) else {
            panic!()
        };
        (conditions[0].status, conditions[0].message.to_string())
    };
    let (status, message) = class(", namespace: ns");
    assert!(status && message.ends_with("does not support: mergeGateways"), "{message}");
    assert!(!class("").0);
    assert!(!class(", namespace: other").0);
}

#[test]
fn listeners_that_are_not_served_say_so() {
    let spec = "
  listeners:
  - {name: http, port: 80, protocol: HTTP}
  - {name: tls, port: 443, protocol: TLS, tls: {mode: Passthrough}}
  - {name: tcp, port: 80, protocol: TCP}
  - {name: kinds, port: 81, protocol: HTTP, allowedRoutes: {kinds: [{kind: TCPRoute}, {kind: HTTPRoute}]}}
  - {name: unknown-kind, port: 82, protocol: HTTP, allowedRoutes: {kinds: [{kind: Nope}]}}
  - {name: from, port: 83, protocol: HTTP, allowedRoutes: {namespaces: {from: Sibling}}}
";
    let world = world(&gateway(spec));
    let conditions: std::collections::BTreeMap<_, _> = listeners(&world).into_iter().collect();
    assert_eq!(conditions["http"], GOOD);
    assert_eq!(conditions["tls"][..2], ["Accepted=False/UnsupportedProtocol", "Programmed=False/Invalid"]);
    assert_eq!(
        conditions["tcp"],
        [
            "Accepted=False/ProtocolConflict",
            "Programmed=False/ProtocolConflict",
            "ResolvedRefs=True/ResolvedRefs",
            "Conflicted=True/ProtocolConflict"
        ]
    );
    assert_eq!(conditions["kinds"][2], "ResolvedRefs=False/InvalidRouteKinds");
    assert_eq!(conditions["unknown-kind"][2], "ResolvedRefs=False/InvalidRouteKinds");
    assert_eq!(conditions["from"][0], "Accepted=False/UnsupportedValue");
    let kinds = |name: &str| {
        let view = view(&world);
        let listener = view.listeners.iter().find(|listener| &*listener.id.name == name).unwrap();
        listener.kinds.iter().map(|kind| kind.kind.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(kinds("http"), ["HTTPRoute", "GRPCRoute"]);
    assert_eq!(kinds("kinds"), ["HTTPRoute"]);
    assert!(kinds("unknown-kind").is_empty() && kinds("tls").is_empty());
}

#[test]
fn certificates_are_granted_found_and_checked() {
    let https = |reference: &str| {
        format!("  listeners: [{{name: https, port: 443, protocol: HTTPS, tls: {{certificateRefs: [{reference}]}}}}]")
    };
    let secrets = format!("{}{}", certificate("ns", "good", &["a.test"]), certificate("other", "far", &["a.test"]));
    let broken = "
apiVersion: v1
kind: Secret
metadata: {name: broken, namespace: ns}
type: kubernetes.io/tls
stringData: {tls.crt: x, tls.key: x}
---
";
    let grant = |from: &str, to: &str| {
        format!(
            "
apiVersion: gateway.networking.k8s.io/v1
kind: ReferenceGrant
metadata: {{name: grant, namespace: other}}
spec: {{from: [{{group: gateway.networking.k8s.io, kind: {from}, namespace: ns}}], to: [{{group: \"\", kind: Secret{to}}}]}}
---
"
        )
    };
    let far = "{name: far, namespace: other}";
    for (reference, grant, resolved, programmed, served) in [
        ("{name: good}", String::new(), "ResolvedRefs=True/ResolvedRefs", "Programmed=True/Programmed", 1),
        ("{name: none}", String::new(), "ResolvedRefs=False/InvalidCertificateRef", "Programmed=False/Invalid", 1),
        ("{name: broken}", String::new(), "ResolvedRefs=False/InvalidCertificateRef", "Programmed=False/Invalid", 1),
        (
            "{name: none}, {name: good}",
            String::new(),
            "ResolvedRefs=False/InvalidCertificateRef",
            "Programmed=True/Programmed",
            2,
        ),
        (
            "{kind: Nope, name: good}",
            String::new(),
            "ResolvedRefs=False/InvalidCertificateRef",
            "Programmed=False/Invalid",
            0,
        ),
        (
            "{group: wrong.example, kind: Secret, name: good}",
            String::new(),
            "ResolvedRefs=False/InvalidCertificateRef",
            "Programmed=False/Invalid",
            0,
        ),
        (far, String::new(), "ResolvedRefs=False/RefNotPermitted", "Programmed=False/Invalid", 0),
        (far, grant("HTTPRoute", ""), "ResolvedRefs=False/RefNotPermitted", "Programmed=False/Invalid", 0),
        (far, grant("Gateway", ", name: near"), "ResolvedRefs=False/RefNotPermitted", "Programmed=False/Invalid", 0),
        (far, grant("Gateway", ""), "ResolvedRefs=True/ResolvedRefs", "Programmed=True/Programmed", 1),
        (far, grant("Gateway", ", name: far"), "ResolvedRefs=True/ResolvedRefs", "Programmed=True/Programmed", 1),
        ("", String::new(), "ResolvedRefs=False/InvalidCertificateRef", "Programmed=False/Invalid", 0),
    ] {
        let world = world(&format!("{}{secrets}{broken}{grant}", gateway(&https(reference))));
        let found = listeners(&world).remove(0).1;
        assert_eq!(found, ["Accepted=True/Accepted", programmed, resolved], "{reference} {grant}");
        assert_eq!(view(&world).listeners[0].certificates.len(), served, "{reference} {grant}");
    }
}

#[test]
fn a_port_that_the_offset_moves_out_of_range_is_named_and_not_served() {
    let spec = "
  listeners:
  - {name: low, port: 80, protocol: HTTP}
  - {name: last, port: 57535, protocol: HTTP}
  - {name: high, port: 60000, protocol: HTTP}";
    let with = |offset: u16, spec: &str| {
        let mut world = world(&gateway(spec));
        let binding = portolan_model::ir::Binding {
            port_offset: offset,
            status: vec![("IPAddress".into(), "192.0.2.7".into())],
            ..Default::default()
        };
        world.bindings.insert(name(), Some(binding));
        world
    };
    let shifted = with(8000, spec);
    let plans = crate::listener::plans(&shifted, &name());
    assert_eq!(plans.iter().map(|plan| plan.port).collect::<Vec<_>>(), [80, 57535]);
    let Some(Status::Gateway { conditions, listeners, .. }) = status::gateway(&shifted, &name()) else { panic!() };
    let programmed: Vec<_> = listeners.iter().map(|listener| &listener.conditions[1]).collect();
    assert!(programmed.iter().all(|condition| condition.kind == ConditionType::Programmed));
    assert_eq!(programmed.iter().map(|condition| condition.status).collect::<Vec<_>>(), [true, true, false]);
    assert_eq!(programmed[2].reason, Reason::Invalid);
    for part in ["8000", "--port-offset", "60000", "at most 5535"] {
        assert!(programmed[2].message.contains(part), "{}", programmed[2].message);
    }
    assert!(conditions[1].status, "the other listeners are served: {conditions:?}");

    // Where nothing else is served the Gateway says so, before any proxy has said anything too.
    let mut alone = with(8000, "  listeners: [{name: high, port: 60000, protocol: HTTP}]");
    for programmed in [true, false] {
        let state = FleetState { programmed };
        alone.fleets.insert(name(), state);
        let Some(Status::Gateway { conditions, listeners, .. }) = status::gateway(&alone, &name()) else { panic!() };
        assert_eq!((conditions[1].status, conditions[1].reason), (false, Reason::Invalid));
        assert_eq!((listeners[0].conditions[1].status, listeners[0].conditions[1].reason), (false, Reason::Invalid));
    }
    let request = crate::explain::Request {
        gateway: name(),
        port: 60000,
        tls: false,
        sni: None,
        method: "GET".into(),
        authority: "a.test".into(),
        path: "/".into(),
        headers: Vec::new(),
    };
    assert_eq!(crate::explain::explain(&shifted, &request).outcome, crate::explain::Outcome::NotListening);
}

/// What of a fleet cannot be made is told before it serves, as the reason why it does not; and after, as what it is.
#[test]
fn what_of_a_fleet_cannot_be_made_is_told_and_takes_nothing_away() {
    let spec = "  listeners: [{name: web, port: 80, protocol: HTTP}]";
    let told = |programmed: bool, address: bool, problems: &[&str]| {
        let mut world = world(&gateway(spec));
        world.fleets.insert(name(), FleetState { programmed });
        if !address {
            world.bindings.insert(name(), None);
        }
        world
            .fleet_problems
            .insert(name(), problems.iter().map(|problem| portolan_model::Name::from(*problem)).collect());
        let Some(Status::Gateway { conditions, listeners, .. }) = status::gateway(&world, &name()) else { panic!() };
        let Condition { status, reason, message, attention, .. } = conditions[1].clone();
        ((status, reason, attention), message.to_string(), listeners[0].conditions[1].reason)
    };
    let problem = ["Deployment ns/portolan-g: exceeded quota: small"];
    for address in [true, false] {
        let (programmed, message, listener) = told(false, address, &problem);
        assert_eq!((programmed, listener), ((false, Reason::NoResources, false), Reason::Pending));
        assert!(message.ends_with(": Deployment ns/portolan-g: exceeded quota: small"), "{message}");
    }
    let (programmed, message, listener) = told(true, true, &problem);
    assert_eq!((programmed, listener), ((true, Reason::Programmed, true), Reason::Programmed));
    assert!(message.contains("exceeded quota"), "{message}");
    assert_eq!(told(true, true, &[]).0, (true, Reason::Programmed, false));
    assert_eq!(told(false, true, &[]).0, (false, Reason::Pending, false));
    assert_eq!(told(false, false, &[]).0, (false, Reason::AddressNotAssigned, false));
}

#[test]
fn an_expired_certificate_changes_its_secret_and_not_the_listener() {
    let refs: Vec<String> = (0..20).map(|number| format!("{{name: cert-{number}}}")).collect();
    let spec = format!(
        "  listeners: [{{name: https, port: 443, protocol: HTTPS, tls: {{certificateRefs: [{}]}}}}]",
        refs.join(", ")
    );
    let secrets: String =
        (0..20).map(|number| certificate("ns", &format!("cert-{number}"), &[&format!("{number}.test")])).collect();
    let manifests = format!("{}{secrets}", gateway(&spec));
    let (valid, mut expired) = (world(&manifests), world(&manifests));
    expired.now = i64::MAX;
    let usable = |world: &TestWorld| view(world).listeners[0].certificates.iter().filter(|it| it.usable).count();
    assert_eq!((usable(&valid), usable(&expired)), (20, 0));
    let plans = |world: &TestWorld| crate::listener::plans(world, &name());
    assert_eq!(plans(&valid), plans(&expired));
    assert_eq!(plans(&valid)[0].chains.len(), 21);
    let secret = |world: &TestWorld| crate::secret::plan(world, &NamespacedName::new("ns", "cert-7")).state;
    assert_eq!(secret(&expired), portolan_model::ir::SecretState::Held);
    assert_ne!(secret(&valid), portolan_model::ir::SecretState::Held);
}

#[test]
fn a_certificate_that_envoy_refuses_is_named() {
    let spec = "
  listeners:
  - {name: refused, port: 443, protocol: HTTPS, hostname: a.test, tls: {certificateRefs: [{name: refused}]}}
  - {name: good, port: 443, protocol: HTTPS, hostname: b.test, tls: {certificateRefs: [{name: good}]}}
";
    let secrets = ["refused", "good"].map(|name| certificate("ns", name, &["a.test"])).concat();
    let mut world = world(&format!("{}{secrets}", gateway(spec)));
    let refuse = |names: &[&str]| -> std::collections::BTreeMap<_, std::sync::Arc<str>> {
        names.iter().map(|name| (NamespacedName::new("ns", *name), "mismatch".into())).collect()
    };
    world.refused_secrets = refuse(&["refused", "of-another-gateway"]);
    assert_eq!(gateway_conditions(&world)[1], "Programmed=True/Programmed");
    let programmed: Vec<_> = listeners(&world).into_iter().map(|(_, conditions)| conditions[1].clone()).collect();
    assert_eq!(programmed, ["Programmed=False/Invalid", "Programmed=True/Programmed"]);
    let Some(Status::Gateway { listeners, .. }) = status::gateway(&world, &name()) else { panic!("no status") };
    assert_eq!(&*listeners[0].conditions[1].message, "Envoy refused the certificate of Secret ns/refused: mismatch");

    world.refused_secrets = refuse(&["refused", "good"]);
    assert_eq!(gateway_conditions(&world)[1], "Programmed=False/Invalid");
}

#[test]
fn a_route_table_that_envoy_refuses_concerns_its_own_listener() {
    let spec = "
  listeners:
  - {name: a, port: 443, protocol: HTTPS, hostname: a.test, tls: {certificateRefs: [{name: good}]}}
  - {name: b, port: 443, protocol: HTTPS, hostname: b.test, tls: {certificateRefs: [{name: good}]}}
";
    let mut world = world(&format!("{}{}", gateway(spec), certificate("ns", "good", &["a.test"])));
    let table = portolan_model::ir::TableId { gateway: name(), port: 443, server: Some("b.test".into()) };
    world.refused_ports.insert(name(), vec![crate::PortRefusal { port: 443, table: Some(table), text: "no".into() }]);
    let programmed: Vec<_> = listeners(&world).into_iter().map(|(_, conditions)| conditions[1].clone()).collect();
    assert_eq!(programmed, ["Programmed=True/Programmed", "Programmed=False/Invalid"]);
    assert_eq!(gateway_conditions(&world)[1], "Programmed=False/Invalid");
}

#[test]
fn client_certificates_that_are_not_checked_yet_close_the_listener() {
    let spec = "
  tls: {frontend: {default: {validation: {caCertificateRefs: [{group: '', kind: ConfigMap, name: ca}]}}, perPort: [{port: 8443, tls: {}}]}}
  listeners:
  - {name: http, port: 80, protocol: HTTP}
  - {name: default, port: 443, protocol: HTTPS, tls: {certificateRefs: [{name: good}]}}
  - {name: own, port: 8443, protocol: HTTPS, tls: {certificateRefs: [{name: good}]}}
";
    let world = world(&format!("{}{}", gateway(spec), certificate("ns", "good", &["a.test"])));
    let accepted: Vec<_> = listeners(&world).into_iter().map(|(_, conditions)| conditions[0].clone()).collect();
    assert_eq!(accepted, ["Accepted=True/Accepted", "Accepted=False/UnsupportedValue", "Accepted=True/Accepted"]);
    let ports: Vec<_> = crate::listener::plans(&world, &name()).iter().map(|plan| plan.port).collect();
    assert_eq!(ports, [80, 8443]);
}

#[test]
fn overlapping_https_hostnames_are_marked() {
    let listener = |name: &str, port: u16, host: &str| {
        format!(
            "  - {{name: {name}, port: {port}, protocol: HTTPS, hostname: {host}, tls: {{certificateRefs: [{{name: good}}]}}}}\n"
        )
    };
    let spec = format!(
        "  listeners:\n{}{}{}{}",
        listener("a", 443, "foo.example.com"),
        listener("b", 443, "foo.example.org"),
        listener("c", 443, "'*.example.com'"),
        listener("d", 8443, "'*.example.org'"),
    );
    let world = world(&format!("{}{}", gateway(&spec), certificate("ns", "good", &["a.test"])));
    let view = view(&world);
    let overlapping = view.listeners.iter().filter(|listener| {
        listener.conditions.iter().any(|condition| condition.kind == ConditionType::OverlappingTLSConfig)
    });
    assert_eq!(overlapping.map(|listener| listener.id.name.to_string()).collect::<Vec<_>>(), ["a", "c"]);
}

const OLD: &str = "2024-01-01T00:00:00Z";
const NEW: &str = "2025-01-01T00:00:00Z";

/// ListenerSetHostnameConflict, ListenerSetProtocolConflict of the suite
#[test]
fn listener_sets_follow_the_gateway_by_age() {
    let http = |name: &str, host: &str| format!("  - {{name: {name}, port: 80, protocol: HTTP, hostname: {host}}}\n");
    let world = world(&format!(
        "{}{}{}{}",
        gateway(&format!(
            "  allowedListeners: {{namespaces: {{from: Same}}}}\n  listeners:\n{}",
            http("own", "a.test")
        )),
        listener_set("ns", "a-new", NEW, &http("one", "b.test")),
        listener_set("ns", "b-old", OLD, &format!("{}{}", http("one", "a.test"), http("two", "b.test"))),
        listener_set("ns", "c-tcp", NEW, "  - {name: tcp, port: 80, protocol: TCP}\n"),
    ));
    let conflict = |reason: &str| {
        vec![
            format!("Accepted=False/{reason}"),
            format!("Programmed=False/{reason}"),
            "ResolvedRefs=True/ResolvedRefs".into(),
            format!("Conflicted=True/{reason}"),
        ]
    };
    let invalid = ["Accepted=False/ListenersNotValid", "Programmed=False/ListenersNotValid"];
    assert_eq!(listeners(&world)[0].1, GOOD);
    assert_eq!(
        set(&world, "ns", "b-old"),
        (
            vec!["Accepted=True/ListenersNotValid".into(), "Programmed=True/Programmed".into()],
            vec![conflict("HostnameConflict"), GOOD.map(String::from).to_vec()]
        )
    );
    assert_eq!(set(&world, "ns", "a-new"), (invalid.map(String::from).to_vec(), vec![conflict("HostnameConflict")]));
    assert_eq!(set(&world, "ns", "c-tcp"), (invalid.map(String::from).to_vec(), vec![conflict("ProtocolConflict")]));
    let Some(Status::Gateway { attached_listener_sets, .. }) = status::gateway(&world, &name()) else { panic!() };
    assert_eq!(attached_listener_sets, 1);
    // A bad ListenerSet does not show on the Gateway.
    assert_eq!(gateway_conditions(&world), GOOD);
}

#[test]
fn a_gateway_says_which_listener_sets_it_takes() {
    let http = "  - {name: one, port: 8080, protocol: HTTP}\n";
    let namespace = "
apiVersion: v1
kind: Namespace
metadata: {name: labelled, labels: {team: shop}}
---
";
    let refused = ["Accepted=False/NotAllowed", "Programmed=False/NotAllowed"];
    let taken = ["Accepted=True/Accepted", "Programmed=True/Programmed"];
    for (allowed, of_same, of_labelled) in [
        ("", false, false),
        ("  allowedListeners: {namespaces: {from: None}}\n", false, false),
        ("  allowedListeners: {namespaces: {from: Same}}\n", true, false),
        ("  allowedListeners: {namespaces: {from: All}}\n", true, true),
        ("  allowedListeners: {namespaces: {from: Selector, selector: {matchLabels: {team: shop}}}}\n", false, true),
    ] {
        // The two do not conflict: one is on another port.
        let world = world(&format!(
            "{}{namespace}{}{}",
            gateway(&format!("{allowed}  listeners: [{{name: http, port: 80, protocol: HTTP}}]")),
            listener_set("ns", "same", OLD, http),
            listener_set("labelled", "other", NEW, &http.replace("8080", "8081")),
        ));
        for ((namespace, name), expected) in [(("ns", "same"), of_same), (("labelled", "other"), of_labelled)] {
            let expected = if expected { taken } else { refused };
            assert_eq!(set(&world, namespace, name).0, expected, "{allowed} {namespace}/{name}");
        }
    }
}

#[test]
fn a_listener_set_needs_its_own_grant() {
    let https =
        "  - {name: one, port: 443, protocol: HTTPS, tls: {certificateRefs: [{name: far, namespace: other}]}}\n";
    let grant = "
apiVersion: gateway.networking.k8s.io/v1
kind: ReferenceGrant
metadata: {name: grant, namespace: other}
spec: {from: [{group: gateway.networking.k8s.io, kind: Gateway, namespace: ns}], to: [{group: \"\", kind: Secret}]}
";
    let objects = format!(
        "{}{}{}",
        gateway("  allowedListeners: {namespaces: {from: All}}\n  listeners: [{name: http, port: 80, protocol: HTTP}]"),
        listener_set("ns", "set", OLD, https),
        certificate("other", "far", &["a.test"]),
    );
    let (conditions, listeners) = set(&world(&format!("{objects}{grant}")), "ns", "set");
    assert_eq!(conditions, ["Accepted=False/ListenersNotValid", "Programmed=False/ListenersNotValid"]);
    assert_eq!(listeners[0][2], "ResolvedRefs=False/RefNotPermitted");
    let (conditions, listeners) =
        set(&world(&format!("{objects}{}", grant.replace("kind: Gateway", "kind: ListenerSet"))), "ns", "set");
    assert_eq!(conditions, ["Accepted=True/Accepted", "Programmed=True/Programmed"]);
    assert_eq!(listeners[0], GOOD);
}
