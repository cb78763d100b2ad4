//! Backends: Services and Portolan's own Backend.

use std::sync::Arc;

use portolan_model::ir::{BackendId, BackendView, ClusterKey, ClusterPlan, Discovery, UpstreamProtocol};
use portolan_model::objects::{Backend, BackendEndpoint, Service, ServicePort, TransportProtocol};
use portolan_model::{Kind, Name, ObjectKey};

use crate::World;
pub use crate::endpoints::plan as endpoints;

/// What a backend is, apart from its endpoints.
pub fn view(world: &dyn World, id: &BackendId) -> BackendView {
    let target = ObjectKey::new(id.kind, id.name.clone());
    let found = match id.kind {
        Kind::Service => world.service(&id.name).map(|service| of_service(&service, id.port)),
        _ => world.backend(&id.name).map(|backend| of_backend(&backend)),
    };
    let Some((view, port_name)) = found else {
        return BackendView::NotFound(format!("{target} does not exist; create it, or correct the reference").into());
    };
    if !matches!(view, BackendView::Found { .. }) {
        return view;
    }
    // "A BackendRef is invalid if … a BackendTLSPolicy is present that refers to the Service, and the implementation is unable to
    // meet the requirement" (HTTPBackendRef): never plaintext instead.
    let policy = world.policies_for(&target).into_iter().find(|policy| {
        policy.targets.iter().any(|policy_target| {
            &*policy_target.group == id.kind.group()
                && &*policy_target.kind == id.kind.as_str()
                && policy_target.name == id.name.name
                && policy_target.section_name.as_ref().is_none_or(|section| Some(section) == port_name.as_ref())
        })
    });
    if let Some(policy) = policy {
        let message =
            format!("BackendTLSPolicy {} asks for TLS to {target}, which is not supported yet", policy.meta.name);
        return BackendView::UnsupportedProtocol(message.into());
    }
    match view {
        BackendView::Found { protocol, .. } => BackendView::Found { protocol, refused: refused(world, id) },
        other => other,
    }
}

/// The clusters of the backend that Envoy refused. They are not sent again, so the backend is as good as one that is not there.
fn refused(world: &dyn World, id: &BackendId) -> Vec<(UpstreamProtocol, Arc<str>)> {
    let refusal = |protocol| {
        let text = world.cluster_refusal(&ClusterKey { backend: id.clone(), protocol })?;
        Some((protocol, text))
    };
    [UpstreamProtocol::Http1, UpstreamProtocol::Http2].into_iter().filter_map(refusal).collect()
}

/// A cluster without its endpoints; `None` where the backend cannot be used.
pub fn cluster(world: &dyn World, key: &ClusterKey) -> Option<ClusterPlan> {
    let BackendView::Found { .. } = *world.backend_view(&key.backend) else { return None };
    planned_cluster(world, key)
}

/// The cluster by the backend's object alone, whether or not it may be used.
pub fn planned_cluster(world: &dyn World, key: &ClusterKey) -> Option<ClusterPlan> {
    let dns = match key.backend.kind {
        Kind::Service => {
            let service = world.service(&key.backend.name)?;
            service.external_name.iter().map(|host| (host.clone(), key.backend.port)).collect()
        }
        _ => world.backend(&key.backend.name).map(|backend| dns_names(&backend))?,
    };
    let discovery = if dns.is_empty() { Discovery::Endpoints } else { Discovery::Dns(dns) };
    Some(ClusterPlan { key: key.clone(), discovery })
}

/// With the name of the port, which policies may name.
fn of_service(service: &Service, port: u16) -> (BackendView, Option<Name>) {
    let name = &service.meta.name;
    let Some(found) = service_port(service, port) else {
        // An ExternalName Service needs no ports.
        if service.external_name.is_some() && service.ports.is_empty() {
            return (found_with(UpstreamProtocol::Http1), None);
        }
        let ports: Vec<String> = service.ports.iter().map(|port| port.port.to_string()).collect();
        let has = if ports.is_empty() { "it has none".to_owned() } else { format!("it has {}", ports.join(", ")) };
        return (BackendView::NotFound(format!("Service {name} has no port {port}; {has}").into()), None);
    };
    if found.protocol != TransportProtocol::Tcp {
        let message = format!("Port {port} of Service {name} is not a TCP port");
        return (BackendView::UnsupportedProtocol(message.into()), None);
    }
    let view = protocol(found.app_protocol.iter(), &|unknown| {
        format!("Port {port} of Service {name} has the appProtocol {unknown}, which is not supported")
    });
    (view, Some(found.name.clone()))
}

