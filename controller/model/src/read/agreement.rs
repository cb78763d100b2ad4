//! The types of the crate `gateway-api`, which are generated from the CRDs of the standard channel, read the same objects to the same
//! content: those in `conformance/crds/manifests` that the standard channel accepts.

use std::sync::Arc;

use gateway_api::apis::standard::{
    backendtlspolicies, gateways, grpcroutes, httproutes, listenersets, referencegrants, tlsroutes,
};
use serde::de::DeserializeOwned;
use serde_json::json;

use super::document::{self, Node, Value};
use crate::objects::Object;

const MANIFESTS: [&str; 5] = [
    include_str!("../../../../conformance/crds/manifests/gateway.yaml"),
    include_str!("../../../../conformance/crds/manifests/grpcroute.yaml"),
    include_str!("../../../../conformance/crds/manifests/httproute.yaml"),
    include_str!("../../../../conformance/crds/manifests/layer4.yaml"),
    include_str!("../../../../conformance/crds/manifests/others.yaml"),
];

fn to_json(node: &Node) -> serde_json::Value {
    match &node.value {
        Value::Null => json!(null),
        Value::Bool(value) => json!(value),
        Value::Integer(value) => json!(value),
        Value::Float(value) => json!(value),
        Value::Text(value) => json!(&**value),
        Value::List(items) => items.iter().map(to_json).collect(),
        Value::Map(entries) => entries.iter().map(|entry| (entry.key.to_string(), to_json(&entry.value))).collect(),
    }
}

fn typed<T: DeserializeOwned>(object: &serde_json::Value) -> T {
    serde_json::from_value(object.clone()).unwrap_or_else(|error| panic!("{error}: {object}"))
}

/// What is compared of a kind, as our reader has it and as the crate has it.
fn contents(object: &Object, json: &serde_json::Value) -> Option<(serde_json::Value, serde_json::Value)> {
    let pair = match object {
        Object::HttpRoute(ours) => {
            let theirs = typed::<httproutes::HttpRoute>(json).spec;
            let rules = theirs.rules.unwrap_or_default();
            (
                json!([
                    ours.hostnames.iter().map(|name| &**name).collect::<Vec<_>>(),
                    ours.parents
                        .iter()
                        .map(|parent| json!([&*parent.name, parent.section_name.as_deref(), parent.port]))
                        .collect::<Vec<_>>(),
                    ours.rules
                        .iter()
                        .map(|rule| json!([
                            rule.name.as_deref(),
                            rule.filters.len(),
                            rule.backends
                                .iter()
                                .map(|to| json!([&*to.target.name, to.port, to.weight, to.filters.len()]))
                                .collect::<Vec<_>>(),
                        ]))
                        .collect::<Vec<_>>(),
                ]),
                json!([
                    theirs.hostnames.unwrap_or_default(),
                    theirs
                        .parent_refs
                        .unwrap_or_default()
                        .iter()
                        .map(|parent| json!([parent.name, parent.section_name, parent.port]))
                        .collect::<Vec<_>>(),
                    rules
                        .iter()
                        .map(|rule| json!([
                            rule.name,
                            rule.filters.iter().flatten().count(),
                            rule.backend_refs
                                .iter()
                                .flatten()
                                .map(|to| json!([
                                    to.name,
                                    to.port,
                                    to.weight.unwrap_or(1),
                                    to.filters.iter().flatten().count()
                                ]))
                                .collect::<Vec<_>>(),
                        ]))
                        .collect::<Vec<_>>(),
                ]),
            )
        }
        Object::GrpcRoute(ours) => {
            let theirs = typed::<grpcroutes::GrpcRoute>(json).spec;
            (
                json!(
                    ours.rules
                        .iter()
                        .map(|rule| (rule.matches.len(), rule.filters.len(), rule.backends.len()))
                        .collect::<Vec<_>>()
                ),
                json!(
                    theirs
                        .rules
                        .iter()
                        .flatten()
                        .map(|rule| (
                            rule.matches.iter().flatten().count(),
                            rule.filters.iter().flatten().count(),
                            rule.backend_refs.iter().flatten().count()
                        ))
                        .collect::<Vec<_>>()
                ),
            )
        }
        Object::Gateway(ours) => {
            let theirs = typed::<gateways::Gateway>(json).spec;
            (
                json!([
                    &*ours.class,
                    ours.addresses.len(),
                    ours.listeners
                        .iter()
                        .map(|one| json!([&*one.name, one.port, one.hostname.as_deref()]))
                        .collect::<Vec<_>>()
                ]),
                json!([
                    theirs.gateway_class_name,
                    theirs.addresses.iter().flatten().count(),
                    theirs.listeners.iter().map(|one| json!([one.name, one.port, one.hostname])).collect::<Vec<_>>()
                ]),
            )
        }
        Object::ListenerSet(ours) => {
            let theirs = typed::<listenersets::ListenerSet>(json).spec;
            (json!([&*ours.parent.name, ours.listeners.len()]), json!([theirs.parent_ref.name, theirs.listeners.len()]))
        }
        Object::ReferenceGrant(ours) => {
            let theirs = typed::<referencegrants::ReferenceGrant>(json).spec;
            (json!([ours.from.len(), ours.to.len()]), json!([theirs.from.len(), theirs.to.len()]))
        }
        Object::BackendTlsPolicy(ours) => {
            let theirs = typed::<backendtlspolicies::BackendTlsPolicy>(json).spec;
            (
                json!([ours.targets.len(), &*ours.hostname]),
                json!([theirs.target_refs.len(), theirs.validation.hostname]),
            )
        }
        Object::L4Route(ours) if ours.kind == crate::Kind::TLSRoute => {
            let theirs = typed::<tlsroutes::TlsRoute>(json).spec;
            (json!([ours.hostnames.len(), ours.rules.len()]), json!([theirs.hostnames.len(), theirs.rules.len()]))
        }
        _ => return None,
    };
    Some(pair)
}

#[test]
fn the_generated_types_read_the_same() {
    let file: Arc<str> = Arc::from("a.yaml");
    let mut compared = 0;
    for text in MANIFESTS {
        for document in document::read(text.as_bytes(), |document, all| all.push(document.clone())).expect("readable") {
            let manifest = super::kinds::read_one(&file, &document);
            let refused = manifest.name.name.starts_with("refused");
            assert_eq!(
                manifest.is_refused_by(super::Channel::Experimental),
                refused,
                "{} {:?}",
                manifest.name,
                manifest.violations
            );
            if manifest.is_refused_by(super::Channel::Standard) {
                continue;
            }
            let object = manifest.object.expect("an object");
            if let Some((ours, theirs)) = contents(&object, &to_json(&document)) {
                assert_eq!(ours, theirs, "{}", manifest.name);
                compared += 1;
            }
        }
    }
    assert!(compared >= 9, "{compared}");
}
