//! Hosts of route tables: isolation, fall-through, precedence, misdirected requests; sockets and chains.

use portolan_model::Name;
use portolan_model::ir::{HostPlan, TableId};

use crate::World;
use crate::testing::{self, CLASS, TestWorld, certificate, gateway_name as name};

const SERVICE: &str = "
apiVersion: v1
kind: Service
metadata: {name: web, namespace: ns}
spec: {ports: [{port: 80}]}
---
";

fn gateway(listeners: &str) -> String {
    testing::gateway(&format!("  listeners: {listeners}"))
}

fn route(name: &str, section: &str, hostnames: &str, rules: &str) -> String {
    format!(
        "
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {{name: {name}, namespace: ns}}
spec:
  parentRefs: [{{name: g{section}}}]
  hostnames: {hostnames}
  rules: {rules}
---
"
    )
}

fn world(manifests: &str) -> TestWorld {
    TestWorld::read(&format!("{CLASS}{SERVICE}{manifests}")).unwrap()
}

/// `table host: route/rule/match via hostname, …; status`
fn shown(world: &TestWorld) -> Vec<String> {
    let show = |plan: &HostPlan| {
        let routes: Vec<String> = plan
            .routes
            .iter()
            .map(|it| {
                let via = if it.via == plan.host { String::new() } else { format!(" via {}", it.via) };
                format!("{}/{}/{}{via}", it.route.name.name, it.rule.index, it.matched)
            })
            .collect();
        let names = if plan.domains.is_empty() { plan.host.to_string() } else { plan.domains.join(" ") };
        format!("{} {names}: {}; {}", plan.table.resource_name(), routes.join(", "), plan.otherwise)
    };
    world.host_plans(&name()).iter().map(show).collect()
}

const EVERYTHING: &str = "[{backendRefs: [{name: web, port: 80}]}]";

/// GatewayHTTPListenerIsolation of the suite
#[test]
fn a_request_belongs_to_the_most_specific_listener() {
    let listeners = "
  - {name: all, port: 80, protocol: HTTP}
  - {name: wild, port: 80, protocol: HTTP, hostname: '*.example.com'}
  - {name: foo, port: 80, protocol: HTTP, hostname: '*.foo.example.com'}
  - {name: abc, port: 80, protocol: HTTP, hostname: abc.foo.example.com}";
    let hosts = "['*.com', '*.foo.example.com', abc.foo.example.com, bar.example.com, bar.com]";
    let objects: String =
        ["all", "wild", "foo", "abc"].map(|it| route(it, &format!(", sectionName: {it}"), hosts, EVERYTHING)).concat();
    assert_eq!(
        shown(&world(&format!("{}{objects}", gateway(listeners)))),
        [
            "http/80 *: ; 404",
            "http/80 *.com: all/0/0; 404",
            "http/80 *.example.com: wild/0/0; 404",
            "http/80 *.foo.example.com: foo/0/0; 404",
            "http/80 abc.foo.example.com: abc/0/0; 404",
            "http/80 bar.com: all/0/0; 404",
            "http/80 bar.example.com: wild/0/0; 404",
        ]
    );
}

#[test]
fn rules_of_wildcards_follow_within_one_listener() {
    let objects = [
        gateway(
            "[{name: all, port: 80, protocol: HTTP}, {name: own, port: 80, protocol: HTTP, hostname: '*.own.test'}]",
        ),
        route("exact", "", "[a.b.test]", "[{matches: [{path: {value: /x}}], backendRefs: [{name: web, port: 80}]}]"),
        route("near", "", "['*.b.test']", EVERYTHING),
        route("far", "", "['*.test']", EVERYTHING),
        route("any", ", sectionName: all", "[]", EVERYTHING),
        route("both", "", "[a.b.test, '*.test']", EVERYTHING),
        route("isolated", "", "[a.own.test]", EVERYTHING),
    ]
    .concat();
    assert_eq!(
        shown(&world(&objects)),
        [
            "http/80 *: any/0/0; 404",
            // `*.test` meets the listener `own` too, under that listener's narrower hostname.
            "http/80 *.b.test: near/0/0, both/0/0 via *.test, far/0/0 via *.test, any/0/0 via *; 404",
            "http/80 *.own.test: both/0/0, far/0/0; 404",
            "http/80 *.test: both/0/0, far/0/0, any/0/0 via *; 404",
            "http/80 a.b.test: exact/0/0, both/0/0, near/0/0 via *.b.test, far/0/0 via *.test, any/0/0 via *; 404",
            "http/80 a.own.test: isolated/0/0, both/0/0 via *.own.test, far/0/0 via *.own.test; 404",
        ]
    );
}

