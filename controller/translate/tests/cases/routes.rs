//! Route tables, one case per feature.

use std::sync::Arc;
use std::time::Duration;

use portolan_model::ir::*;
use portolan_model::objects::{Cors, Fraction};
use portolan_translate::{TableContext, listener};

use super::Case;
use super::build::*;

pub fn cases() -> Vec<Case> {
    vec![
        case("matching/paths", paths()),
        case("matching/conditions", conditions()),
        case("rewrite/paths", rewrites()),
        case("redirect/plain", redirects()),
        on_port("redirect/other-port", 8080, "a.test", redirects()),
        on_port("redirect/other-port-wildcard", 8080, "*.test", redirects()),
        case("headers/rule-and-backend", headers()),
        case("weights/invalid-share", weights()),
        case("weights/rewrites-differ", shares()),
        case("timeouts/limits", timeouts()),
        case("mirror/fractions", mirrors()),
        case("cors/policies", cors()),
        otherwise(),
        misdirected(),
        refused(),
    ]
}

/// One host of a table on port 80, with a listener so that Envoy sees it.
fn case(name: &'static str, rules: Vec<Arc<ResolvedRule>>) -> Case {
    on_port(name, 80, "*", rules)
}

fn on_port(name: &'static str, port: u16, hostname: &str, rules: Vec<Arc<ResolvedRule>>) -> Case {
    let id = http_table(port);
    let table = table(&id, &[host(id.clone(), hostname, rules)]);
    Case { name, snapshot: snapshot([listener(&listener_plan(port, loopback())), table]) }
}

fn paths() -> Vec<Arc<ResolvedRule>> {
    [
        on(PathSpec::Exact("/cart".into())),
        prefix("/cart"),
        prefix("/odd?"),
        on(PathSpec::RawPrefix("/shop.Cart/".into())),
        on(PathSpec::Regex("/v[0-9]+/.*".into())),
        any(),
    ]
    .into_iter()
    .map(|request| rule(request, RuleAction::Forward(to("cart"))))
    .collect()
}

fn conditions() -> Vec<Arc<ResolvedRule>> {
    let all = RequestMatch {
        method: Some("POST".into()),
        headers: vec![exact("x-tier", "gold"), regex("x-version", "v[12]")],
        query: vec![exact("Page", "1"), regex("sort", "up|down")],
        ..prefix("/cart")
    };
    let grpc = RequestMatch { grpc: true, ..on(PathSpec::Exact("/shop.Cart/Add".into())) };
    let forward = Forward {
        backends: vec![WeightedBackend {
            target: WeightedTarget::Cluster(service("cart", UpstreamProtocol::Http2)),
            ..backend("", 1)
        }],
        websocket: false,
        ..to("cart")
    };
    vec![rule(all, RuleAction::Forward(to("cart"))), rule(grpc, RuleAction::Forward(forward))]
}

fn rewrites() -> Vec<Arc<ResolvedRule>> {
    let forward = |request, host: Option<&str>, path| {
        rule(
            request,
            RuleAction::Forward(Forward { host_rewrite: host.map(Into::into), path_rewrite: Some(path), ..to("cart") }),
        )
    };
    vec![
        forward(prefix("/strip"), None, PathRewrite::Prefix("/".into())),
        forward(prefix("/move.d"), Some("backend.test"), PathRewrite::Prefix("/new/".into())),
        forward(prefix("/full"), None, PathRewrite::Full(r"/one\1/two".into())),
        forward(any(), None, PathRewrite::Prefix("/below".into())),
        forward(on(PathSpec::Exact("/exact".into())), None, PathRewrite::Prefix("/never".into())),
    ]
}

fn redirects() -> Vec<Arc<ResolvedRule>> {
    let plan = RedirectPlan { scheme: None, hostname: None, port: None, path: None, status: 302 };
    let https = || Some("https".into());
    let redirect = |path: &str, plan: RedirectPlan| rule(prefix(path), RuleAction::Redirect(plan));
    vec![
        redirect("/https", RedirectPlan { scheme: https(), status: 301, ..plan.clone() }),
        redirect("/https-port", RedirectPlan { scheme: https(), port: Some(8443), status: 307, ..plan.clone() }),
        redirect("/host", RedirectPlan { hostname: Some("other.test".into()), ..plan.clone() }),
        redirect("/port", RedirectPlan { port: Some(8080), status: 308, ..plan.clone() }),
        redirect("/full", RedirectPlan { path: Some(PathRewrite::Full("/here".into())), status: 303, ..plan.clone() }),
        redirect("/strip", RedirectPlan { path: Some(PathRewrite::Prefix("/".into())), ..plan.clone() }),
        redirect("/move", RedirectPlan { path: Some(PathRewrite::Prefix("/moved".into())), ..plan }),
    ]
}

