//! Worlds to measure in: a Gateway with many HTTPRoutes, each with a Service and an EndpointSlice of its own.

use std::sync::Arc;

use portolan_engine::Event;
use portolan_model::ir::Binding;
use portolan_model::objects::{
    AddressType, AllowedListeners, AllowedRoutes, BackendRef, Endpoint, EndpointPort, EndpointSlice, FromNamespaces,
    Gateway, GatewayClass, HeaderModifier, HttpFilter, HttpMatch, HttpRoute, HttpRule, ListenerSpec, Meta, Object,
    ObjectRef, ParentRef, PathMatch, Protocol, Service, ServicePort, Timeouts, TransportProtocol,
};
use portolan_model::{CONTROLLER_NAME, Name, NamespacedName};

pub fn gateway_name() -> NamespacedName {
    NamespacedName::new("default", "gateway")
}

fn meta(name: &str) -> Meta {
    Meta { created: 0, name: NamespacedName::new("default", name) }
}

fn event(object: Object) -> Event {
    Event::Object { key: object.key(), object: Some(object) }
}

/// GatewayClass and Gateway, one HTTP listener for every hostname, bound to all addresses.
pub fn gateway() -> Vec<Event> {
    let class = GatewayClass {
        meta: Meta { created: 0, name: NamespacedName::new("", "portolan") },
        controller_name: CONTROLLER_NAME.into(),
        parameters_ref: None,
    };
    let gateway = Gateway {
        meta: Meta { created: 0, name: gateway_name() },
        class: "portolan".into(),
        listeners: vec![ListenerSpec {
            name: "http".into(),
            hostname: None,
            port: 80,
            protocol: Protocol::Http,
            tls: None,
            allowed_routes: AllowedRoutes { from: FromNamespaces::All, kinds: Vec::new() },
        }],
        addresses: Vec::new(),
        infrastructure: None,
        allowed_listeners: AllowedListeners { from: FromNamespaces::None },
        tls: None,
        default_scope: None,
    };
    let binding = Event::Binding { gateway: gateway_name(), binding: Some(Binding::default()) };
    vec![event(Object::GatewayClass(Arc::new(class))), event(Object::Gateway(Arc::new(gateway))), binding]
}

pub fn service(number: usize) -> Event {
    let name = format!("service-{number}");
    event(Object::Service(Arc::new(Service {
        meta: meta(&name),
        external_name: None,
        ip_families: Vec::new(),
        ports: vec![ServicePort {
            name: "http".into(),
            port: 80,
            protocol: TransportProtocol::Tcp,
            app_protocol: None,
        }],
    })))
}

/// The endpoints of a Service: two, the last byte of the first one as given.
pub fn slice(number: usize, last: u8) -> Event {
    let [.., high, low] = number.to_be_bytes();
    let endpoint = |last: u8| Endpoint {
        addresses: vec![[10, high, low, last].into()],
        ready: true,
        serving: true,
        terminating: false,
        zone: None,
    };
    event(Object::EndpointSlice(Arc::new(EndpointSlice {
        meta: meta(&format!("service-{number}-x")),
        service: Some(NamespacedName::new("default", format!("service-{number}"))),
        address_type: AddressType::V4,
        ports: vec![EndpointPort { name: "http".into(), port: Some(8080), protocol: TransportProtocol::Tcp }],
        endpoints: vec![endpoint(last), endpoint(250)],
    })))
}

fn parent() -> ParentRef {
    ParentRef { group: None, kind: None, namespace: None, name: "gateway".into(), section_name: None, port: None }
}

fn rule(path: &str, service: usize, version: usize) -> HttpRule {
    HttpRule {
        name: None,
        matches: vec![HttpMatch {
            path: PathMatch::Prefix(path.into()),
            headers: Vec::new(),
            query: Vec::new(),
            method: None,
        }],
        filters: vec![HttpFilter::RequestHeaderModifier(HeaderModifier {
            set: vec![("x-version".into(), version.to_string().into())],
            ..HeaderModifier::default()
        })],
        backends: vec![BackendRef {
            target: ObjectRef {
                group: "".into(),
                kind: "Service".into(),
                namespace: None,
                name: format!("service-{service}").into(),
            },
            port: Some(80),
            weight: 1,
            filters: Vec::new(),
        }],
        timeouts: Timeouts::default(),
        retry: None,
        session_persistence: None,
    }
}

/// A route with these hostnames and rules.
pub fn route(name: &str, hostnames: Vec<Name>, rules: Vec<HttpRule>) -> Event {
    event(Object::HttpRoute(Arc::new(HttpRoute {
        meta: meta(name),
        parents: vec![parent()],
        use_default_gateways: None,
        hostnames,
        rules,
    })))
}

/// Route `number` with a hostname of its own and two rules; `version` stands in a header that it sets.
pub fn own_host(number: usize, version: usize) -> Event {
    let rules = vec![rule("/", number, version), rule("/api", number, 0)];
    route(&format!("route-{number}"), vec![format!("host-{number}.example.com").into()], rules)
}

/// One host with many rules, of which the middle one has this version.
pub fn many_rules(count: usize, version: usize) -> Event {
    let rules = (0..count)
        .map(|index| rule(&format!("/path-{index}"), 0, if index == count / 2 { version } else { 0 }))
        .collect();
    route("many-rules", vec!["many.example.com".into()], rules)
}

/// A route on the wildcard that covers every [`own_host`].
pub fn wildcard(version: usize) -> Event {
    route("wildcard", vec!["*.example.com".into()], vec![rule("/wild", 0, version)])
}

/// Gateway, and `count` times route, Service and slice.
pub fn world(count: usize) -> Vec<Event> {
    let parts = (0..count).flat_map(|number| [service(number), slice(number, 1), own_host(number, 0)]);
    gateway().into_iter().chain(parts).collect()
}
