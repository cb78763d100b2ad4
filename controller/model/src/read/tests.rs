//! Positions, documents, findings; what the CRDs say is compared with an API server in `conformance/crds`.

use std::fmt::Write as _;
use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::Kind;
use crate::objects::{FromNamespaces, HttpFilter, PathMatch};

fn read(text: &str) -> Vec<Manifest> {
    manifests(&Arc::from("a.yaml"), text.as_bytes()).expect("readable")
}

fn unreadable(text: impl AsRef<[u8]>) -> String {
    manifests(&Arc::from("a.yaml"), text.as_ref()).expect_err("unreadable").to_string()
}

/// Every violation of every object, as a person reads it.
fn violations(text: &str) -> Vec<String> {
    read(text).iter().flat_map(|manifest| manifest.violations.iter().map(ToString::to_string)).collect()
}

const ROUTE: &str = "\
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata:
  name: shop
spec:
  hostnames:
  - Shop.example.net
  rules:
  - matchs:
    - path: {type: Prefix, value: /a}
    matches:
    - path: {type: Exakt, value: /a}
      headers:
      - name: x-a
    backendRefs:
    - name: shop
      weight: '3'
";

#[test]
fn violations_know_their_place() {
    assert_eq!(
        violations(ROUTE),
        [
            "a.yaml:12:20: HTTPRoute default/shop: spec.rules[0].matches[0].path.type: unknown value `Exakt`, must be one of Exact, \
             PathPrefix, RegularExpression; did you mean `Exact`?",
            "a.yaml:14:9: HTTPRoute default/shop: spec.rules[0].matches[0].headers[0].value: is required",
            "a.yaml:16:7: HTTPRoute default/shop: spec.rules[0].backendRefs[0]: a reference to a Service needs a port",
            "a.yaml:17:15: HTTPRoute default/shop: spec.rules[0].backendRefs[0].weight: must be an integer, is a string",
            "a.yaml:9:5: HTTPRoute default/shop: spec.rules[0].matchs: unknown field, ignored; did you mean `matches`?",
            "a.yaml:7:5: HTTPRoute default/shop: spec.hostnames[0]: `Shop.example.net` is not a hostname: a DNS name in lower case \
             without port, which may start with the wildcard label `*.`",
        ]
    );
    let [manifest] = read(ROUTE).try_into().expect("one object");
    assert_eq!((manifest.location.line, manifest.location.column), (1, 1));
    assert_eq!(manifest.object, None, "a required field is missing");
}

#[test]
fn places_are_the_same_with_crlf_and_byte_order_mark() {
    let windows = format!("\u{FEFF}{}", ROUTE.replace('\n', "\r\n"));
    assert_eq!(violations(&windows), violations(ROUTE));
}

#[test]
fn json_has_places_too() {
    let text = "{\"apiVersion\": \"gateway.networking.k8s.io/v1\", \"kind\": \"GatewayClass\",\n \"metadata\": {\"name\": \"a\"},\n \"spec\": {\"controllerName\": 5}}";
    assert_eq!(
        violations(text),
        ["a.yaml:3:29: GatewayClass a: spec.controllerName: must be a string, is a number: put it in quotes"]
    );
    // Tabs and surrogate pairs are JSON but no YAML: read without places.
    let text = "{\n\t\"apiVersion\": \"v1\",\n\t\"kind\": \"ConfigMap\",\n\t\"metadata\": {\"name\": \"a\"},\n\t\"data\": {\"a\": \"\\ud83d\\ude00\"}\n}";
    let [manifest] = read(text).try_into().expect("one object");
    let Some(Object::ConfigMap(map)) = manifest.object else { panic!("{manifest:?}") };
    assert_eq!(map.data.get("a").map(|value| &**value), Some("😀".as_bytes()));
}

#[test]
fn documents_lists_and_comments() {
    let text = "\
---
# Source: chart/templates/a.yaml
---
apiVersion: v1
kind: Namespace
metadata: {name: a}
---
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Namespace, metadata: {name: b}}
- {apiVersion: apps/v1, kind: Deployment, metadata: {name: c}, spec: {anything: 1}}
---
apiVersion: v1
kind: NamespaceList
items:
- {apiVersion: v1, kind: Namespace, metadata: {name: d}}
...
---
null
---
";
    let manifests = read(text);
    let names: Vec<_> = manifests.iter().map(|manifest| (&*manifest.name.name, manifest.key.is_some())).collect();
    assert_eq!(names, [("a", true), ("b", true), ("c", false), ("d", true)]);
    assert_eq!(manifests.iter().map(|manifest| manifest.violations.len()).sum::<usize>(), 0);
    assert_eq!(manifests.iter().map(|manifest| manifest.location.line).collect::<Vec<_>>(), [4, 11, 12, 17]);
    assert!(read("").is_empty());
    assert!(read("# nothing\n").is_empty());
}

