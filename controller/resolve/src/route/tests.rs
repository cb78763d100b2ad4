//! Routes: attachment, rules, filters, backends and their conditions.

use std::sync::Arc;

use portolan_model::ir::{Forward, PathRewrite, PathSpec, ResolvedRule, RouteView, RuleAction, WeightedTarget};
use portolan_model::{Kind, NamespacedName, ObjectKey};

use crate::World;
use crate::testing::{CLASS, TestWorld};

const BASE: &str = "
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: g, namespace: ns}
spec:
  gatewayClassName: portolan
  listeners:
  - {name: http, port: 80, protocol: HTTP, allowedRoutes: {namespaces: {from: Same}}}
  - {name: wild, port: 8080, protocol: HTTP, hostname: '*.example.com', allowedRoutes: {namespaces: {from: All}}}
  - {name: grpc-only, port: 9090, protocol: HTTP, allowedRoutes: {kinds: [{kind: GRPCRoute}]}}
  - {name: tcp, port: 9000, protocol: TCP}
  - {name: lost, port: 80, protocol: TCP}
---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: ns}
spec:
  ports:
  - {name: http, port: 80}
  - {name: h2c, port: 81, appProtocol: kubernetes.io/h2c}
  - {name: ws, port: 82, appProtocol: kubernetes.io/ws}
  - {name: tls, port: 83, appProtocol: https}
  - {name: udp, port: 84, protocol: UDP}
  - {name: secured, port: 85}
---
apiVersion: v1
kind: Service
metadata: {name: far, namespace: other}
spec: {ports: [{port: 80}]}
---
apiVersion: gateway.networking.k8s.io/v1
kind: BackendTLSPolicy
metadata: {name: policy, namespace: ns}
spec:
  targetRefs: [{group: '', kind: Service, name: web, sectionName: secured}]
  validation: {hostname: web.test, wellKnownCACertificates: System}
---
";

const GRANT: &str = "
apiVersion: gateway.networking.k8s.io/v1
kind: ReferenceGrant
metadata: {name: grant, namespace: other}
spec: {from: [{group: gateway.networking.k8s.io, kind: HTTPRoute, namespace: ns}], to: [{group: '', kind: Service}]}
---
";

fn manifest(kind: &str, namespace: &str, spec: &str) -> String {
    format!(
        "
apiVersion: gateway.networking.k8s.io/v1
kind: {kind}
metadata: {{name: r, namespace: {namespace}}}
spec:
{spec}
---
"
    )
}

fn resolve(kind: Kind, namespace: &str, manifests: &str) -> Arc<RouteView> {
    let world = TestWorld::read(&format!("{CLASS}{BASE}{manifests}")).unwrap();
    world.route_view(&ObjectKey::new(kind, NamespacedName::new(namespace, "r"))).expect("the route is read")
}

/// An HTTPRoute with these rules at listener `http`.
fn http(rules: &str) -> Arc<RouteView> {
    resolve(
        Kind::HTTPRoute,
        "ns",
        &manifest("HTTPRoute", "ns", &format!("  parentRefs: [{{name: g, sectionName: http}}]\n{rules}")),
    )
}

fn conditions(view: &RouteView) -> Vec<String> {
    let show = |condition: &portolan_model::Condition| {
        let status = if condition.status { "True" } else { "False" };
        format!("{}={status}/{}", condition.kind, condition.reason)
    };
    view.parents.iter().flat_map(|parent| &parent.conditions).map(show).collect()
}

fn message(view: &RouteView, kind: &str) -> String {
    let all = view.parents.iter().flat_map(|parent| &parent.conditions);
    all.filter(|condition| condition.kind.as_str() == kind).map(|condition| condition.message.to_string()).collect()
}

const ACCEPTED: [&str; 2] = ["Accepted=True/Accepted", "ResolvedRefs=True/ResolvedRefs"];

