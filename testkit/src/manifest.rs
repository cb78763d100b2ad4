//! Manifests in the form in which users write them.

use std::fmt::Write as _;
use std::net::SocketAddr;

/// GatewayClass and Gateway: one plain-text port for every host; on the TLS port, if any, `app.example` and `other.example`, each with a
/// certificate of its own.
pub fn gateway(http: SocketAddr, https: Option<SocketAddr>) -> String {
    let mut text = format!(
        "apiVersion: gateway.networking.k8s.io/v1
kind: GatewayClass
metadata:
  name: portolan
spec:
  controllerName: portolan.dev/gateway-controller
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata:
  name: web
spec:
  gatewayClassName: portolan
  addresses:
  - type: IPAddress
    value: {}
  listeners:
  - name: http
    protocol: HTTP
    port: {}
",
        http.ip(),
        http.port()
    );
    let tls = ["app", "other"].into_iter().filter_map(|name| Some((name, https?.port())));
    for (name, port) in tls {
        let _infallible = write!(
            text,
            "  - name: https-{name}
    protocol: HTTPS
    port: {port}
    hostname: {name}.example
    tls:
      certificateRefs:
      - name: {name}
"
        );
    }
    text
}

/// A Service with these endpoints, which share a port.
pub fn service(name: &str, endpoints: &[SocketAddr]) -> String {
    let port = endpoints.first().map_or(0, SocketAddr::port);
    let mut text = format!(
        "---
apiVersion: v1
kind: Service
metadata:
  name: {name}
spec:
  ports:
  - name: http
    port: 80
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata:
  name: {name}-x
  labels:
    kubernetes.io/service-name: {name}
addressType: IPv4
ports:
- name: http
  port: {port}
endpoints:
"
    );
    for endpoint in endpoints {
        let _infallible = writeln!(text, "- addresses: [{}]", endpoint.ip());
    }
    text
}

/// A route of one host; each rule is a path prefix and a Service, and sets the request header `x-version`.
pub fn route(name: &str, host: &str, rules: &[(&str, &str)], version: usize) -> String {
    let mut text = route_of(name, host);
    for (path, service) in rules {
        let _infallible = write!(
            text,
            "  - matches:
    - path:
        type: PathPrefix
        value: {path}
    filters:
    - type: RequestHeaderModifier
      requestHeaderModifier:
        set:
        - name: x-version
          value: \"{version}\"
    backendRefs:
    - name: {service}
      port: 80
"
        );
    }
    text
}

/// A route of one host to one Service, whatever the path.
pub fn plain_route(name: &str, host: &str, service: &str) -> String {
    route_of(name, host) + &format!("  - backendRefs:\n    - name: {service}\n      port: 80\n")
}

fn route_of(name: &str, host: &str) -> String {
    format!(
        "---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata:
  name: {name}
spec:
  parentRefs:
  - name: web
  hostnames:
  - {host}
  rules:
"
    )
}