#[test]
fn anchors_and_merge_keys() {
    let text = "\
apiVersion: v1
kind: Service
metadata: {name: a}
base: &base {port: 80, name: http}
spec:
  ports:
  - *base
  - {<<: *base, name: other}
";
    let [manifest] = read(text).try_into().expect("one object");
    let Some(Object::Service(service)) = manifest.object else { panic!("{:?}", manifest.violations) };
    let ports: Vec<_> = service.ports.iter().map(|port| (&*port.name, port.port)).collect();
    assert_eq!(ports, [("http", 80), ("other", 80)]);
}

#[test]
fn what_cannot_be_read() {
    assert_eq!(unreadable("a: [b"), "a.yaml:2:1: while parsing a flow sequence, expected ',' or ']'");
    assert_eq!(
        unreadable("a: 1\nb: \0\n"),
        "a.yaml:2:4: this is no text in UTF-8: a binary file? Only .yaml, .yml and .json files with manifests belong here"
    );
    assert_eq!(
        unreadable(b"a: \xC3\x28"),
        "a.yaml:1:4: this is no text in UTF-8: a binary file? Only .yaml, .yml and .json files with manifests belong here"
    );
    assert_eq!(unreadable(b"\xFF\xFEa\0"), "a.yaml:1:1: the text is UTF-16; save it as UTF-8");
    assert_eq!(unreadable("a: !Ref b"), "a.yaml:1:4: the tag `!Ref` means nothing in a manifest; remove it");
    assert_eq!(unreadable("? [a]\n: b"), "a.yaml:1:3: a key must be a string, not a list or an object");
    assert_eq!(unreadable("a: *b"), "a.yaml:1:4: while parsing node, found unknown anchor");
    assert!(unreadable(vec![b'a'; MAX_BYTES + 1]).contains("bytes are more than the limit of"));
    for deep in [
        "[".repeat(2 * MAX_DEPTH),
        "[".repeat(100 * MAX_DEPTH),
        "{\"a\":".repeat(100 * MAX_DEPTH),
        "- ".repeat(2 * MAX_DEPTH),
    ] {
        let message = unreadable(deep);
        assert!(message.contains("nested deeper") && message.contains("look for"), "{message}");
    }
}

#[test]
fn aliases_are_bounded() {
    let mut laughs = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for level in 1..30 {
        let alias = format!("*a{}", level - 1);
        writeln!(laughs, "a{level}: &a{level} [{}]", vec![alias; 10].join(", ")).expect("a string");
    }
    assert!(unreadable(laughs).contains("aliases add more than"));
    // Small in number, yet each within the one before
    let mut deep = "a0: &a0 [x]\n".to_owned();
    for level in 1..200 {
        writeln!(deep, "a{level}: &a{level} [*a{}]", level - 1).expect("a string");
    }
    assert!(unreadable(deep).contains("nested deeper"));
}

#[test]
fn what_is_no_object() {
    assert_eq!(
        violations("replicas: 3\nimage: a\n"),
        ["a.yaml:1:1: apiVersion: is required: this is no Kubernetes object; keep other files out of the directory"]
    );
    assert_eq!(violations("- a\n"), ["a.yaml:1:1: must be a Kubernetes object, is a list"]);
    assert_eq!(violations("apiVersion: v1\nkind: Namespace\n"), ["a.yaml:1:1: Namespace: metadata: is required"]);
}

#[test]
fn a_key_that_is_given_twice() {
    let text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata:\n  a: x\n  a: z\n";
    assert_eq!(violations(text), ["a.yaml:6:3: ConfigMap default/a: data.a: is given twice; remove one"]);
}

#[test]
fn kinds_and_versions() {
    let of = |version: &str, kind: &str| {
        violations(&format!("apiVersion: {version}\nkind: {kind}\nmetadata: {{name: a}}\nspec: {{}}\n"))
    };
    assert_eq!(
        of("gateway.networking.k8s.io/v1", "HTTPRoutes"),
        [
            "a.yaml:1:1: HTTPRoutes a: kind: Portolan knows no HTTPRoutes in the group gateway.networking.k8s.io: ignored; did you mean `HTTPRoute`?"
        ]
    );
    assert_eq!(
        of("gateway.networking.x-k8s.io/v1alpha1", "XBackend"),
        ["a.yaml:1:1: XBackend a: kind: XBackend is an experimental kind that Portolan does not support: ignored"]
    );
    assert_eq!(
        of("gateway.networking.k8s.io/v1alpha1", "Gateway"),
        [
            "a.yaml:1:1: Gateway default/a: apiVersion: no version v1alpha1 of Gateway is served: write gateway.networking.k8s.io/v1"
        ]
    );
    assert_eq!(of("apps/v1", "Deployment"), [""; 0]);
    assert_eq!(of("v1", "Pod"), [""; 0]);
}