fn forward(rule: &ResolvedRule) -> &Forward {
    match &rule.action {
        RuleAction::Forward(forward) => forward,
        other => panic!("not forwarded: {other:?}"),
    }
}

#[test]
fn attachment_narrows_down_by_name_kind_namespace_and_hostname() {
    let rules = "  rules: [{backendRefs: [{name: web, port: 80}]}]";
    for (kind, namespace, parent, hostnames, expected) in [
        ("HTTPRoute", "ns", "{name: g, sectionName: http}", "[]", Ok(vec![("http", vec!["*"])])),
        ("HTTPRoute", "ns", "{name: g, port: 8080}", "[]", Ok(vec![("wild", vec!["*.example.com"])])),
        (
            "HTTPRoute",
            "ns",
            "{name: g}",
            "[a.example.com]",
            Ok(vec![("http", vec!["a.example.com"]), ("wild", vec!["a.example.com"])]),
        ),
        (
            "HTTPRoute",
            "ns",
            "{name: g, sectionName: wild}",
            "['*.com', a.b.example.com, example.com, other.org]",
            Ok(vec![("wild", vec!["*.example.com", "a.b.example.com"])]),
        ),
        ("HTTPRoute", "ns", "{name: g, sectionName: wild}", "[example.com]", Err("NoMatchingListenerHostname")),
        ("HTTPRoute", "ns", "{name: g, sectionName: none}", "[]", Err("NoMatchingParent")),
        ("HTTPRoute", "ns", "{name: g, port: 1}", "[]", Err("NoMatchingParent")),
        ("HTTPRoute", "ns", "{name: g, sectionName: http, port: 8080}", "[]", Err("NoMatchingParent")),
        ("HTTPRoute", "ns", "{name: g, sectionName: grpc-only}", "[]", Err("NotAllowedByListeners")),
        ("HTTPRoute", "ns", "{name: g, sectionName: tcp}", "[]", Err("NotAllowedByListeners")),
        ("HTTPRoute", "other", "{name: g, namespace: ns, sectionName: http}", "[]", Err("NotAllowedByListeners")),
        ("HTTPRoute", "other", "{name: g, namespace: ns}", "[]", Ok(vec![("wild", vec!["*.example.com"])])),
        ("GRPCRoute", "ns", "{name: g, sectionName: grpc-only}", "[a.test]", Ok(vec![("grpc-only", vec!["a.test"])])),
    ] {
        let spec = format!("  parentRefs: [{parent}]\n  hostnames: {hostnames}\n{rules}");
        let kind = if kind == "HTTPRoute" { Kind::HTTPRoute } else { Kind::GRPCRoute };
        let view = resolve(kind, namespace, &manifest(kind.as_str(), namespace, &spec));
        let [outcome] = &view.parents[..] else { panic!("{parent}: one outcome") };
        let found: Vec<(&str, Vec<&str>)> = outcome
            .attachments
            .iter()
            .map(|it| (&*it.listener.name, it.hostnames.iter().map(|host| &**host).collect()))
            .collect();
        match expected {
            Ok(expected) => {
                assert!(outcome.accepted(), "{parent} {hostnames}");
                assert_eq!(found, expected, "{parent} {hostnames}");
            }
            Err(reason) => {
                assert!(found.is_empty());
                assert_eq!(conditions(&view)[0], format!("Accepted=False/{reason}"), "{parent} {hostnames}");
                let resolved = if namespace == "ns" {
                    "ResolvedRefs=True/ResolvedRefs"
                } else {
                    "ResolvedRefs=False/BackendNotFound"
                };
                assert_eq!(conditions(&view)[1], resolved, "{parent}");
            }
        }
    }
}

#[test]
fn parents_of_others_get_no_status() {
    let spec = "  parentRefs: [{name: nobody}, {group: '', kind: Service, name: web}, {name: g, sectionName: http}]\n  rules: [{backendRefs: [{name: web, port: 80}]}]";
    let view = resolve(Kind::HTTPRoute, "ns", &manifest("HTTPRoute", "ns", spec));
    assert_eq!(view.parents.iter().map(|parent| parent.index).collect::<Vec<_>>(), [2]);
}