/// The port of this number, that of TCP where there are several.
pub(crate) fn service_port(service: &Service, port: u16) -> Option<&ServicePort> {
    let with = |tcp: bool| {
        service.ports.iter().find(|found| found.port == port && (found.protocol == TransportProtocol::Tcp) == tcp)
    };
    with(true).or_else(|| with(false))
}

fn of_backend(backend: &Backend) -> (BackendView, Option<Name>) {
    let name = &backend.meta.name;
    let mixes = !dns_names(backend).is_empty()
        && backend.endpoints.iter().any(|endpoint| matches!(endpoint, BackendEndpoint::Unix { .. }));
    if mixes {
        let message = format!("Backend {name} mixes fqdn and unix endpoints; make two Backends of it");
        return (BackendView::NotFound(message.into()), None);
    }
    let view = protocol(backend.app_protocols.iter(), &|unknown| {
        format!("Backend {name} has {unknown} among its appProtocols, which is not supported")
    });
    (view, None)
}

/// What Envoy resolves itself: everything as soon as one endpoint is a name, since a cluster has one way of discovery. Addresses
/// resolve to themselves.
fn dns_names(backend: &Backend) -> Vec<(Name, u16)> {
    if !backend.endpoints.iter().any(|endpoint| matches!(endpoint, BackendEndpoint::Fqdn { .. })) {
        return Vec::new();
    }
    let mut names: Vec<_> = backend
        .endpoints
        .iter()
        .filter_map(|endpoint| match endpoint {
            BackendEndpoint::Fqdn { hostname, port } => Some((hostname.clone(), *port)),
            BackendEndpoint::Ip { address, port } => Some((address.to_string().into(), *port)),
            BackendEndpoint::Unix { .. } => None,
        })
        .collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// Kubernetes' standard application protocols (KEP-3726) and the plain names in use. "If a Route is not able to send traffic to the
/// backend using the specified protocol then the backend is considered invalid" (HTTPBackendRef).
fn protocol<'a>(names: impl Iterator<Item = &'a Name>, unsupported: &dyn Fn(&str) -> String) -> BackendView {
    let mut protocol = UpstreamProtocol::Http1;
    for name in names {
        protocol = match name.strip_prefix("kubernetes.io/").unwrap_or(name).to_ascii_lowercase().as_str() {
            "" | "http" => protocol,
            "h2c" | "http2" | "grpc" => UpstreamProtocol::Http2,
            "ws" => UpstreamProtocol::WebSocket,
            _ => return BackendView::UnsupportedProtocol(Arc::from(unsupported(name))),
        };
    }
    found_with(protocol)
}

