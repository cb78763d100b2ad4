//! Versions differ when bytes do, and only then.

use portolan_model::ir::*;
use portolan_proto::{Resource, VirtualHostBody};
use portolan_translate::{TableContext, endpoints, listener, table_head_version, virtual_host};

use crate::cases::build::*;

fn same(one: &Resource, other: &Resource) {
    assert_eq!((one.version, one.body.message()), (other.version, other.body.message()));
}

#[test]
fn where_a_listener_is_reported_does_not_change_it() {
    let plan = listener_plan(80, loopback());
    let reported = Binding {
        status: vec![("IPAddress".into(), "10.0.0.1".into())],
        unusable: vec![("x".into(), "taken".into())],
        ..loopback()
    };
    let listeners = vec![listener_id("web"), listener_id("other")];
    let other = ListenerPlan { binding: reported, listeners, ..plan.clone() };
    same(&listener(&plan), &listener(&other));
    assert_ne!(listener(&plan).origins, listener(&other).origins);
    let moved = ListenerPlan { binding: Binding { port_offset: 1, ..loopback() }, ..plan.clone() };
    assert_ne!(listener(&plan).version, listener(&moved).version);
}

#[test]
fn an_endpoint_that_is_not_used_does_not_change_the_others() {
    let endpoint = |last: u8, draining| EndpointPlan {
        address: EndpointAddress::Socket(std::net::IpAddr::from([10, 0, 0, last]), 80),
        draining,
    };
    let plan = |list: Vec<EndpointPlan>| EndpointsPlan {
        cluster: http1("cart"),
        localities: vec![LocalityPlan { zone: "a".into(), endpoints: list }],
    };
    let ready = endpoints(&plan(vec![endpoint(1, false)]));
    same(&ready, &endpoints(&plan(vec![endpoint(1, false), endpoint(2, true)])));
    assert_ne!(ready.version, endpoints(&plan(vec![endpoint(1, false), endpoint(2, false)])).version);
    assert_ne!(ready.version, endpoints(&plan(vec![endpoint(2, false)])).version);
}

fn at(port: u16, action: RuleAction) -> VirtualHostBody {
    let plan = host(http_table(port), "a.test", vec![rule(any(), action)]);
    virtual_host(&plan, TableContext { tls: false, port }, &mut |_, _| None)
}

#[test]
fn only_redirects_know_their_listener() {
    let redirect = RedirectPlan { scheme: None, hostname: None, port: None, path: None, status: 302 };
    assert_ne!(
        at(80, RuleAction::Redirect(redirect.clone())).version,
        at(8080, RuleAction::Redirect(redirect)).version
    );
    assert_eq!(at(80, RuleAction::Forward(to("a"))).version, at(8080, RuleAction::Forward(to("a"))).version);
}

#[test]
fn a_table_is_the_sum_of_its_parts() {
    let id = http_table(80);
    let hosts = [
        host(id.clone(), "a.test", vec![rule(any(), RuleAction::Respond(500))]),
        host(id.clone(), "b.test", Vec::new()),
    ];
    let context = TableContext { tls: false, port: 80 };
    let [one, other] = hosts.each_ref().map(|host| virtual_host(host, context, &mut |_, _| None).version);
    let both = table(&id, &hosts).version;
    assert_eq!(both.minus(one), table(&id, &hosts[1..]).version);
    assert_eq!(both, table_head_version(&id).plus(other).plus(one));
}

/// What Envoy refused is asked for by the version of the unit as it was sent.
#[test]
fn a_refused_match_is_recognised_by_its_version() {
    let id = http_table(80);
    let plan = host(
        id,
        "a.test",
        vec![rule(prefix("/a"), RuleAction::Forward(to("a"))), rule(any(), RuleAction::Forward(to("b")))],
    );
    let context = TableContext { tls: false, port: 80 };
    let before = virtual_host(&plan, context, &mut |_, _| None);
    let culprit = before.routes[0].version.0;
    let after = virtual_host(&plan, context, &mut |_, content| (content == culprit).then_some(()));
    assert_ne!(after.version, before.version);
    assert_ne!(after.routes[0].version, before.routes[0].version);
    assert_eq!(after.routes[1].version, before.routes[1].version);
    assert_eq!(after.clusters.as_ref(), &before.clusters[1..]);
    let second = after.routes[0].version.0;
    let gone = virtual_host(&plan, context, &mut |_, content| [culprit, second].contains(&content).then_some(()));
    assert_eq!(gone.routes.len(), before.routes.len() - 1);
}