#[test]
fn only_one_channel_refuses() {
    let text = "\
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: a}
spec:
  rules:
  - filters:
    - {type: RequestHeaderModifier, requestHeaderModifier: {set: [{name: a, value: é}]}}
    retry: {attempts: 0}
";
    let [manifest] = read(text).try_into().expect("one object");
    let found: Vec<_> =
        manifest.violations.iter().map(|found| (&*found.field, found.severity, found.channel)).collect();
    assert_eq!(
        found,
        [
            (
                "spec.rules[0].filters[0].requestHeaderModifier.set[0].value",
                Severity::Warning,
                Some(Channel::Experimental)
            ),
            ("spec.rules[0].retry.attempts", Severity::Error, Some(Channel::Experimental)),
        ]
    );
}

#[test]
fn each_channel_refuses_for_a_reason_of_its_own() {
    let text = "\
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: a}
spec:
  parentRefs:
  - {name: a, port: 80}
  - {name: a, port: 81}
  rules:
  - {name: a}
  - {name: a}
";
    let [manifest] = read(text).try_into().expect("one object");
    let found: Vec<_> = manifest.violations.iter().map(|found| (found.severity, found.channel)).collect();
    assert_eq!(
        found,
        [(Severity::Error, Some(Channel::Experimental)), (Severity::Error, Some(Channel::Standard))],
        "no API server takes it"
    );
}

#[test]
fn what_a_newer_api_defines_is_kept() {
    let text = "\
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: a}
spec:
  rules:
  - matches:
    - path: {type: Glob, value: /a*}
      headers:
      - {name: X-A, value: first}
      - {name: x-a, value: second}
    filters:
    - {type: Teapot, teapot: {}}
    sessionPersistence: {cookie: {name: a, path: /}}
";
    let [manifest] = read(text).try_into().expect("one object");
    let Some(Object::HttpRoute(route)) = &manifest.object else { panic!("{:?}", manifest.violations) };
    let [rule] = route.rules.as_slice() else { panic!("{route:?}") };
    assert_eq!(rule.filters, [HttpFilter::Unknown(Arc::from("Teapot"))]);
    let [found] = rule.matches.as_slice() else { panic!("{rule:?}") };
    assert_eq!(found.path, PathMatch::Unknown(Arc::from("Glob"), Arc::from("/a*")));
    assert_eq!(found.headers.len(), 1, "only the first header of a name counts");
    assert!(manifest.is_refused());
    let persistence =
        rule.session_persistence.as_ref().map(|persistence| (&*persistence.kind, persistence.cookie_path.as_deref()));
    assert_eq!(persistence, Some(("Cookie", Some("/"))));
}

#[test]
fn secrets_and_config_maps_are_decoded() {
    let text = "\
apiVersion: v1
kind: Secret
metadata: {name: a}
type: kubernetes.io/tls
data: {a: YWJj, b: eA==}
stringData: {b: plain}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: a}
data: {a: text}
binaryData: {b: /w==}
---
apiVersion: v1
kind: Secret
metadata: {name: b}
data: {a: 'no base64!'}
";
    let [secret, map, broken] = read(text).try_into().expect("three objects");
    let Some(Object::Secret(secret)) = secret.object else { panic!("{secret:?}") };
    let data: Vec<_> = secret.data.iter().map(|(key, value)| (&**key, &**value)).collect();
    assert_eq!(data, [("a", b"abc".as_slice()), ("b", b"plain")]);
    let Some(Object::ConfigMap(map)) = map.object else { panic!("{map:?}") };
    let data: Vec<_> = map.data.iter().map(|(key, value)| (&**key, &**value)).collect();
    assert_eq!(data, [("a", b"text".as_slice()), ("b", &[0xFF])]);
    assert_eq!(broken.object, None);
    let text = broken.violations.iter().map(ToString::to_string).collect::<String>();
    assert!(text.contains("data[a]: is not base64") && !text.contains("no base64!"), "{text}");
}