const fn found_with(protocol: UpstreamProtocol) -> BackendView {
    BackendView::Found { protocol, refused: Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::TestWorld;
    use portolan_model::NamespacedName;
    use portolan_model::ir::{EndpointAddress, EndpointsPlan};

    const OBJECTS: &str = "
apiVersion: v1
kind: Service
metadata: {name: web, namespace: ns}
spec:
  ipFamilies: [IPv6, IPv4]
  ports: [{name: http, port: 80}, {name: both, port: 53}, {name: udp, port: 53, protocol: UDP}]
---
apiVersion: v1
kind: Service
metadata: {name: outside, namespace: ns}
spec: {type: ExternalName, externalName: outside.test}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: web-v4, namespace: ns, labels: {kubernetes.io/service-name: web}}
addressType: IPv4
ports: [{name: http, port: 8080}, {name: other, port: 9090}]
endpoints:
- {addresses: [10.0.0.1, 10.0.0.9], zone: b}
- {addresses: [10.0.0.2], zone: a, conditions: {ready: false, serving: true, terminating: true}}
- {addresses: [10.0.0.3], conditions: {ready: false}}
- {addresses: [10.0.0.4], conditions: {ready: false, serving: false, terminating: true}}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: web-v4-more, namespace: ns, labels: {kubernetes.io/service-name: web}}
addressType: IPv4
ports: [{name: http, port: 8080}]
endpoints:
- {addresses: [10.0.0.2], zone: c}
- {addresses: [10.0.0.1], conditions: {ready: false, serving: true, terminating: true}}
---
";

    fn plan(manifests: &str, key: &ClusterKey) -> Option<EndpointsPlan> {
        endpoints(&TestWorld::read(manifests).unwrap(), key)
    }

    fn key(kind: Kind, name: &str, port: u16) -> ClusterKey {
        let backend = BackendId { kind, name: NamespacedName::new("ns", name), port };
        ClusterKey { backend, protocol: UpstreamProtocol::Http1 }
    }

    fn shown(plan: Option<EndpointsPlan>) -> Vec<String> {
        let localities = plan.into_iter().flat_map(|plan| plan.localities);
        localities
            .flat_map(|locality| {
                let zone = locality.zone;
                locality.endpoints.into_iter().map(move |endpoint| {
                    let address = match endpoint.address {
                        EndpointAddress::Socket(address, port) => std::net::SocketAddr::new(address, port).to_string(),
                        EndpointAddress::Unix(path) => path.to_string(),
                    };
                    format!("{zone}/{address}{}", if endpoint.draining { " draining" } else { "" })
                })
            })
            .collect()
    }

    #[test]
    fn endpoints_are_those_that_serve_each_once_in_its_zone() {
        let web = key(Kind::Service, "web", 80);
        assert_eq!(shown(plan(OBJECTS, &web)), ["b/10.0.0.1:8080", "c/10.0.0.2:8080"]);
        // The first family of the Service that has something is used, and it alone.
        let v6 = "
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: web-v6, namespace: ns, labels: {kubernetes.io/service-name: web}}
addressType: IPv6
ports: [{name: http, port: 8080}]
endpoints: [{addresses: ['fd00::1']}]
---
";
        assert_eq!(shown(plan(&format!("{OBJECTS}{v6}"), &web)), ["/[fd00::1]:8080"]);
        let draining =
            v6.replace("['fd00::1']", "['fd00::1'], conditions: {ready: false, terminating: true, serving: true}");
        assert_eq!(shown(plan(&format!("{OBJECTS}{draining}"), &web)), ["b/10.0.0.1:8080", "c/10.0.0.2:8080"]);
    }

    #[test]
    fn a_service_without_endpoints_has_an_empty_set() {
        assert_eq!(plan(OBJECTS, &key(Kind::Service, "web", 53)).unwrap().localities, []);
        assert_eq!(plan(OBJECTS, &key(Kind::Service, "web", 99)), None);
        assert_eq!(plan(OBJECTS, &key(Kind::Service, "none", 80)), None);
    }

    #[test]
    fn names_are_resolved_by_envoy() {
        let backend = "
apiVersion: portolan.dev/v1alpha1
kind: Backend
metadata: {name: mixed, namespace: ns}
spec: {endpoints: [{fqdn: {hostname: b.test, port: 80}}, {ip: {address: 192.0.2.1, port: 81}}]}
---
apiVersion: portolan.dev/v1alpha1
kind: Backend
metadata: {name: local, namespace: ns}
spec: {endpoints: [{unix: {path: /run/a.sock}}, {ip: {address: 192.0.2.1, port: 81}}], appProtocols: [kubernetes.io/h2c]}
---
apiVersion: portolan.dev/v1alpha1
kind: Backend
metadata: {name: wrong, namespace: ns}
spec: {endpoints: [{unix: {path: /run/a.sock}}, {fqdn: {hostname: b.test, port: 80}}]}
---
";
        let world = TestWorld::read(&format!("{OBJECTS}{backend}")).unwrap();
        let discovery = |key: &ClusterKey| cluster(&world, key).map(|plan| plan.discovery);
        let outside = key(Kind::Service, "outside", 8443);
        assert_eq!(discovery(&outside), Some(Discovery::Dns(vec![("outside.test".into(), 8443)])));
        assert_eq!(endpoints(&world, &outside), None);
        let mixed = key(Kind::Backend, "mixed", 0);
        assert_eq!(discovery(&mixed), Some(Discovery::Dns(vec![("192.0.2.1".into(), 81), ("b.test".into(), 80)])));
        let local = key(Kind::Backend, "local", 0);
        assert_eq!(discovery(&local), Some(Discovery::Endpoints));
        assert_eq!(shown(endpoints(&world, &local)), ["/192.0.2.1:81", "//run/a.sock"]);
        assert_eq!(view(&world, &local.backend), found_with(UpstreamProtocol::Http2));
        assert!(matches!(view(&world, &key(Kind::Backend, "wrong", 0).backend), BackendView::NotFound(_)));
        assert_eq!(discovery(&key(Kind::Backend, "wrong", 0)), None);
    }

    #[test]
    fn certificates_are_held_until_usable() {
        use portolan_model::ir::SecretState;
        let world = TestWorld::read(&crate::testing::certificate("ns", "good", &["a.test"])).unwrap();
        let state = |name: &str| crate::secret::plan(&world, &NamespacedName::new("ns", name)).state;
        assert!(matches!(state("good"), SecretState::Usable { .. }));
        assert_eq!(state("none"), SecretState::Held);
    }
}
