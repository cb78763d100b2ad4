//! What happens to requests and answers on their way.

use std::time::Duration;

use http::{Method, StatusCode};
use portolan_model::ir::*;
use portolan_model::objects::Cors;
use portolan_testkit::ports;

use crate::cases::build::*;
use crate::proxy::{Proxy, seen};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn paths_and_hosts_are_rewritten() {
    let rewrite = |request, path: Option<PathRewrite>, host: Option<&str>| {
        let plan = Forward { path_rewrite: path, host_rewrite: host.map(Into::into), ..to("a") };
        rule(request, RuleAction::Forward(plan))
    };
    let to_prefix = |path: &str| Some(PathRewrite::Prefix(path.into()));
    let proxy = Proxy::http(vec![
        rewrite(prefix("/strip-prefix"), to_prefix("/"), None),
        rewrite(prefix("/strip.two"), to_prefix(""), None),
        rewrite(prefix("/prefix/one"), to_prefix("/two/"), Some("one.example.org")),
        rewrite(prefix("/full"), Some(PathRewrite::Full(r"/new\1/path".into())), None),
        rewrite(any(), to_prefix("/below"), None),
    ])
    .await;
    for (path, result) in [
        ("/strip-prefix/three", "/three"),
        ("/strip-prefix", "/"),
        ("/strip-prefix/", "/"),
        ("/strip-prefix?a=/strip-prefix", "/?a=/strip-prefix"),
        ("/strip.two/three/four", "/three/four"),
        ("/prefix/one/two?x=1", "/two/two?x=1"),
        ("/prefix/one", "/two"),
        ("/full/any/thing?q=1", r"/new\1/path?q=1"),
        ("/full", r"/new\1/path"),
        ("/full/\u{e9}", r"/new\1/path"),
        ("/other", "/below/other"),
    ] {
        let path = path.replace('\u{e9}', "%C3%A9");
        let (service, seen_path, host) = seen(&proxy.get(&path).await);
        let expected_host = if path.starts_with("/prefix") { "one.example.org" } else { "test" };
        assert_eq!((service.as_str(), seen_path.as_str(), host.as_str()), ("a", result, expected_host), "{path}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redirects_say_where_to() {
    let plan = RedirectPlan { scheme: None, hostname: None, port: None, path: None, status: 302 };
    let redirect = |path: &str, plan: RedirectPlan| rule(prefix(path), RuleAction::Redirect(plan));
    let https = RedirectPlan { scheme: Some("https".into()), ..plan.clone() };
    let rules = || {
        vec![
            redirect("/https", RedirectPlan { status: 301, ..https.clone() }),
            redirect("/https-port", RedirectPlan { port: Some(8443), status: 308, ..https.clone() }),
            redirect("/host", RedirectPlan { hostname: Some("other.test".into()), status: 307, ..plan.clone() }),
            redirect(
                "/full",
                RedirectPlan { path: Some(PathRewrite::Full("/here".into())), status: 303, ..plan.clone() },
            ),
            redirect("/strip", RedirectPlan { path: Some(PathRewrite::Prefix("/".into())), ..plan.clone() }),
            redirect("/move", RedirectPlan { path: Some(PathRewrite::Prefix("/moved".into())), ..plan.clone() }),
        ]
    };
    let port = ports::free().unwrap();
    let id = http_table(port);
    let proxy = Proxy::hosts(port, &[host(id.clone(), "exact.test", rules()), host(id, "*.wild.test", rules())]).await;
    for (name, path, status, location) in [
        ("exact.test", "/https/x?a=1", 301, "https://exact.test/https/x?a=1".to_owned()),
        ("a.wild.test", "/https/x", 301, "https://a.wild.test:443/https/x".to_owned()),
        ("exact.test", "/https-port", 308, "https://exact.test:8443/https-port".to_owned()),
        ("exact.test", "/host", 307, format!("http://other.test:{port}/host")),
        ("exact.test", "/full/x", 303, format!("http://exact.test:{port}/here")),
        ("exact.test", "/strip/x", 302, format!("http://exact.test:{port}/x")),
        ("exact.test", "/strip", 302, format!("http://exact.test:{port}/")),
        ("exact.test", "/move/x", 302, format!("http://exact.test:{port}/moved/x")),
    ] {
        let exchange = proxy.to(&format!("{name}:{port}"), Method::GET, path, &[]).await;
        assert_eq!(
            (exchange.status.as_u16(), exchange.header("location")),
            (status, Some(location.as_str())),
            "{name} {path}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn headers_are_set_added_and_removed() {
    let filters = RuleFilters {
        request_headers: modifier(
            &[("x-set", "100%"), ("x-empty", ""), ("x-both", "rule")],
            &[("x-add", "2")],
            &["x-gone"],
        ),
        response_headers: modifier(&[("x-answer", "rule")], &[("x-add", "r")], &["x-echo-service"]),
        cors: None,
    };
    let own = WeightedBackend {
        request_headers: modifier(&[("x-both", "backend")], &[], &[]),
        response_headers: modifier(&[("x-answer", "backend")], &[], &[]),
        host_rewrite: Some("b.test".into()),
        ..backend("b", 1)
    };
    let proxy = Proxy::http(vec![
        filtered(prefix("/rule"), RuleAction::Forward(to("a")), filters.clone()),
        filtered(prefix("/backend"), RuleAction::Forward(forward(vec![own])), filters.clone()),
        filtered(any(), RuleAction::Respond(500), filters),
    ])
    .await;
    let sent = [("x-set", "old"), ("x-add", "1"), ("x-gone", "1"), ("x-both", "old")];
    for (path, both, host) in [("/rule", "rule", "test"), ("/backend", "backend", "b.test")] {
        let exchange = proxy.send(Method::GET, path, &sent).await;
        let answer = exchange.answer().unwrap();
        let header = |name: &str| answer.headers.get(name).cloned().unwrap_or_default();
        assert_eq!(header("x-set"), ["100%"]);
        assert_eq!(header("x-empty"), [""]);
        assert_eq!(header("x-add"), ["1", "2"]);
        assert_eq!(header("x-both"), [both]);
        assert_eq!(header("x-gone"), [""; 0]);
        assert_eq!(
            (answer.host.as_str(), exchange.header("x-answer"), exchange.header("x-add")),
            (host, Some(both), Some("r"))
        );
        assert_eq!(exchange.header("x-echo-service"), None);
        // The client's address is the one thing that Envoy adds.
        let envoys_own: Vec<_> = answer.headers.keys().filter(|name| name.starts_with("x-envoy")).collect();
        assert_eq!(envoys_own, ["x-envoy-external-address"]);
    }
    assert_eq!(proxy.get("/500").await.header("x-answer"), Some("rule"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_do_not_speak_for_others() {
    let proxy = Proxy::http(vec![rule(any(), RuleAction::Forward(to("a")))]).await;
    let spoofed =
        [("x-forwarded-for", "1.2.3.4"), ("x-envoy-max-retries", "9"), ("x-envoy-upstream-rq-timeout-ms", "1")];
    let answer = proxy.send(Method::GET, "/delay?ms=50", &spoofed).await.answer().unwrap();
    // The address that connected comes last; for a client on the same machine Envoy writes the machine's own.
    let forwarded: Vec<&str> = answer.header("x-forwarded-for").unwrap().split(',').collect();
    assert_eq!((forwarded.len(), forwarded[0]), (2, "1.2.3.4"));
    for name in ["x-envoy-internal", "x-envoy-max-retries", "x-envoy-upstream-rq-timeout-ms"] {
        assert_eq!(answer.header(name), None, "{name}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn limits_end_requests() {
    let limits = |path: &str, timeout: Option<u64>, backend_timeout: Option<u64>| {
        let milliseconds = |limit: Option<u64>| limit.map(Duration::from_millis);
        let path_rewrite = Some(PathRewrite::Full("/delay".into()));
        let plan = Forward {
            timeout: milliseconds(timeout),
            backend_timeout: milliseconds(backend_timeout),
            path_rewrite,
            ..to("a")
        };
        rule(prefix(path), RuleAction::Forward(plan))
    };
    let proxy = Proxy::http(vec![
        limits("/request", Some(200), None),
        limits("/backend", None, Some(200)),
        limits("/both", Some(5_000), Some(200)),
        limits("/zero", Some(0), None),
    ])
    .await;
    for path in ["/request", "/backend", "/both"] {
        let before = proxy.backends[0].requests();
        // The answer of a backend that was waited for would be 200.
        let exchange = proxy.get(&format!("{path}?ms=3000")).await;
        assert_eq!(exchange.status, StatusCode::GATEWAY_TIMEOUT, "{path}");
        assert_eq!(proxy.backends[0].requests() - before, 1, "{path} is not tried again");
        assert_eq!(proxy.get(&format!("{path}?ms=20")).await.status, StatusCode::OK, "{path}");
    }
    assert_eq!(proxy.get("/zero?ms=400").await.status, StatusCode::OK);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn preflights_are_answered_by_policy() {
    let names = |names: &[&str]| names.iter().map(|name| (*name).into()).collect::<Vec<_>>();
    let policy = Cors {
        allow_origins: names(&["https://www.foo.com", "https://*.bar.com"]),
        allow_credentials: true,
        allow_methods: names(&["GET", "OPTIONS"]),
        allow_headers: names(&["x-header-1", "x-header-2"]),
        expose_headers: names(&["x-header-3"]),
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
            RuleAction::Forward(to("a")),
            RuleFilters { cors: Some(Box::new(cors)), ..Default::default() },
        )
    };
    let put = RequestMatch { method: Some("PUT".into()), ..prefix("/put") };
    let proxy = Proxy::http(vec![
        with(prefix("/cors-1"), policy),
        with(prefix("/every"), every.clone()),
        with(put, every),
        rule(prefix("/none"), RuleAction::Forward(to("b"))),
    ])
    .await;
    let preflight = async |path: &str, origin: &str, method: &str| {
        let headers = [
            ("origin", origin),
            ("access-control-request-method", method),
            ("access-control-request-headers", "x-header-1"),
        ];
        proxy.send(Method::OPTIONS, path, &headers).await
    };
    for origin in ["https://www.foo.com", "https://www.bar.com", "https://xpto.www.bar.com"] {
        let exchange = preflight("/cors-1", origin, "GET").await;
        assert!(exchange.answer().is_none(), "answered by the backend");
        for (name, value) in [
            ("access-control-allow-origin", origin),
            ("access-control-allow-methods", "GET, OPTIONS"),
            ("access-control-allow-headers", "x-header-1, x-header-2"),
            ("access-control-max-age", "3600"),
            ("access-control-allow-credentials", "true"),
            ("access-control-expose-headers", "x-header-3"),
        ] {
            assert_eq!(exchange.header(name), Some(value), "{origin} {name}");
        }
    }
    for origin in
        ["https://foobar.com", "https://bar.com", "http://www.bar.com", "https://www.bar.com:8443", "https://xbar.com"]
    {
        let exchange = preflight("/cors-1", origin, "GET").await;
        assert!(exchange.answer().is_none(), "{origin}: answered by the backend");
        assert_eq!(exchange.header("access-control-allow-origin"), None, "{origin}");
        let exchange = proxy.send(Method::GET, "/cors-1", &[("origin", origin)]).await;
        assert_eq!(
            (seen(&exchange).0.as_str(), exchange.header("access-control-allow-origin")),
            ("a", None),
            "{origin}"
        );
    }
    let exchange = preflight("/every", "https://any.test:1234", "PATCH").await;
    assert_eq!(exchange.header("access-control-allow-origin"), Some("https://any.test:1234"));
    assert_eq!(exchange.header("access-control-allow-credentials"), None);
    // A match on a method sees the preflight requests for it.
    assert_eq!(
        preflight("/put", "https://any.test", "PUT").await.header("access-control-allow-origin"),
        Some("https://any.test")
    );
    assert_eq!(preflight("/put", "https://any.test", "GET").await.status, StatusCode::NOT_FOUND);
    // Without a policy the filter does nothing.
    assert_eq!(seen(&preflight("/none", "https://any.test", "GET").await).0, "b");
}