#[test]
fn layer_4_routes_are_not_supported_yet() {
    let spec = "  parentRefs: [{name: g, sectionName: tcp}]\n  rules: [{backendRefs: [{name: none, port: 80}]}]";
    let view = resolve(Kind::TCPRoute, "ns", &manifest("TCPRoute", "ns", spec));
    assert_eq!(conditions(&view), ["Accepted=False/UnsupportedValue", "ResolvedRefs=False/BackendNotFound"]);
    assert!(message(&view, "Accepted").contains("TCPRoute is not supported yet"));
    assert!(view.parents[0].attachments.is_empty() && view.rules.is_empty());
}

#[test]
fn references_resolve_or_say_why_not() {
    for (backend, grant, reason) in [
        ("{name: web, port: 80}", "", "True/ResolvedRefs"),
        ("{name: none, port: 80}", "", "False/BackendNotFound"),
        ("{name: web, port: 99}", "", "False/BackendNotFound"),
        ("{name: web}", "", "False/BackendNotFound"),
        ("{kind: Nope, name: web, port: 80}", "", "False/InvalidKind"),
        ("{group: example.com, kind: Service, name: web, port: 80}", "", "False/InvalidKind"),
        ("{name: far, namespace: other, port: 80}", "", "False/RefNotPermitted"),
        ("{name: none, namespace: other, port: 80}", "", "False/RefNotPermitted"),
        ("{name: far, namespace: other, port: 80}", GRANT, "True/ResolvedRefs"),
        ("{name: none, namespace: other, port: 80}", GRANT, "False/BackendNotFound"),
        ("{name: web, port: 83}", "", "False/UnsupportedProtocol"),
        ("{name: web, port: 84}", "", "False/UnsupportedProtocol"),
        ("{name: web, port: 85}", "", "False/UnsupportedProtocol"),
        ("{group: portolan.dev, kind: Backend, name: none}", "", "False/BackendNotFound"),
    ] {
        let spec = format!("  parentRefs: [{{name: g, sectionName: http}}]\n  rules: [{{backendRefs: [{backend}]}}]");
        let view = resolve(Kind::HTTPRoute, "ns", &format!("{grant}{}", manifest("HTTPRoute", "ns", &spec)));
        assert_eq!(
            conditions(&view),
            ["Accepted=True/Accepted".to_string(), format!("ResolvedRefs={reason}")],
            "{backend}"
        );
        let is_500 = view.rules[0].action == RuleAction::Respond(500);
        assert_eq!(is_500, reason.starts_with("False"), "{backend}");
    }
}

#[test]
fn weights_keep_the_share_of_invalid_backends() {
    let view = http(
        "  rules: [{backendRefs: [{name: web, port: 80, weight: 3}, {name: none, port: 80, weight: 1}, {name: web, port: 81, weight: 0}]}]",
    );
    let shares: Vec<_> = forward(&view.rules[0])
        .backends
        .iter()
        .map(|it| (it.weight, it.index, matches!(it.target, WeightedTarget::Invalid)))
        .collect();
    assert_eq!(shares, [(3, 0, false), (1, 1, true)]);
    assert_eq!(conditions(&view)[1], "ResolvedRefs=False/BackendNotFound");
    for rules in [
        "  rules: [{backendRefs: [{name: web, port: 80, weight: 0}]}]",
        "  rules: [{backendRefs: []}]",
        "  rules: [{matches: [{path: {value: /a}}]}]",
        "  rules: [{backendRefs: [{name: web, port: 80, weight: 0}, {name: none, port: 80}]}]",
    ] {
        assert_eq!(http(rules).rules[0].action, RuleAction::Respond(500), "{rules}");
    }
    assert_eq!(conditions(&http("  rules: [{backendRefs: []}]")), ACCEPTED);
}