fn headers() -> Vec<Arc<ResolvedRule>> {
    let filters = RuleFilters {
        request_headers: modifier(&[("x-set", "100%"), ("x-empty", "")], &[("x-add", "a")], &["x-gone"]),
        response_headers: modifier(&[("x-set", "r")], &[], &["x-gone-too"]),
        cors: None,
    };
    let own = WeightedBackend {
        request_headers: modifier(&[("x-set", "b")], &[], &[]),
        response_headers: modifier(&[], &[("x-from", "b")], &["x-r"]),
        host_rewrite: Some("b.test".into()),
        ..backend("b", 2)
    };
    vec![
        filtered(prefix("/one"), RuleAction::Forward(forward(vec![own.clone()])), filters.clone()),
        filtered(prefix("/two"), RuleAction::Forward(forward(vec![backend("a", 1), own])), filters.clone()),
        filtered(prefix("/respond"), RuleAction::Respond(500), filters),
    ]
}

fn weights() -> Vec<Arc<ResolvedRule>> {
    let rules = [
        vec![backend("a", 70), invalid(30)],
        vec![invalid(1), invalid(2)],
        vec![backend("a", 1_000_000), backend("b", 1)],
    ];
    rules.into_iter().map(|backends| rule(any(), RuleAction::Forward(forward(backends)))).collect()
}

fn shares() -> Vec<Arc<ResolvedRule>> {
    let rewritten = |name, weight, path: &str| WeightedBackend {
        path_rewrite: Some(PathRewrite::Prefix(path.into())),
        ..backend(name, weight)
    };
    let differ = vec![rewritten("a", 3, "/a"), backend("b", 5), invalid(2)];
    let same = vec![rewritten("a", 3, "/same"), rewritten("b", 5, "/same"), invalid(2)];
    vec![
        rule(prefix("/differ"), RuleAction::Forward(forward(differ))),
        rule(prefix("/same"), RuleAction::Forward(forward(same))),
    ]
}

fn timeouts() -> Vec<Arc<ResolvedRule>> {
    let limits = |timeout: Option<u64>, backend_timeout: Option<u64>| {
        let milliseconds = |limit: Option<u64>| limit.map(Duration::from_millis);
        let forward =
            Forward { timeout: milliseconds(timeout), backend_timeout: milliseconds(backend_timeout), ..to("cart") };
        rule(any(), RuleAction::Forward(forward))
    };
    vec![
        limits(Some(1500), None),
        limits(Some(10_000), Some(250)),
        limits(None, Some(600_000)),
        limits(Some(300_000), None),
    ]
}

fn mirrors() -> Vec<Arc<ResolvedRule>> {
    let mirror = |name, numerator, denominator| MirrorPlan {
        cluster: http1(name),
        fraction: Fraction { numerator, denominator },
    };
    let mirrors = vec![mirror("all", 1, 1), mirror("fifth", 20, 100), mirror("third", 1, 3)];
    vec![rule(any(), RuleAction::Forward(Forward { mirrors, ..to("cart") }))]
}

fn cors() -> Vec<Arc<ResolvedRule>> {
    let names = |names: &[&str]| names.iter().map(|name| (*name).into()).collect::<Vec<_>>();
    let some = Cors {
        allow_origins: names(&["https://www.foo.com", "https://*.bar.com:8443", "*"]),
        allow_credentials: true,
        allow_methods: names(&["GET", "PUT"]),
        allow_headers: names(&["x-a", "x-b"]),
        expose_headers: names(&["x-c"]),
        max_age: 3600,
    };
    let every = Cors {
        allow_origins: names(&["*"]),
        allow_methods: names(&["*"]),
        allow_headers: names(&["*"]),
        ..Default::default()
    };
    let with = |request, cors| {
        filtered(
            request,
            RuleAction::Forward(to("cart")),
            RuleFilters { cors: Some(Box::new(cors)), ..Default::default() },
        )
    };
    let put = RequestMatch { method: Some("PUT".into()), headers: vec![exact("x-tier", "gold")], ..prefix("/put") };
    vec![with(prefix("/some"), some), with(put, every)]
}

/// 421 under a name that another listener serves.
fn otherwise() -> Case {
    let id = http_table(80);
    let misdirected = HostPlan { otherwise: 421, ..host(id.clone(), "other.test", Vec::new()) };
    let table = table(&id, &[misdirected, host(id.clone(), "*", Vec::new())]);
    Case { name: "host/otherwise", snapshot: snapshot([listener(&listener_plan(80, loopback())), table]) }
}

/// Several names at once.
fn misdirected() -> Case {
    let id = http_table(80);
    let domains = ["*.other.test", "other.test"].map(Into::into).to_vec();
    let misdirected = HostPlan { otherwise: 421, domains, ..host(id.clone(), MISDIRECTED, Vec::new()) };
    let table = table(&id, &[misdirected, host(id.clone(), "*", Vec::new())]);
    Case { name: "host/misdirected", snapshot: snapshot([listener(&listener_plan(80, loopback())), table]) }
}

/// Envoy refused the first rule's action, and everything of the second.
fn refused() -> Case {
    let id = http_table(80);
    let rules = [prefix("/action"), prefix("/match"), prefix("/good")]
        .map(|request| rule(request, RuleAction::Forward(to("cart"))));
    let plan = host(id.clone(), "*", rules.into());
    let mut calls = 0;
    let table = table_where(&id, &[plan], TableContext { tls: false, port: 80 }, &mut |planned, _| {
        calls += 1;
        (calls == 1 || planned.rule.index == 1).then_some(())
    });
    Case { name: "host/refused", snapshot: snapshot([listener(&listener_plan(80, loopback())), table]) }
}
