//! The defaults that an API server fills in: those of the CRDs of Gateway API v1.6.3 (experimental channel) and, of Kubernetes' own
//! kinds, those of fields that Portolan reads. `conformance/crds` compares the outcome with the API server's.

use serde_json::{Map, Value};

use crate::Kind;

/// By path, the default as JSON. A path comes before those below it, so that a default's own fields get theirs.
const fn table(kind: Kind) -> &'static [(&'static str, &'static str)] {
    match kind {
        Kind::HTTPRoute => HTTP_ROUTE,
        Kind::GRPCRoute => GRPC_ROUTE,
        Kind::TLSRoute | Kind::TCPRoute | Kind::UDPRoute => LAYER_4_ROUTE,
        Kind::Gateway => GATEWAY,
        Kind::ListenerSet => LISTENER_SET,
        Kind::Service => SERVICE,
        Kind::EndpointSlice => ENDPOINT_SLICE,
        Kind::Secret => SECRET,
        Kind::GatewayClass
        | Kind::ReferenceGrant
        | Kind::BackendTLSPolicy
        | Kind::Backend
        | Kind::EnvoyProxy
        | Kind::Namespace
        | Kind::ConfigMap => &[],
    }
}

const HTTP_ROUTE: &[(&str, &str)] = &[
    ("spec.parentRefs[].group", r#""gateway.networking.k8s.io""#),
    ("spec.parentRefs[].kind", r#""Gateway""#),
    ("spec.rules", r#"[{"matches":[{"path":{"type":"PathPrefix","value":"/"}}]}]"#),
    ("spec.rules[].backendRefs[].filters[].cors.maxAge", "5"),
    ("spec.rules[].backendRefs[].filters[].externalAuth.backendRef.group", r#""""#),
    ("spec.rules[].backendRefs[].filters[].externalAuth.backendRef.kind", r#""Service""#),
    ("spec.rules[].backendRefs[].filters[].requestMirror.backendRef.group", r#""""#),
    ("spec.rules[].backendRefs[].filters[].requestMirror.backendRef.kind", r#""Service""#),
    ("spec.rules[].backendRefs[].filters[].requestMirror.fraction.denominator", "100"),
    ("spec.rules[].backendRefs[].filters[].requestRedirect.statusCode", "302"),
    ("spec.rules[].backendRefs[].group", r#""""#),
    ("spec.rules[].backendRefs[].kind", r#""Service""#),
    ("spec.rules[].backendRefs[].weight", "1"),
    ("spec.rules[].filters[].cors.maxAge", "5"),
    ("spec.rules[].filters[].externalAuth.backendRef.group", r#""""#),
    ("spec.rules[].filters[].externalAuth.backendRef.kind", r#""Service""#),
    ("spec.rules[].filters[].requestMirror.backendRef.group", r#""""#),
    ("spec.rules[].filters[].requestMirror.backendRef.kind", r#""Service""#),
    ("spec.rules[].filters[].requestMirror.fraction.denominator", "100"),
    ("spec.rules[].filters[].requestRedirect.statusCode", "302"),
    ("spec.rules[].matches", r#"[{"path":{"type":"PathPrefix","value":"/"}}]"#),
    ("spec.rules[].matches[].headers[].type", r#""Exact""#),
    ("spec.rules[].matches[].path", r#"{"type":"PathPrefix","value":"/"}"#),
    ("spec.rules[].matches[].path.type", r#""PathPrefix""#),
    ("spec.rules[].matches[].path.value", r#""/""#),
    ("spec.rules[].matches[].queryParams[].type", r#""Exact""#),
    ("spec.rules[].sessionPersistence.cookieConfig.lifetimeType", r#""Session""#),
    ("spec.rules[].sessionPersistence.type", r#""Cookie""#),
];

const GRPC_ROUTE: &[(&str, &str)] = &[
    ("spec.parentRefs[].group", r#""gateway.networking.k8s.io""#),
    ("spec.parentRefs[].kind", r#""Gateway""#),
    ("spec.rules[].backendRefs[].filters[].requestMirror.backendRef.group", r#""""#),
    ("spec.rules[].backendRefs[].filters[].requestMirror.backendRef.kind", r#""Service""#),
    ("spec.rules[].backendRefs[].filters[].requestMirror.fraction.denominator", "100"),
    ("spec.rules[].backendRefs[].group", r#""""#),
    ("spec.rules[].backendRefs[].kind", r#""Service""#),
    ("spec.rules[].backendRefs[].weight", "1"),
    ("spec.rules[].filters[].requestMirror.backendRef.group", r#""""#),
    ("spec.rules[].filters[].requestMirror.backendRef.kind", r#""Service""#),
    ("spec.rules[].filters[].requestMirror.fraction.denominator", "100"),
    ("spec.rules[].matches[].headers[].type", r#""Exact""#),
    ("spec.rules[].matches[].method.type", r#""Exact""#),
    ("spec.rules[].sessionPersistence.cookieConfig.lifetimeType", r#""Session""#),
    ("spec.rules[].sessionPersistence.type", r#""Cookie""#),
];

const LAYER_4_ROUTE: &[(&str, &str)] = &[
    ("spec.parentRefs[].group", r#""gateway.networking.k8s.io""#),
    ("spec.parentRefs[].kind", r#""Gateway""#),
    ("spec.rules[].backendRefs[].group", r#""""#),
    ("spec.rules[].backendRefs[].kind", r#""Service""#),
    ("spec.rules[].backendRefs[].weight", "1"),
];

const GATEWAY: &[(&str, &str)] = &[
    ("spec.addresses[].type", r#""IPAddress""#),
    ("spec.allowedListeners.namespaces", r#"{"from":"None"}"#),
    ("spec.allowedListeners.namespaces.from", r#""None""#),
    ("spec.listeners[].allowedRoutes", r#"{"namespaces":{"from":"Same"}}"#),
    ("spec.listeners[].allowedRoutes.kinds[].group", r#""gateway.networking.k8s.io""#),
    ("spec.listeners[].allowedRoutes.namespaces", r#"{"from":"Same"}"#),
    ("spec.listeners[].allowedRoutes.namespaces.from", r#""Same""#),
    ("spec.listeners[].tls.certificateRefs[].group", r#""""#),
    ("spec.listeners[].tls.certificateRefs[].kind", r#""Secret""#),
    ("spec.listeners[].tls.mode", r#""Terminate""#),
    ("spec.tls.backend.clientCertificateRef.group", r#""""#),
    ("spec.tls.backend.clientCertificateRef.kind", r#""Secret""#),
    ("spec.tls.frontend.default.validation.mode", r#""AllowValidOnly""#),
    ("spec.tls.frontend.perPort[].tls.validation.mode", r#""AllowValidOnly""#),
];

const LISTENER_SET: &[(&str, &str)] = &[
    ("spec.listeners[].allowedRoutes", r#"{"namespaces":{"from":"Same"}}"#),
    ("spec.listeners[].allowedRoutes.kinds[].group", r#""gateway.networking.k8s.io""#),
    ("spec.listeners[].allowedRoutes.namespaces", r#"{"from":"Same"}"#),
    ("spec.listeners[].allowedRoutes.namespaces.from", r#""Same""#),
    ("spec.listeners[].tls.certificateRefs[].group", r#""""#),
    ("spec.listeners[].tls.certificateRefs[].kind", r#""Secret""#),
    ("spec.listeners[].tls.mode", r#""Terminate""#),
    ("spec.parentRef.group", r#""gateway.networking.k8s.io""#),
    ("spec.parentRef.kind", r#""Gateway""#),
];

const SERVICE: &[(&str, &str)] =
    &[("spec.ports[].protocol", r#""TCP""#), ("spec.sessionAffinity", r#""None""#), ("spec.type", r#""ClusterIP""#)];

const ENDPOINT_SLICE: &[(&str, &str)] = &[("ports[].name", r#""""#), ("ports[].protocol", r#""TCP""#)];

const SECRET: &[(&str, &str)] = &[("type", r#""Opaque""#)];

/// Fills in what is not given.
pub(super) fn fill_in(kind: Kind, object: &mut Value) {
    for (path, default) in table(kind) {
        // Not JSON: a test says that all are.
        let Ok(default) = serde_json::from_str(default) else { continue };
        fill_in_at(object, path, &default);
    }
    if kind == Kind::Service {
        target_ports(object);
    }
}

fn fill_in_at(value: &mut Value, path: &str, default: &Value) {
    let (step, rest) = path.split_once('.').map_or((path, None), |(step, rest)| (step, Some(rest)));
    let Some(fields) = value.as_object_mut() else { return };
    match (step.strip_suffix("[]"), rest) {
        (None, None) => {
            if !fields.contains_key(step) {
                fields.insert(step.to_owned(), default.clone());
            }
        }
        (None, Some(rest)) => {
            if let Some(below) = fields.get_mut(step) {
                fill_in_at(below, rest, default);
            }
        }
        (Some(list), Some(rest)) => {
            for item in fields.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
                fill_in_at(item, rest, default);
            }
        }
        // Items have no defaults of their own.
        (Some(_), None) => {}
    }
}

/// A port without a targetPort is forwarded to the same number.
fn target_ports(service: &mut Value) {
    let ports = service.pointer_mut("/spec/ports").and_then(Value::as_array_mut);
    for port in ports.into_iter().flatten().filter_map(Value::as_object_mut) {
        let number = Map::get(port, "port").cloned();
        if let (false, Some(number)) = (port.contains_key("targetPort"), number) {
            port.insert("targetPort".into(), number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn tables_are_in_order() {
        for kind in Kind::ALL {
            assert!(table(kind).is_sorted_by_key(|(path, _)| *path), "{kind:?}");
            for (path, default) in table(kind) {
                serde_json::from_str::<Value>(default).unwrap_or_else(|error| panic!("{path}: {error}"));
            }
        }
    }

    #[test]
    fn what_is_given_stays_and_defaults_get_theirs() {
        let mut route =
            json!({"spec": {"rules": [{"matches": [{"path": {"value": "/a"}}], "backendRefs": [{"name": "a"}]}]}});
        fill_in(Kind::HTTPRoute, &mut route);
        let rule = &route["spec"]["rules"][0];
        assert_eq!(rule["matches"], json!([{"path": {"value": "/a", "type": "PathPrefix"}}]));
        assert_eq!(rule["backendRefs"], json!([{"name": "a", "group": "", "kind": "Service", "weight": 1}]));
        let mut route = json!({"spec": {}});
        fill_in(Kind::HTTPRoute, &mut route);
        assert_eq!(route["spec"]["rules"][0]["matches"][0]["path"]["value"], "/");
        let mut service = json!({"spec": {"ports": [{"port": 80}, {"port": 81, "targetPort": "http"}]}});
        fill_in(Kind::Service, &mut service);
        assert_eq!(service["spec"]["ports"][0], json!({"port": 80, "protocol": "TCP", "targetPort": 80}));
        assert_eq!(service["spec"]["ports"][1]["targetPort"], "http");
    }
}
