//! Envoy accepts whatever plans resolution can make: one value it dislikes would cost a whole table.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use portolan_model::ir::*;
use portolan_model::objects::{Cors, Fraction, HeaderModifier, ValueMatch, ValueMatcher};
use portolan_model::{Kind, Name, NamespacedName};
use portolan_testkit::envoy::validate;
use portolan_translate::{TableContext, cluster, endpoints, listener, virtual_host};
use proptest::prelude::{BoxedStrategy, Just, ProptestConfig, Strategy, TestCaseError, any, prop_oneof, proptest};
use proptest::{collection, option, sample};

use crate::accepted::configuration;
use crate::cases::build::{filtered, host, http_table, http1, listener_plan, loopback, snapshot, table};

fn text(regex: &str) -> impl Strategy<Value = Name> + use<> {
    proptest::string::string_regex(regex).unwrap().prop_map(Name::from)
}

/// The pattern that the API has for Exact and PathPrefix
fn path() -> impl Strategy<Value = Name> {
    text("(/([A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9A-F]{2}){1,12}){1,5}")
}

fn header_name() -> impl Strategy<Value = Name> {
    text("[a-z0-9!#$%&'*+.^_`|~-]{1,40}").prop_filter("resolution refuses it", |name| &**name != "host")
}

/// Printable ASCII, the tab, and text beyond ASCII, up to more than anybody writes
fn value() -> impl Strategy<Value = Name> {
    prop_oneof![text("[ -~\t]{0,60}"), text("[à-ÿ]{0,10}"), Just(Name::from("%".repeat(4096)))]
}

fn hostname() -> impl Strategy<Value = Name> {
    text("[a-z0-9]([a-z0-9-]{0,20}[a-z0-9])?(\\.[a-z]{2,8}){1,3}")
}

fn condition() -> impl Strategy<Value = ValueMatcher> {
    prop_oneof![
        value().prop_map(ValueMatcher::Exact),
        sample::select(vec!["", ".*", "a|b", r"v\d+", "(?i)x"]).prop_map(|regex| ValueMatcher::Regex(regex.into())),
    ]
}

fn request() -> impl Strategy<Value = RequestMatch> {
    let path = prop_oneof![
        path().prop_map(PathSpec::Exact),
        prop_oneof![Just(Name::from("")), path()].prop_map(PathSpec::SegmentPrefix),
        path().prop_map(PathSpec::RawPrefix),
        sample::select(vec!["", "/.*", "/(a|b)", "[^/]+"]).prop_map(|regex| PathSpec::Regex(regex.into())),
    ];
    let conditions = |name: BoxedStrategy<Name>| {
        collection::vec((name, condition()).prop_map(|(name, value)| ValueMatch { name, value }), 0..4)
    };
    (
        path,
        option::of(text("[A-Z]{1,12}")),
        conditions(header_name().boxed()),
        conditions(text("[!-~]{1,40}").boxed()),
        any::<bool>(),
    )
        .prop_map(|(path, method, headers, query, grpc)| RequestMatch { path, method, headers, query, grpc })
}

fn modifier() -> impl Strategy<Value = HeaderModifier> {
    let pairs = || collection::vec((header_name(), value()), 0..3);
    (pairs(), pairs(), collection::vec(header_name(), 0..3)).prop_map(|(set, add, remove)| HeaderModifier {
        set,
        add,
        remove,
    })
}

fn rewrite() -> impl Strategy<Value = Option<PathRewrite>> {
    let path = || prop_oneof![path(), text("[!-~]{0,20}")];
    option::of(prop_oneof![path().prop_map(PathRewrite::Full), path().prop_map(PathRewrite::Prefix)])
}

fn weighted() -> impl Strategy<Value = WeightedBackend> {
    let target = prop_oneof![
        3 => sample::select(vec!["a", "b"]).prop_map(|name| WeightedTarget::Cluster(http1(name))),
        1 => Just(WeightedTarget::Invalid),
    ];
    (1..=1_000_000u32, target, modifier(), modifier(), option::of(hostname()), rewrite()).prop_map(
        |(weight, target, request_headers, response_headers, host_rewrite, path_rewrite)| WeightedBackend {
            weight,
            target,
            index: 0,
            request_headers,
            response_headers,
            host_rewrite,
            path_rewrite,
        },
    )
}

fn forward() -> impl Strategy<Value = Forward> {
    let limit = || option::of((0..100_000_000u64).prop_map(Duration::from_millis));
    let mirror = (0..=u32::MAX, 1..=u32::MAX).prop_map(|(numerator, denominator)| MirrorPlan {
        cluster: http1("b"),
        fraction: Fraction { numerator, denominator },
    });
    let host_rewrite = option::of(hostname());
    (
        collection::vec(weighted(), 1..16),
        host_rewrite,
        rewrite(),
        limit(),
        limit(),
        collection::vec(mirror, 0..3),
        any::<bool>(),
    )
        .prop_map(|(backends, host_rewrite, path_rewrite, timeout, backend_timeout, mirrors, websocket)| Forward {
            backends,
            host_rewrite,
            path_rewrite,
            timeout,
            backend_timeout,
            mirrors,
            websocket,
        })
}