#[test]
fn backends_and_endpoint_slices() {
    let text = "\
apiVersion: portolan.dev/v1alpha1
kind: Backend
metadata: {name: a}
spec:
  endpoints:
  - ip: {address: 127.0.0.1, port: 8080}
  - fqdn: {hostname: a.example.net, port: 80}
  - unix: {path: /run/a.sock}
  appProtocols: [kubernetes.io/h2c]
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata:
  name: a
  labels: {kubernetes.io/service-name: shop}
addressType: IPv4
ports: [{name: http, port: 8080}]
endpoints:
- {addresses: [10.0.0.1], conditions: {ready: false}, zone: a}
- {addresses: [10.0.0.2]}
- {addresses: [nonsense]}
";
    let [backend, slice] = read(text).try_into().expect("two objects");
    let Some(Object::Backend(backend)) = backend.object else { panic!("{backend:?}") };
    assert_eq!((backend.endpoints.len(), backend.app_protocols.as_slice()), (3, [Arc::from("h2c")].as_slice()));
    assert_eq!(
        slice.violations.iter().map(ToString::to_string).collect::<Vec<_>>(),
        ["a.yaml:21:16: EndpointSlice default/a: endpoints[2].addresses[0]: `nonsense` is no IPv4 address"]
    );
    let Some(Object::EndpointSlice(slice)) = slice.object else { panic!("{slice:?}") };
    assert_eq!(slice.service, Some(NamespacedName::new("default", "shop")));
    assert_eq!(
        slice.endpoints.iter().map(|endpoint| (endpoint.ready, endpoint.serving)).collect::<Vec<_>>(),
        [(false, false), (true, true), (true, true)]
    );
}

#[test]
fn the_path_of_a_socket_is_counted_in_bytes() {
    let backend = |path: &str| {
        violations(&format!(
            "apiVersion: portolan.dev/v1alpha1\nkind: Backend\nmetadata: {{name: a}}\nspec: {{endpoints: [{{unix: {{path: \"{path}\"}}}}]}}"
        ))
    };
    let at = "a.yaml:4:34: Backend default/a: spec.endpoints[0].unix.path: ";
    assert_eq!(backend(&format!("/{}", "é".repeat(53))), [""; 0]);
    assert_eq!(backend(&format!("/{}", "é".repeat(54))), [format!("{at}must have at most 107 bytes, has 109")]);
    assert_eq!(backend(""), [format!("{at}must not be empty")]);
    assert_eq!(backend("/a\\0b"), [format!("{at}must not hold the character NUL; an abstract socket begins with `@`")]);
}

#[test]
fn a_selector_that_is_missing_selects_nothing() {
    let text = "\
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: a, uid: b, resourceVersion: '7', generation: 3, creationTimestamp: 1970-01-01T00:01:00Z}
spec:
  gatewayClassName: a
  listeners:
  - {name: a, port: 80, protocol: HTTP, allowedRoutes: {namespaces: {from: Selector}}}
";
    let [manifest] = read(text).try_into().expect("one object");
    let Some(Object::Gateway(gateway)) = &manifest.object else { panic!("{:?}", manifest.violations) };
    assert_eq!(
        gateway.listeners.iter().map(|one| &one.allowed_routes.from).collect::<Vec<_>>(),
        [&FromNamespaces::None]
    );
    assert_eq!((gateway.meta.created, manifest.bookkeeping.generation), (60, 3));
    assert_eq!(manifest.bookkeeping.uid.as_deref(), Some("b"));
    assert_eq!(manifest.key, Some(ObjectKey::new(Kind::Gateway, NamespacedName::new("default", "a"))));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn never_panics_on_bytes(text in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = manifests(&Arc::from("a.yaml"), &text);
    }

    #[test]
    fn never_panics_on_what_looks_like_yaml(text in r#"([a-z<]{0,3}|[-:?,\[\]{}#&*!|>'"%@`~]|\n|  |\t|---|\.\.\.|\$\{x\}|&a|\*a|é|\r\n){0,60}"#) {
        let _ = manifests(&Arc::from("a.yaml"), text.as_bytes());
    }

    /// A manifest from which something was cut, to which something was added.
    #[test]
    fn never_panics_on_broken_manifests(from in 0..ROUTE.len(), length in 0_usize..40, insert in r#"[-\[\]{}:#&*!'"a\n ]{0,5}"#) {
        let mut text = ROUTE.to_owned();
        text.replace_range(from..(from + length).min(ROUTE.len()), &insert);
        let violations = manifests(&Arc::from("a.yaml"), text.as_bytes());
        for violation in violations.iter().flatten().flat_map(|manifest| &manifest.violations) {
            let lines = u32::try_from(text.lines().count()).expect("few") + 1;
            prop_assert!((1..=lines).contains(&violation.location.line), "{violation} in {text}");
        }
    }
}
