//! Requests through a small world.

use super::{Outcome, Request, explain};
use crate::testing::{CLASS, TestWorld, certificate};
use portolan_model::NamespacedName;

const OBJECTS: &str = "
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: g, namespace: ns}
spec:
  gatewayClassName: portolan
  listeners:
  - {name: http, port: 80, protocol: HTTP}
  - {name: alt, port: 8080, protocol: HTTP}
  - {name: https, port: 443, protocol: HTTPS, hostname: a.test, tls: {certificateRefs: [{name: cert}]}}
  - {name: wild, port: 443, protocol: HTTPS, hostname: '*.b.test', tls: {certificateRefs: [{name: cert}]}}
  - {name: held, port: 443, protocol: HTTPS, hostname: held.test, tls: {certificateRefs: [{name: none}]}}
---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: ns}
spec: {ports: [{name: http, port: 80}, {name: empty, port: 81}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: web, namespace: ns, labels: {kubernetes.io/service-name: web}}
addressType: IPv4
ports: [{name: http, port: 3000}]
endpoints: [{addresses: [10.0.0.1]}, {addresses: [10.0.0.2], conditions: {ready: false, serving: true, terminating: true}}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: r, namespace: ns}
spec:
  parentRefs: [{name: g}]
  hostnames: [a.test, '*.b.test']
  rules:
  - {matches: [{path: {value: /api/}, method: GET}], backendRefs: [{name: web, port: 80}, {name: none, port: 80, weight: 3}]}
  - {matches: [{path: {type: Exact, value: /exact}}], backendRefs: [{name: web, port: 81}]}
  - {matches: [{path: {type: RegularExpression, value: '/v[0-9]+/.*'}}], backendRefs: [{name: web, port: 80}]}
  - {matches: [{path: {value: /head}, headers: [{name: X-A, value: 'a,b'}]}], backendRefs: [{name: web, port: 80}]}
  - {matches: [{path: {value: /query}, queryParams: [{name: q, value: '1'}]}], backendRefs: [{name: web, port: 80}]}
  - matches: [{path: {value: /cors}, method: PUT}]
    filters: [{type: CORS, cors: {allowOrigins: ['*']}}]
    backendRefs: [{name: web, port: 80}]
  - matches: [{path: {value: /strip}}]
    filters: [{type: URLRewrite, urlRewrite: {hostname: in.test, path: {type: ReplacePrefixMatch, replacePrefixMatch: /}}}]
    backendRefs: [{name: web, port: 80}]
  - matches: [{path: {value: /go}}]
    filters: [{type: RequestRedirect, requestRedirect: {path: {type: ReplacePrefixMatch, replacePrefixMatch: /new}}}]
  - matches: [{path: {value: /secure}}]
    filters: [{type: RequestRedirect, requestRedirect: {scheme: https, statusCode: 301}}]
  - matches: [{path: {value: /else}}]
    filters: [{type: RequestRedirect, requestRedirect: {hostname: c.test, port: 8443, path: {type: ReplaceFullPath, replaceFullPath: '/x?y=1'}}}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: GRPCRoute
metadata: {name: grpc, namespace: ns}
spec:
  parentRefs: [{name: g, sectionName: http}]
  hostnames: [grpc.test]
  rules: [{matches: [{method: {service: s.S, method: M}}], backendRefs: [{name: web, port: 80}]}]
---
";

fn world() -> TestWorld {
    TestWorld::read(&format!("{CLASS}{OBJECTS}{}", certificate("ns", "cert", &["a.test", "*.b.test"]))).unwrap()
}

/// `GET http://host[:port]/path`, the port being the listener's too.
fn request(line: &str, headers: &[(&str, &str)]) -> Request {
    let (method, url) = line.split_once(' ').unwrap();
    let (scheme, rest) = url.split_once("://").unwrap();
    let (authority, path) = rest.split_at(rest.find('/').unwrap());
    let tls = scheme == "https";
    let (host, port) = authority.split_once(':').unwrap_or((authority, if tls { "443" } else { "80" }));
    Request {
        gateway: NamespacedName::new("ns", "g"),
        tls,
        sni: tls.then(|| host.into()),
        port: port.parse().unwrap(),
        method: method.into(),
        authority: authority.into(),
        path: path.into(),
        headers: headers.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect(),
    }
}

fn shown(request: &Request) -> String {
    let explanation = explain(&world(), request);
    let route =
        explanation.route.map(|it| format!("{}/{}/{} ", it.route.name.name, it.rule, it.matched)).unwrap_or_default();
    assert!(!explanation.steps.is_empty(), "every answer has a reason");
    let outcome = match explanation.outcome {
        Outcome::NotListening => "not listening".into(),
        Outcome::Closed => "closed".into(),
        Outcome::Respond { status, grpc_status: None } => status.to_string(),
        Outcome::Respond { status, grpc_status: Some(grpc) } => format!("{status} grpc {grpc}"),
        Outcome::Redirect { status, location } => format!("{status} {location}"),
        Outcome::Forward(choices) => {
            let choices = choices.iter().map(|it| match &it.cluster {
                Some(_) => format!("{} to [{}] as {}{}", it.weight, it.endpoints.join(" "), it.authority, it.path),
                None => format!("{} to 500", it.weight),
            });
            choices.collect::<Vec<_>>().join(", ")
        }
    };
    format!("{route}{outcome}")
}

#[test]
fn requests_meet_what_the_objects_say() {
    let one = "to [10.0.0.1:3000] as";
    for (line, expected) in [
        ("GET http://a.test:81/", "not listening".into()),
        ("GET http://a.test:443/", "closed".into()),
        ("GET http://A.test/api/x?y", format!("r/0/0 1 {one} A.test/api/x?y, 3 to 500")),
        ("GET http://a.test/api", format!("r/0/0 1 {one} a.test/api, 3 to 500")),
        ("GET http://a.test/x/..//api", format!("r/0/0 1 {one} a.test/api, 3 to 500")),
        ("GET http://a.test/x%2fapi", "307 /x/api".into()),
        ("GET http://a.test/api#f", "400".into()),
        ("GET http://a.test/api/%00", "400".into()),
        ("GET http://a.test/x%2f%00", "400".into()),
        ("GET http://a.test/api?%00", format!("r/0/0 1 {one} a.test/api?%00, 3 to 500")),
        ("GET http://a.test/apix", "404".into()),
        ("POST http://a.test/api", "404".into()),
        ("GET http://a.test/exact", "r/1/0 1 to [] as a.test/exact".into()),
        ("GET http://a.test/exact/", "404".into()),
        ("GET http://a.test/v12/x", format!("r/2/0 1 {one} a.test/v12/x")),
        ("GET http://a.test/x/v12/x", "404".into()),
        ("GET http://x.y.b.test/exact", "r/1/0 1 to [] as x.y.b.test/exact".into()),
        ("GET http://b.test/exact", "404".into()),
        ("GET http://a.test/query?p=2&q=1", format!("r/4/0 1 {one} a.test/query?p=2&q=1")),
        ("GET http://a.test/query?q=2&q=1", "404".into()),
        ("GET http://a.test/query?Q=1", "404".into()),
        ("GET http://a.test/strip/x?y", format!("r/6/0 1 {one} in.test/x?y")),
        ("GET http://a.test/strip", format!("r/6/0 1 {one} in.test/")),
        ("GET http://a.test/go/x?y", "r/7/0 302 http://a.test/new/x?y".into()),
        ("GET http://a.test:8080/go", "r/7/0 302 http://a.test:8080/new".into()),
        ("GET http://a.test/secure", "r/8/0 301 https://a.test/secure".into()),
        ("GET http://a.test:8080/secure", "r/8/0 301 https://a.test/secure".into()),
        ("GET http://x.b.test:8080/secure", "r/8/0 301 https://x.b.test:443/secure".into()),
        ("GET https://a.test/secure", "r/8/0 301 https://a.test/secure".into()),
        ("GET http://a.test/else?z", "r/9/0 302 http://c.test:8443/x?y=1".into()),
        ("GET https://a.test/api", format!("r/0/0 1 {one} a.test/api, 3 to 500")),
        ("GET https://held.test/api", "closed".into()),
        ("GET https://unknown.test/api", "closed".into()),
    ] {
        assert_eq!(shown(&request(line, &[])), expected, "{line}");
    }
}

#[test]
fn headers_decide_too() {
    let one = "1 to [10.0.0.1:3000] as a.test";
    for (line, headers, expected) in [
        ("GET http://a.test/head", vec![("x-a", "a,b")], format!("r/3/0 {one}/head")),
        ("GET http://a.test/head", vec![("X-A", "z"), ("x-a", "a,b")], format!("r/3/0 {one}/head")),
        ("GET http://a.test/head", vec![("X-A", "a"), ("x-a", "b")], "404".into()),
        ("GET http://a.test/head", vec![("x-a", "a")], "404".into()),
        ("PUT http://a.test/cors", vec![("origin", "https://x.test")], format!("r/5/0 {one}/cors")),
        (
            "OPTIONS http://a.test/cors",
            vec![("origin", "https://x.test"), ("access-control-request-method", "PUT")],
            "r/5/0 200".into(),
        ),
        (
            "OPTIONS http://a.test/cors",
            vec![("origin", "https://x.test"), ("access-control-request-method", "GET")],
            "404".into(),
        ),
        (
            "POST http://grpc.test/s.S/M",
            vec![("content-type", "application/grpc+proto")],
            "grpc/0/0 1 to [10.0.0.1:3000] as grpc.test/s.S/M".into(),
        ),
        ("POST http://grpc.test/s.S/M", vec![("content-type", "application/grpcx")], "404".into()),
        ("POST http://grpc.test/s.S/N", vec![("content-type", "application/grpc")], "404 grpc 12".into()),
    ] {
        assert_eq!(shown(&request(line, &headers)), expected, "{line} {headers:?}");
    }
}

#[test]
fn the_wrong_connection_is_told() {
    let misdirected = |sni: &str, host: &str| {
        shown(&Request { sni: Some(sni.into()), ..request(&format!("GET https://{host}/api"), &[]) })
    };
    assert_eq!(misdirected("a.test", "x.b.test"), "421");
    assert_eq!(misdirected("x.b.test", "a.test"), "421");
    assert_eq!(misdirected("a.test", "unknown.test"), "404");
    assert!(misdirected("x.b.test", "y.b.test").starts_with("r/0/0"));
}

#[test]
fn what_envoy_refused_answers_500() {
    let mut world = world();
    let route = portolan_model::ObjectKey::new(portolan_model::Kind::HTTPRoute, NamespacedName::new("ns", "r"));
    let place = crate::RefusedPlace::Match { rule: 0, matched: 0 };
    world.refusals.insert(route.clone(), vec![crate::Refusal { place, text: "no".into() }]);
    let explanation = explain(&world, &request("GET http://a.test/api", &[]));
    assert_eq!(explanation.outcome, Outcome::Respond { status: 500, grpc_status: None });
    let Some(portolan_model::ir::Status::Route { parents }) = crate::status::route(&world, &route) else { panic!() };
    let partial =
        parents[0].conditions.iter().find(|it| it.kind == portolan_model::ConditionType::PartiallyInvalid).unwrap();
    assert!(partial.message.contains("Envoy refused spec.rules[0].matches[0]: no"), "{}", partial.message);
    assert!(parents[0].conditions[0].status, "Accepted does not depend on a proxy");

    // "maxLength: 32768" of a condition's message: many long texts are cut short.
    let place = crate::RefusedPlace::Match { rule: 0, matched: 0 };
    let refusal = crate::Refusal { place, text: "x".repeat(4096).into() };
    world.refusals.insert(route.clone(), vec![refusal; 32]);
    let Some(portolan_model::ir::Status::Route { parents }) = crate::status::route(&world, &route) else { panic!() };
    let longest = parents[0].conditions.iter().map(|condition| condition.message.len()).max().unwrap();
    assert!((20_000..32_768).contains(&longest), "{longest}");
    let last = parents[0].conditions.last().unwrap();
    assert!(last.message.ends_with("; and 26 more"));

    // A hostname, and a whole table.
    let answers_500 = |world: &TestWorld| {
        explain(world, &request("GET http://a.test/api", &[])).outcome
            == Outcome::Respond { status: 500, grpc_status: None }
    };
    let gateway = request("GET http://a.test/api", &[]).gateway;
    let table = |port| portolan_model::ir::TableId { gateway: gateway.clone(), port, server: None };
    for (port, refused) in [(80, true), (81, false)] {
        let place = crate::RefusedPlace::Host(table(port), "a.test".into());
        world.refusals.insert(route.clone(), vec![crate::Refusal { place, text: "no".into() }]);
        assert_eq!(answers_500(&world), refused, "{port}");
    }
    world.refusals.clear();
    assert!(!answers_500(&world));
    let refusal = crate::PortRefusal { port: 80, table: Some(table(80)), text: "no".into() };
    world.refused_ports.insert(gateway.clone(), vec![refusal]);
    assert!(answers_500(&world));
}