#[test]
fn protocols_follow_service_and_kind_of_route() {
    let clusters = |view: &RouteView| {
        view.clusters().iter().map(portolan_model::ir::ClusterKey::resource_name).collect::<Vec<_>>()
    };
    let view = http(
        "  rules: [{backendRefs: [{name: web, port: 80}]}, {backendRefs: [{name: web, port: 81}]}, {backendRefs: [{name: web, port: 82}]}]",
    );
    assert_eq!(clusters(&view), ["service/ns/web/80/http1", "service/ns/web/81/http2", "service/ns/web/82/http1"]);
    assert_eq!(view.rules.iter().map(|rule| forward(rule).websocket).collect::<Vec<_>>(), [true, false, true]);
    let spec = "  parentRefs: [{name: g, sectionName: http}]\n  rules: [{backendRefs: [{name: web, port: 80}]}, {backendRefs: [{name: web, port: 82}]}]";
    let view = resolve(Kind::GRPCRoute, "ns", &manifest("GRPCRoute", "ns", spec));
    assert_eq!(clusters(&view), ["service/ns/web/80/http2"]);
    assert_eq!(conditions(&view)[1], "ResolvedRefs=False/UnsupportedProtocol");
}

#[test]
fn matches_are_normalised() {
    let view = http(
        "
  rules:
  - matches:
    - {path: {type: Exact, value: /a/}}
    - {path: {type: PathPrefix, value: /a/}, method: GET}
    - {path: {value: /}}
    - {path: {type: RegularExpression, value: '/v[0-9]+'}}
    - headers: [{name: X-A, value: '1'}, {name: x-a, value: '2'}]
      queryParams: [{name: Q, value: '1', type: RegularExpression}, {name: q, value: '2'}]
    backendRefs: [{name: web, port: 80}]",
    );
    let matches: Vec<_> = view.rules[0].matches.iter().map(|(_, request)| request).collect();
    assert_eq!(
        matches.iter().map(|it| it.path.clone()).collect::<Vec<_>>(),
        [
            PathSpec::Exact("/a/".into()),
            PathSpec::SegmentPrefix("/a".into()),
            PathSpec::SegmentPrefix("".into()),
            PathSpec::Regex("/v[0-9]+".into()),
            PathSpec::SegmentPrefix("".into())
        ]
    );
    assert_eq!(matches[1].method.as_deref(), Some("GET"));
    assert_eq!(matches[4].headers.iter().map(|it| &*it.name).collect::<Vec<_>>(), ["x-a"]);
    assert_eq!(matches[4].query.iter().map(|it| &*it.name).collect::<Vec<_>>(), ["Q", "q"]);
    assert!(matches.iter().all(|it| !it.grpc));
}

#[test]
fn grpc_methods_become_paths() {
    for (method, expected) in [
        ("[]", PathSpec::SegmentPrefix("".into())),
        ("[{method: {service: s.S, method: M}}]", PathSpec::Exact("/s.S/M".into())),
        ("[{method: {service: s.S}}]", PathSpec::RawPrefix("/s.S/".into())),
        ("[{method: {method: M}}]", PathSpec::Regex("/[^/]+/M".into())),
        (
            "[{method: {type: RegularExpression, service: 's|t', method: 'M.*'}}]",
            PathSpec::Regex("/(?:s|t)/(?:M.*)".into()),
        ),
        ("[{method: {type: RegularExpression, service: 's.*'}}]", PathSpec::Regex("/(?:s.*)/[^/]+".into())),
    ] {
        let spec = format!(
            "  parentRefs: [{{name: g, sectionName: http}}]\n  rules: [{{matches: {method}, backendRefs: [{{name: web, port: 80}}]}}]"
        );
        let view = resolve(Kind::GRPCRoute, "ns", &manifest("GRPCRoute", "ns", &spec));
        assert_eq!(conditions(&view), ACCEPTED, "{method}: {}", message(&view, "Accepted"));
        let (_, request) = &view.rules[0].matches[0];
        assert_eq!((&request.path, request.grpc), (&expected, true), "{method}");
    }
}