#[test]
fn precedence_is_decided_per_match_across_routes() {
    let rule = |matches: &str| format!("{{matches: [{matches}], backendRefs: [{{name: web, port: 80}}]}}");
    let rules = [
        rule("{path: {value: /}}, {path: {type: Exact, value: /long/path}}"),
        rule("{path: {value: /long}}"),
        rule("{path: {value: /long}, method: GET}"),
        rule("{path: {value: /long}, headers: [{name: a, value: b}]}"),
        rule("{path: {value: /long}, headers: [{name: a, value: b}, {name: c, value: d}]}"),
        rule("{path: {value: /long}, queryParams: [{name: a, value: b}]}"),
        rule("{path: {type: RegularExpression, value: '/l.*'}}"),
    ];
    let route_a = route("a", "", "[x.test]", &format!("[{}]", rules.join(", ")));
    let old = route(
        "z-old",
        "",
        "[x.test]",
        "[{matches: [{path: {value: /long}}, {path: {value: /}}], backendRefs: [{name: web, port: 80}]}]",
    )
    .replace("namespace: ns}", "namespace: ns, creationTimestamp: '2001-01-01T00:00:00Z'}");
    let young = route_a.replace("namespace: ns}", "namespace: ns, creationTimestamp: '2020-01-01T00:00:00Z'}");
    let objects = [gateway("[{name: http, port: 80, protocol: HTTP}]"), young, old].concat();
    assert_eq!(
        shown(&world(&objects))[1],
        "http/80 x.test: a/0/1, a/6/0, a/2/0, a/4/0, a/3/0, a/5/0, z-old/0/0, a/1/0, z-old/0/1, a/0/0; 404"
    );
}

#[test]
fn grpc_methods_are_ranked_by_service_then_method() {
    let grpc = "
apiVersion: gateway.networking.k8s.io/v1
kind: GRPCRoute
metadata: {name: r, namespace: ns}
spec:
  parentRefs: [{name: g}]
  rules:
  - {backendRefs: [{name: web, port: 80}]}
  - {matches: [{method: {method: LongMethodName}}], backendRefs: [{name: web, port: 80}]}
  - {matches: [{method: {service: a.Service}}], backendRefs: [{name: web, port: 80}]}
  - {matches: [{method: {service: a.LongerService}}, {method: {service: a.Service, method: M}}], backendRefs: [{name: web, port: 80}]}
---
";
    let objects = [gateway("[{name: http, port: 80, protocol: HTTP}]"), grpc.into()].concat();
    assert_eq!(shown(&world(&objects)), ["http/80 *: r/3/1, r/3/0, r/2/0, r/1/0, r/0/0; 404"]);
}

const HTTPS: &str = "
  - {name: default, port: 443, protocol: HTTPS, tls: {certificateRefs: [{name: cert}]}}
  - {name: second, port: 443, protocol: HTTPS, hostname: second.org, tls: {certificateRefs: [{name: cert}]}}
  - {name: wild, port: 443, protocol: HTTPS, hostname: '*.wildcard.org', tls: {certificateRefs: [{name: cert}]}}
  - {name: fourth, port: 443, protocol: HTTPS, hostname: fourth.wildcard.org, tls: {certificateRefs: [{name: cert}]}}";

fn https() -> String {
    let routes: String = ["default", "second", "wild", "fourth"]
        .map(|it| route(it, &format!(", sectionName: {it}"), "[]", EVERYTHING))
        .concat();
    [gateway(HTTPS), routes, certificate("ns", "cert", &["a.test"])].concat()
}

/// HTTPRouteHTTPSListenerDetectMisdirectedRequests of the suite
#[test]
fn an_https_table_answers_421_for_other_listeners() {
    assert_eq!(
        shown(&world(&https())),
        [
            "https/443/* *: default/0/0; 404",
            "https/443/* *.wildcard.org fourth.wildcard.org second.org: ; 421",
            "https/443/*.wildcard.org *.wildcard.org: wild/0/0; 404",
            "https/443/*.wildcard.org * fourth.wildcard.org: ; 421",
            "https/443/fourth.wildcard.org fourth.wildcard.org: fourth/0/0; 404",
            "https/443/fourth.wildcard.org *: ; 421",
            "https/443/second.org *: ; 421",
            "https/443/second.org second.org: second/0/0; 404",
        ]
    );
    let without_default: String = https().replace("name: default, port: 443", "name: default, port: 8443");
    let hosts = shown(&world(&without_default));
    assert!(hosts.contains(&"https/443/second.org *.wildcard.org fourth.wildcard.org: ; 421".to_string()), "{hosts:?}");
    assert!(!hosts.iter().any(|host| host.starts_with("https/443/second.org *:")), "{hosts:?}");
}