fn action() -> impl Strategy<Value = RuleAction> {
    let redirect = (
        option::of(sample::select(vec![Name::from("http"), Name::from("https")])),
        option::of(hostname()),
        option::of(1..=u16::MAX),
        rewrite(),
        sample::select(vec![301, 302, 303, 307, 308]),
    )
        .prop_map(|(scheme, hostname, port, path, status)| RedirectPlan { scheme, hostname, port, path, status });
    prop_oneof![
        6 => forward().prop_map(RuleAction::Forward),
        2 => redirect.prop_map(RuleAction::Redirect),
        1 => Just(RuleAction::Respond(500)),
    ]
}

fn cors() -> impl Strategy<Value = Cors> {
    let names = |regex: &str| collection::vec(text(regex), 0..4);
    (
        names(r"\*|https?://(\*\.)?[a-z]{1,9}(\.[a-z]{2,5})?(:[0-9]{1,4})?"),
        any::<bool>(),
        names(r"\*|[A-Z]{3,7}"),
        names("[a-z-]{1,20}"),
        0..=u32::MAX,
    )
        .prop_map(|(allow_origins, allow_credentials, allow_methods, allow_headers, max_age)| Cors {
            allow_origins,
            allow_credentials,
            allow_methods,
            expose_headers: allow_headers.clone(),
            allow_headers,
            max_age,
        })
}

fn resolved() -> impl Strategy<Value = Arc<ResolvedRule>> {
    (request(), action(), modifier(), modifier(), option::of(cors())).prop_map(
        |(request, action, request_headers, response_headers, cors)| {
            filtered(request, action, RuleFilters { request_headers, response_headers, cors: cors.map(Box::new) })
        },
    )
}

fn hosts(port: u16) -> impl Strategy<Value = Vec<HostPlan>> {
    let name =
        prop_oneof![hostname(), hostname().prop_map(|name| Name::from(format!("*.{name}"))), Just(Name::from("*"))];
    collection::btree_map(name, collection::vec(resolved(), 0..6), 1..6)
        .prop_map(move |hosts| hosts.into_iter().map(|(name, rules)| host(http_table(port), &name, rules)).collect())
}

fn upstream() -> impl Strategy<Value = (ClusterPlan, EndpointsPlan)> {
    let address = prop_oneof![
        (any::<std::net::IpAddr>(), 1..=u16::MAX).prop_map(|(ip, port)| EndpointAddress::Socket(ip, port)),
        text("/[a-z]{1,9}(/[a-z.]{1,9}){1,4}").prop_map(EndpointAddress::Unix),
    ];
    let endpoint = (address, any::<bool>()).prop_map(|(address, draining)| EndpointPlan { address, draining });
    let localities = collection::btree_map(text("[a-z0-9-]{0,12}"), collection::vec(endpoint, 0..5), 0..4);
    let discovery = prop_oneof![
        3 => Just(Discovery::Endpoints),
        1 => collection::vec((hostname(), 1..=u16::MAX), 1..4).prop_map(Discovery::Dns),
    ];
    (text("[a-z][a-z0-9-]{0,40}"), any::<bool>(), discovery, localities).prop_map(
        |(name, http2, discovery, localities)| {
            let key = ClusterKey {
                backend: BackendId { kind: Kind::Service, name: NamespacedName::new("shop", name), port: 80 },
                protocol: if http2 { UpstreamProtocol::Http2 } else { UpstreamProtocol::Http1 },
            };
            let locality = |(zone, endpoints)| LocalityPlan { zone, endpoints };
            let endpoints =
                EndpointsPlan { cluster: key.clone(), localities: localities.into_iter().map(locality).collect() };
            (ClusterPlan { key, discovery }, endpoints)
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, max_shrink_iters: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn route_tables(hosts in hosts(80)) {
        let snapshot = snapshot([listener(&listener_plan(80, loopback())), table(&http_table(80), &hosts)]);
        if let Err(error) = validate(&configuration(&snapshot)) {
            return Err(TestCaseError::fail(format!("{error:#}")));
        }
    }

    /// Two rules, and those that have a part of one and a part of the other.
    #[test]
    fn versions_differ_where_bytes_do(one in resolved(), other in resolved()) {
        let mut units = BTreeMap::new();
        for mix in 0..8u8 {
            let of = |part: u8| if mix & part == 0 { &one } else { &other };
            let rule = filtered(of(1).matches[0].1.clone(), of(2).action.clone(), of(4).filters.clone());
            let plan = host(http_table(80), "a.test", vec![rule]);
            let context = TableContext { tls: false, port: 80 };
            for unit in virtual_host(&plan, context, &mut |_, _| None).routes.iter() {
                let bytes = units.entry(unit.version).or_insert_with(|| unit.bytes.clone());
                if *bytes != unit.bytes {
                    return Err(TestCaseError::fail(format!("one version, two encodings: {:?}", unit.version)));
                }
            }
        }
    }

    #[test]
    fn clusters_and_endpoints(plans in collection::vec(upstream(), 1..8), addresses in collection::vec(any::<std::net::IpAddr>(), 0..4)) {
        let binding = Binding { addresses, port_offset: 1, ..Default::default() };
        let resources = plans.iter().flat_map(|(plan, members)| [cluster(plan), endpoints(members)]);
        let snapshot = snapshot(resources.chain([listener(&listener_plan(80, binding))]));
        if let Err(error) = validate(&configuration(&snapshot)) {
            return Err(TestCaseError::fail(format!("{error:#}")));
        }
    }
}
