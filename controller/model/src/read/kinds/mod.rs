//! One reader per kind, and the parts that several kinds share.

mod access_log;
mod backend;
mod backend_tls_policy;
mod config_map;
mod cors;
mod endpoint_slice;
mod envoy_proxy;
mod external_auth;
mod forms;
mod gateway;
mod gateway_class;
mod gateway_tls;
mod grpc_match;
mod grpc_route;
mod headers;
mod http_filter;
mod http_match;
mod http_route;
mod infrastructure;
mod label_selector;
mod layer4;
mod listener;
mod listener_set;
pub(super) mod metadata;
mod mirror;
mod namespace;
mod path_modifier;
mod reference_grant;
mod references;
mod retry;
mod secret;
mod service;
mod session_persistence;

use std::sync::Arc;

use super::document::{Node, Position, Value};
use super::schema::{Fields, Reader, similar};
use super::{Channel, Manifest, Severity};
use crate::objects::{Meta, Object};
use crate::{GATEWAY_GROUP, Kind, NamespacedName, ObjectKey, PORTOLAN_GROUP};

use metadata::Metadata;

/// Every pattern, for the test that compiles them.
#[cfg(test)]
pub(super) static PATTERNS: &[&super::schema::Pattern] = &[
    &super::schema::DURATION,
    &forms::LABEL_PATTERN,
    &forms::SUBDOMAIN_PATTERN,
    &forms::GROUP_PATTERN,
    &forms::KIND_PATTERN,
    &forms::HOSTNAME_PATTERN,
    &forms::HEADER_NAME_PATTERN,
    &forms::HEADER_VALUE_PATTERN,
    &forms::PATH_PATTERN,
    &forms::CONTROLLER_NAME_PATTERN,
    &backend_tls_policy::URI,
    &backend_tls_policy::WELL_KNOWN,
    &cors::ORIGIN,
    &envoy_proxy::QUANTITY,
    &gateway::ADDRESS_TYPE,
    &grpc_match::SERVICE,
    &grpc_match::METHOD,
    &infrastructure::KEY,
    &infrastructure::LABEL_VALUE,
    &listener::PROTOCOL,
    &metadata::NAMESPACE_PATTERN,
    &metadata::TIME,
];

/// Visits the objects of a document: itself, or the items of a list.
pub(super) fn each_object(document: &Node, visit: &mut impl FnMut(&Node)) {
    let is_list = document.get("kind").and_then(Node::as_text).is_some_and(|kind| kind.ends_with("List"));
    match document.get("items").map(|items| &items.value) {
        Some(Value::List(items)) if is_list => {
            for item in items {
                each_object(item, visit);
            }
        }
        _ if is_list && document.get("items").is_none() => {}
        _ => visit(document),
    }
}

/// The JSON schema of `spec` of one of Portolan's own kinds, as its reader reads it.
pub(super) fn schema_of_spec(kind: Kind) -> serde_json::Value {
    let mut reader = Reader::sketching();
    let meta = Meta { created: 0, name: NamespacedName::new("", "") };
    reader.object(super::schema::nothing(), |fields| spec(fields, kind, "v1alpha1", meta));
    reader.sketch()
}

/// Reads an object.
pub(super) fn read_one(file: &Arc<str>, document: &Node) -> Manifest {
    let mut reader = Reader::new(file);
    let mut manifest = Manifest {
        location: reader.location(document.at),
        api_version: String::new(),
        kind: String::new(),
        name: NamespacedName::new("", ""),
        key: None,
        object: None,
        bookkeeping: crate::objects::Bookkeeping::default(),
        violations: Vec::new(),
    };
    let text = |field| document.get(field).and_then(Node::as_text).map(ToString::to_string);
    match (text("apiVersion"), text("kind"), &document.value) {
        (Some(version), Some(kind), Value::Map(_)) => {
            manifest.api_version = version;
            manifest.kind = kind;
            object(&mut reader, document, &mut manifest);
        }
        (version, kind, Value::Map(_)) => {
            manifest.api_version = version.unwrap_or_default();
            manifest.kind = kind.unwrap_or_default();
            let field = if manifest.api_version.is_empty() { "apiVersion" } else { "kind" };
            reader.refuse(
                document.at,
                field,
                "is required: this is no Kubernetes object; keep other files out of the directory",
            );
        }
        _ => reader.mistyped(document, "a Kubernetes object"),
    }
    manifest.violations = reader.violations;
    // Refused by each channel, if for different reasons: no API server takes the object.
    if [Channel::Standard, Channel::Experimental].iter().all(|channel| manifest.is_refused_by(*channel)) {
        for violation in manifest.violations.iter_mut().filter(|violation| violation.channel.is_some()) {
            violation.severity = Severity::Error;
        }
    }
    manifest
}

fn object(reader: &mut Reader, document: &Node, manifest: &mut Manifest) {
    let (group, version) = manifest.api_version.rsplit_once('/').unwrap_or(("", &manifest.api_version));
    let kind = Kind::find(group, &manifest.kind);
    reader.object = Some(manifest.kind.clone());
    let metadata = reader.part_of_object(document, |fields| metadata::read(fields, kind));
    manifest.name = metadata.name.clone();
    manifest.bookkeeping = metadata.bookkeeping.clone();
    reader.object = Some(format!("{} {}", manifest.kind, manifest.name));
    let Some(kind) = kind else {
        not_read(reader, document.at, group, &manifest.kind);
        return;
    };
    manifest.key = Some(ObjectKey::new(kind, manifest.name.clone()));
    if !check_version(reader, document.at, kind, version) {
        return;
    }
    let object = read_kind(reader, document, kind, version, metadata);
    manifest.object = (!reader.incomplete).then_some(object);
}