/// Envoy refuses a table in which two virtual hosts have the same domain.
#[test]
fn https_listeners_of_one_port_cost_two_hosts_each_and_no_name_twice() {
    let count = |listeners: usize, catch_all: bool| {
        let listener = |index: usize| {
            let host = if catch_all && index == 0 { String::new() } else { format!("hostname: h{index}.test, ") };
            format!("{{name: l{index}, port: 443, protocol: HTTPS, {host}tls: {{certificateRefs: [{{name: cert}}]}}}}")
        };
        let all: Vec<String> = (0..listeners).map(listener).collect();
        let objects = [
            gateway(&format!("[{}]", all.join(", "))),
            route("r", "", "[]", EVERYTHING),
            route("own", "", "[h1.test, '*.test']", EVERYTHING),
            certificate("ns", "cert", &["a.test"]),
        ];
        let world = world(&objects.concat());
        let plans = world.host_plans(&name());
        let mut names = std::collections::BTreeSet::new();
        for plan in &plans {
            let domains = if plan.domains.is_empty() { vec![plan.host.clone()] } else { plan.domains.clone() };
            for domain in domains {
                assert!(names.insert((plan.table.clone(), domain.clone())), "{domain} twice in {:?}", plan.table);
            }
        }
        (super::listener_hosts(&world.gateway_view(&name()).unwrap()).len(), plans.len())
    };
    assert_eq!(count(20, false), (40, 40));
    assert_eq!(count(60, false), (120, 120));
    // `*.test` besides, under the listener without hostname.
    assert_eq!(count(60, true), (120, 121));
}

#[test]
fn hosts_that_are_not_there_have_no_plan() {
    let world = world(&https());
    let table = |server: Option<&str>, port| TableId { gateway: name(), port, server: server.map(Into::into) };
    let plan = |table: TableId, host: &str| super::plan(&world, &table, &host.into());
    assert!(plan(table(Some("second.org"), 443), "second.org").is_some());
    assert!(plan(table(Some("second.org"), 443), "other.org").is_none());
    assert!(plan(table(Some("second.org"), 443), "*.wildcard.org").is_none(), "`*` answers 421 for it");
    let misdirected = |server| plan(table(Some(server), 443), super::MISDIRECTED);
    assert_eq!(misdirected("second.org").unwrap().domains, [Name::from("*")]);
    assert!(misdirected("none.org").is_none());
    assert!(plan(table(Some("none.org"), 443), "none.org").is_none());
    assert!(plan(table(None, 443), "second.org").is_none());
    assert!(plan(table(Some("second.org"), 444), "second.org").is_none());
}

#[test]
fn sockets_have_a_chain_per_listener() {
    let objects = [https(), certificate("ns", "other", &["a.test"])]
        .concat()
        .replace("name: fourth, port: 443", "name: fourth, port: 8443")
        .replace(
            "hostname: second.org, tls: {certificateRefs: [{name: cert}]}",
            "hostname: second.org, tls: {certificateRefs: [{name: far, namespace: x}]}",
        );
    let mut world = world(&objects);
    let shown = |world: &TestWorld| -> Vec<String> {
        let plans = crate::listener::plans(world, &name());
        let chains = plans.iter().flat_map(|plan| plan.chains.iter().map(move |chain| (plan, chain)));
        chains
            .map(|(plan, chain)| {
                let secrets: Vec<_> = chain.certificates.iter().map(ToString::to_string).collect();
                format!(
                    "{} {} [{}] {}",
                    plan.port,
                    chain.table.resource_name(),
                    chain.server_names.join(" "),
                    secrets.join(" ")
                )
            })
            .collect()
    };
    assert_eq!(
        shown(&world),
        [
            "443 https/443/* [] ns/cert",
            "443 https/443/*.wildcard.org [*.wildcard.org] ns/cert",
            "8443 https/8443/fourth.wildcard.org [fourth.wildcard.org] ns/cert",
        ]
    );
    world.bindings.insert(name(), None);
    assert!(shown(&world).is_empty(), "not before it is decided where");
}

#[test]
fn many_certificates_get_a_chain_each_by_their_names() {
    let certificates: Vec<String> = (0..17)
        .map(|index| {
            let own = format!("h{index}.a.test");
            let names: &[&str] = match index {
                0 => &["h0.a.test", "foreign.test"],
                1 => &["h1.a.test", "h0.a.test", "taken.a.test"],
                2 => &["*.test"],
                _ => &[&own],
            };
            certificate("ns", &format!("c{index}"), names)
        })
        .collect();
    let refs: Vec<String> = (0..17).map(|index| format!("{{name: c{index}}}")).collect();
    let listeners = format!(
        "
  - {{name: many, port: 443, protocol: HTTPS, hostname: '*.a.test', tls: {{certificateRefs: [{}]}}}}
  - {{name: taken, port: 443, protocol: HTTPS, hostname: taken.a.test, tls: {{certificateRefs: [{{name: c0}}]}}}}",
        refs.join(", ")
    );
    let world = world(&format!("{}{}", gateway(&listeners), certificates.concat()));
    let plans = crate::listener::plans(&world, &name());
    let chains: Vec<(String, String)> = plans[0]
        .chains
        .iter()
        .map(|chain| (chain.server_names.join(" "), chain.certificates.iter().map(|it| it.name.to_string()).collect()))
        .collect();
    assert_eq!(
        chains[..4],
        [
            ("h0.a.test".to_string(), "c0".to_string()),
            ("h1.a.test".into(), "c1".into()),
            ("*.a.test".into(), "c2".into()),
            ("h3.a.test".into(), "c3".into()),
        ]
    );
    assert_eq!(chains.last().unwrap(), &("taken.a.test".to_string(), "c0".to_string()));
    assert_eq!(chains.len(), 18);
}