#[test]
fn a_rule_that_cannot_match_is_dropped() {
    let bad = "{path: {type: RegularExpression, value: 'a(?=b)'}}";
    let view = http(&format!(
        "  rules: [{{matches: [{{path: {{value: /ok}}}}, {bad}], backendRefs: [{{name: web, port: 80}}]}}]"
    ));
    assert_eq!(conditions(&view), ["Accepted=False/UnsupportedValue", "ResolvedRefs=True/ResolvedRefs"]);
    let text = message(&view, "Accepted");
    assert!(text.contains("spec.rules[0].matches[1].path") && text.contains("position 1"), "{text}");
    assert!(view.rules[0].matches.is_empty() && view.parents[0].attachments.is_empty());

    for bad in [
        bad,
        "{headers: [{name: a, type: RegularExpression, value: '('}]}",
        "{queryParams: [{name: a, type: RegularExpression, value: '*'}]}",
        "{path: {type: Glob, value: /a}}",
        "{headers: [{name: a, type: Glob, value: x}]}",
        "{method: BREW}",
    ] {
        let view = http(&format!(
            "  rules: [{{matches: [{bad}], backendRefs: [{{name: web, port: 80}}]}}, {{backendRefs: [{{name: web, port: 80}}]}}]"
        ));
        assert_eq!(
            conditions(&view),
            ["Accepted=True/Accepted", "ResolvedRefs=True/ResolvedRefs", "PartiallyInvalid=True/UnsupportedValue"],
            "{bad}"
        );
        assert!(message(&view, "PartiallyInvalid").starts_with("Dropped Rule"), "{bad}");
        assert!(view.rules[0].matches.is_empty() && view.rules[1].matches.len() == 1, "{bad}");
    }
}

#[test]
fn a_rule_with_a_filter_that_cannot_be_applied_answers_500() {
    let backend = "backendRefs: [{name: web, port: 80}]";
    let rewrite = "{type: URLRewrite, urlRewrite: {hostname: b.test}}";
    let redirect = "{type: RequestRedirect, requestRedirect: {scheme: https}}";
    for (rule, reason) in [
        (format!("filters: [{{type: Brew}}], {backend}"), "UnsupportedValue"),
        (
            format!("filters: [{{type: ExtensionRef, extensionRef: {{group: a.b, kind: C, name: d}}}}], {backend}"),
            "UnsupportedValue",
        ),
        (
            format!(
                "filters: [{{type: ExternalAuth, externalAuth: {{protocol: HTTP, backendRef: {{name: web, port: 80}}}}}}], {backend}"
            ),
            "UnsupportedValue",
        ),
        (
            format!("filters: [{{type: RequestHeaderModifier, requestHeaderModifier: {{remove: [Host]}}}}], {backend}"),
            "UnsupportedValue",
        ),
        (format!("filters: [{rewrite}, {redirect}]"), "IncompatibleFilters"),
        (format!("filters: [{redirect}], {backend}"), "IncompatibleFilters"),
        (format!("filters: [{rewrite}, {rewrite}], {backend}"), "IncompatibleFilters"),
        (
            format!(
                "filters: [{rewrite}, {{type: RequestHeaderModifier, requestHeaderModifier: {{set: [{{name: host, value: c.test}}]}}}}], {backend}"
            ),
            "IncompatibleFilters",
        ),
        ("filters: [{type: RequestRedirect, requestRedirect: {statusCode: 305}}]".into(), "UnsupportedValue"),
        (
            format!(
                "filters: [{{type: URLRewrite, urlRewrite: {{path: {{type: ReplaceFullPath, replaceFullPath: '/a b'}}}}}}], {backend}"
            ),
            "UnsupportedValue",
        ),
        ("filters: [{type: RequestRedirect, requestRedirect: {scheme: gopher}}]".into(), "UnsupportedValue"),
        (
            format!(
                "matches: [{{path: {{type: Exact, value: /a}}}}], filters: [{{type: URLRewrite, urlRewrite: {{path: {{type: ReplacePrefixMatch, replacePrefixMatch: /b}}}}}}], {backend}"
            ),
            "UnsupportedValue",
        ),
    ] {
        let alone = http(&format!("  rules: [{{{rule}}}]"));
        assert_eq!(conditions(&alone)[0], format!("Accepted=False/{reason}"), "{rule}");
        // It still stands: what it would have protected must not fall through to another rule.
        assert_eq!(alone.rules[0].action, RuleAction::Respond(500), "{rule}");
        assert!(!alone.parents[0].attachments.is_empty() && !alone.parents[0].accepted(), "{rule}");
        let beside = http(&format!("  rules: [{{{rule}}}, {{{backend}}}]"));
        assert_eq!(conditions(&beside)[2], "PartiallyInvalid=True/UnsupportedValue", "{rule}");
        assert_eq!(beside.rules[0].action, RuleAction::Respond(500), "{rule}");
        assert!(matches!(beside.rules[1].action, RuleAction::Forward(_)), "{rule}");
    }
}