/// Kinds that Portolan does not read are none of its business, except where somebody may think otherwise.
fn not_read(reader: &mut Reader, at: Position, group: &str, kind: &str) {
    reader.violations.clear();
    if group == GATEWAY_GROUP || group == PORTOLAN_GROUP {
        let known = Kind::ALL.into_iter().filter(|known| known.group() == group).map(Kind::as_str);
        let hint = similar(kind, known).map_or_else(String::new, |known| format!("; did you mean `{known}`?"));
        reader.warn(at, "kind", format!("Portolan knows no {kind} in the group {group}: ignored{hint}"));
    } else if group == "gateway.networking.x-k8s.io" {
        reader.warn(at, "kind", format!("{kind} is an experimental kind that Portolan does not support: ignored"));
    } else if group.is_empty() || group == "discovery.k8s.io" {
        let known = Kind::ALL.into_iter().filter(|known| known.group() == group).map(Kind::as_str);
        // Pod is near to nothing that is read; Secrets and EndpointSlices written wrongly are near to themselves.
        if let Some(known) = similar(kind, known) {
            reader.warn(
                at,
                "kind",
                format!("Portolan does not read the kind {kind}: ignored; did you mean `{known}`?"),
            );
        }
    }
}

/// The versions that are served: by both channels' CRDs, and by those of the experimental channel alone.
pub(super) const fn versions(kind: Kind) -> (&'static [&'static str], &'static [&'static str]) {
    match kind {
        Kind::GatewayClass | Kind::Gateway | Kind::HTTPRoute | Kind::ReferenceGrant => (&["v1", "v1beta1"], &[]),
        Kind::GRPCRoute | Kind::ListenerSet => (&["v1"], &[]),
        Kind::BackendTLSPolicy => (&["v1"], &["v1alpha3"]),
        Kind::TLSRoute => (&["v1"], &["v1alpha2", "v1alpha3"]),
        Kind::TCPRoute | Kind::UDPRoute => (&["v1"], &["v1alpha2"]),
        Kind::Backend | Kind::EnvoyProxy => (&["v1alpha1"], &[]),
        Kind::Namespace | Kind::Service | Kind::EndpointSlice | Kind::Secret | Kind::ConfigMap => (&["v1"], &[]),
    }
}

fn check_version(reader: &mut Reader, at: Position, kind: Kind, version: &str) -> bool {
    let (served, experimental) = versions(kind);
    if experimental.contains(&version) {
        let message = format!("{version} of {kind} is deprecated: write v1");
        reader.refuse_in(Channel::Standard, at, "apiVersion", message);
    } else if !served.contains(&version) {
        let group = kind.group();
        let current = served.first().copied().unwrap_or_default();
        let current = if group.is_empty() { current.to_owned() } else { format!("{group}/{current}") };
        reader.refuse(at, "apiVersion", format!("no version {version} of {kind} is served: write {current}"));
        return false;
    }
    true
}

fn read_kind(reader: &mut Reader, document: &Node, kind: Kind, version: &str, metadata: Metadata) -> Object {
    let meta = Meta { created: metadata.created, name: metadata.name.clone() };
    match kind {
        Kind::Namespace => Object::Namespace(Arc::new(namespace::read(meta, metadata.labels))),
        Kind::Service => Object::Service(Arc::new(reader.part_of_object(document, |f| service::read(f, meta)))),
        Kind::EndpointSlice => Object::EndpointSlice(Arc::new(
            reader.part_of_object(document, |f| endpoint_slice::read(f, meta, &metadata.labels)),
        )),
        Kind::Secret => Object::Secret(Arc::new(reader.part_of_object(document, |f| secret::read(f, meta)))),
        Kind::ConfigMap => Object::ConfigMap(Arc::new(reader.part_of_object(document, |f| config_map::read(f, meta)))),
        _ => reader.object(document, |fields| {
            for field in ["apiVersion", "kind", "metadata"] {
                fields.skip(field);
            }
            // An API server drops a status that is written together with the object.
            if kind != Kind::ReferenceGrant {
                fields.skip("status");
            }
            fields.required("spec", |reader, node| reader.object(node, |fields| spec(fields, kind, version, meta)))
        }),
    }
}

fn spec(fields: &mut Fields<'_>, kind: Kind, version: &str, meta: Meta) -> Object {
    match kind {
        Kind::GatewayClass => Object::GatewayClass(Arc::new(gateway_class::read(fields, meta))),
        Kind::Gateway => Object::Gateway(Arc::new(gateway::read(fields, meta))),
        Kind::ListenerSet => Object::ListenerSet(Arc::new(listener_set::read(fields, meta))),
        Kind::HTTPRoute => Object::HttpRoute(Arc::new(http_route::read(fields, meta))),
        Kind::GRPCRoute => Object::GrpcRoute(Arc::new(grpc_route::read(fields, meta))),
        Kind::ReferenceGrant => Object::ReferenceGrant(Arc::new(reference_grant::read(fields, meta))),
        Kind::BackendTLSPolicy => Object::BackendTlsPolicy(Arc::new(backend_tls_policy::read(fields, meta))),
        Kind::Backend => Object::Backend(Arc::new(backend::read(fields, meta))),
        Kind::EnvoyProxy => Object::EnvoyProxy(Arc::new(envoy_proxy::read(fields, meta))),
        // The rest are the kinds of layer 4; those without a spec were read before.
        _ => Object::L4Route(Arc::new(layer4::read(fields, meta, kind, version))),
    }
}