#[test]
fn filters_are_sorted_out() {
    let view = http(
        "
  rules:
  - matches: [{path: {value: /old}}]
    name: first
    timeouts: {request: 10s, backendRequest: 0s}
    filters:
    - {type: RequestHeaderModifier, requestHeaderModifier: {set: [{name: X-A, value: '1'}, {name: Host, value: b.test}]}}
    - {type: ResponseHeaderModifier, responseHeaderModifier: {remove: [X-B]}}
    - {type: URLRewrite, urlRewrite: {path: {type: ReplacePrefixMatch, replacePrefixMatch: /new/}}}
    - {type: RequestMirror, requestMirror: {backendRef: {name: web, port: 81}, percent: 20}}
    - {type: RequestMirror, requestMirror: {backendRef: {name: web, port: 82}, percent: 0}}
    - {type: RequestMirror, requestMirror: {backendRef: {name: none, port: 82}}}
    - {type: CORS, cors: {allowOrigins: ['https://*.test'], allowMethods: ['*']}}
    backendRefs:
    - name: web
      port: 80
      filters:
      - {type: RequestHeaderModifier, requestHeaderModifier: {set: [{name: host, value: c.test}], add: [{name: X-C, value: '2'}]}}
      - {type: URLRewrite, urlRewrite: {path: {type: ReplaceFullPath, replaceFullPath: full}}}",
    );
    assert_eq!(conditions(&view), ["Accepted=True/Accepted", "ResolvedRefs=False/BackendNotFound"]);
    let rule = &view.rules[0];
    let plan = forward(rule);
    assert_eq!(rule.name.as_deref(), Some("first"));
    assert_eq!(plan.host_rewrite.as_deref(), Some("b.test"));
    assert_eq!(plan.path_rewrite, Some(PathRewrite::Prefix("/new".into())));
    assert_eq!((plan.timeout, plan.backend_timeout), (Some(std::time::Duration::from_secs(10)), None));
    assert_eq!(plan.mirrors.len(), 1);
    assert_eq!((plan.mirrors[0].fraction.numerator, plan.mirrors[0].fraction.denominator), (20, 100));
    assert_eq!(rule.filters.request_headers.set, [("x-a".into(), "1".into())]);
    assert_eq!(rule.filters.response_headers.remove, ["x-b".into()]);
    assert_eq!(rule.filters.cors.as_ref().unwrap().max_age, 5);
    let backend = &plan.backends[0];
    assert_eq!(backend.host_rewrite.as_deref(), Some("c.test"));
    assert_eq!(backend.path_rewrite, Some(PathRewrite::Full("/full".into())));
    assert_eq!(backend.request_headers.add, [("x-c".into(), "2".into())]);
}

#[test]
fn a_backend_with_a_filter_that_cannot_be_applied_loses_its_share() {
    let view = http(
        "  rules: [{backendRefs: [{name: web, port: 80, filters: [{type: RequestRedirect, requestRedirect: {scheme: https}}]}, {name: web, port: 81}]}]",
    );
    assert_eq!(conditions(&view)[2], "PartiallyInvalid=True/UnsupportedValue");
    let targets: Vec<_> =
        forward(&view.rules[0]).backends.iter().map(|it| it.target == WeightedTarget::Invalid).collect();
    assert_eq!(targets, [true, false]);
}

#[test]
fn redirects_are_kept_as_written() {
    let view = http(
        "
  rules:
  - matches: [{path: {value: /a}}]
    filters: [{type: RequestRedirect, requestRedirect: {hostname: b.test, port: 8443, statusCode: 301, path: {type: ReplacePrefixMatch, replacePrefixMatch: /}}}]",
    );
    let RuleAction::Redirect(redirect) = &view.rules[0].action else { panic!() };
    assert_eq!((redirect.hostname.as_deref(), redirect.port, redirect.status), (Some("b.test"), Some(8443), 301));
    assert_eq!(redirect.path, Some(PathRewrite::Prefix("".into())));
    assert_eq!(conditions(&view), ACCEPTED);
}

#[test]
fn fields_without_effect_are_named() {
    let spec = "  useDefaultGateways: All\n  parentRefs: [{name: g, sectionName: http}]
  rules: [{retry: {attempts: 2}, sessionPersistence: {type: Cookie}, backendRefs: [{name: web, port: 80}]}]";
    let view = resolve(Kind::HTTPRoute, "ns", &manifest("HTTPRoute", "ns", spec));
    assert_eq!(conditions(&view), ACCEPTED);
    let text = message(&view, "Accepted");
    for field in ["spec.useDefaultGateways", "spec.rules[0].retry", "spec.rules[0].sessionPersistence"] {
        assert!(text.contains(field), "{text}");
    }
}

#[test]
fn a_cluster_that_envoy_refuses_makes_its_backend_invalid() {
    let route = manifest(
        "HTTPRoute",
        "ns",
        "  parentRefs: [{name: g, sectionName: http}]
  rules:
  - {backendRefs: [{name: web, port: 80}, {name: web, port: 81}]}
  - {backendRefs: [{name: web, port: 80}]}",
    );
    let mut world = TestWorld::read(&format!("{CLASS}{BASE}{route}")).unwrap();
    let backend =
        |port| portolan_model::ir::BackendId { kind: Kind::Service, name: NamespacedName::new("ns", "web"), port };
    let cluster = |port, protocol| portolan_model::ir::ClusterKey { backend: backend(port), protocol };
    use portolan_model::ir::UpstreamProtocol::{Http1, Http2};
    // Of port 81 no HTTP/1 cluster is used.
    world.refused_clusters = [(cluster(80, Http1), "no".into()), (cluster(81, Http1), "unused".into())].into();
    let view = world.route_view(&ObjectKey::new(Kind::HTTPRoute, NamespacedName::new("ns", "r"))).unwrap();
    assert_eq!(conditions(&view), ["Accepted=True/Accepted", "ResolvedRefs=False/UnsupportedValue"]);
    let text = message(&view, "ResolvedRefs");
    assert!(text.contains("spec.rules[0].backendRefs[0]: Envoy refused the cluster of Service ns/web: no"), "{text}");
    assert!(!text.contains("unused"), "{text}");
    let targets: Vec<_> = forward(&view.rules[0]).backends.iter().map(|backend| backend.target.clone()).collect();
    assert_eq!(targets, [WeightedTarget::Invalid, WeightedTarget::Cluster(cluster(81, Http2))]);
    assert_eq!(view.rules[1].action, RuleAction::Respond(500));
}
