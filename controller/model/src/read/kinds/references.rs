//! References between objects.

use std::sync::Arc;

use super::super::Channel;
use super::super::document::Node;
use super::super::schema::{Fields, Reader};
use super::forms::{GROUP, KIND, NAMESPACE, OBJECT_NAME, SECTION_NAME};
use crate::objects::{BackendRef, ObjectRef, ParentRef};
use crate::{GATEWAY_GROUP, Name};

/// LocalObjectReference: group and kind are required, the namespace is the referring object's.
pub(super) fn local(reader: &mut Reader, node: &Node) -> ObjectRef {
    reader.object(node, |fields| ObjectRef {
        group: fields.required_text("group", &GROUP),
        kind: fields.required_text("kind", &KIND),
        namespace: None,
        name: fields.required_text("name", &OBJECT_NAME),
    })
}

/// ObjectReference: group and kind are required, the namespace is free.
pub(super) fn object(reader: &mut Reader, node: &Node) -> ObjectRef {
    reader.object(node, |fields| ObjectRef {
        group: fields.required_text("group", &GROUP),
        kind: fields.required_text("kind", &KIND),
        namespace: fields.text("namespace", &NAMESPACE),
        name: fields.required_text("name", &OBJECT_NAME),
    })
}

/// SecretObjectReference: a Secret unless it says otherwise.
pub(super) fn secret(reader: &mut Reader, node: &Node) -> ObjectRef {
    reader.object(node, |fields| with_defaults(fields, "Secret"))
}

fn with_defaults(fields: &mut Fields<'_>, kind: &str) -> ObjectRef {
    ObjectRef {
        group: fields.text("group", &GROUP).unwrap_or_default(),
        kind: fields.text("kind", &KIND).unwrap_or_else(|| Arc::from(kind)),
        namespace: fields.text("namespace", &NAMESPACE),
        name: fields.required_text("name", &OBJECT_NAME),
    }
}

/// BackendObjectReference: a Service unless it says otherwise, and its port.
pub(super) fn backend_object(fields: &mut Fields<'_>) -> (ObjectRef, Option<u16>) {
    let target = with_defaults(fields, "Service");
    let port = fields.port("port");
    // Whatever else may be wrong with the port, it is there.
    if target.group.is_empty() && &*target.kind == "Service" && !fields.has("port") {
        fields.refuse("", "a reference to a Service needs a port");
    }
    (target, port)
}

/// `backendRefs[]`, with the filters that the kind of route has there.
pub(super) fn backend<F>(
    reader: &mut Reader,
    node: &Node,
    filters: impl FnOnce(&mut Fields<'_>) -> Vec<F>,
) -> BackendRef<F> {
    reader.object(node, |fields| {
        let (target, port) = backend_object(fields);
        BackendRef {
            target,
            port,
            weight: fields.unsigned("weight", 0..=1_000_000).unwrap_or(1),
            filters: filters(fields),
        }
    })
}

/// `parentRefs` of a route.
pub(super) fn parents(fields: &mut Fields<'_>) -> Vec<ParentRef> {
    let parents = fields.list("parentRefs", 0..=32, |reader, node| {
        reader.object(node, |fields| ParentRef {
            section_name: fields.text("sectionName", &SECTION_NAME),
            port: fields.port("port"),
            ..parent(fields)
        })
    });
    check_parents(fields, &parents);
    parents
}

/// The fields that a route's and a ListenerSet's reference to a parent share.
pub(super) fn parent(fields: &mut Fields<'_>) -> ParentRef {
    ParentRef {
        group: fields.text("group", &GROUP),
        kind: fields.text("kind", &KIND),
        namespace: fields.text("namespace", &NAMESPACE),
        name: fields.required_text("name", &OBJECT_NAME),
        section_name: None,
        port: None,
    }
}

/// Several references to one parent must tell its sections apart: all or none has a sectionName, and no two are the same. The experimental channel
/// takes the port, too, as part of what tells them apart, and then asks all or none to have one.
fn check_parents(fields: &mut Fields<'_>, parents: &[ParentRef]) {
    for (index, one) in parents.iter().enumerate() {
        let others = parents.iter().take(index).filter(|other| target(other) == target(one));
        let (mut standard, mut experimental) = (None, None);
        for other in others {
            let section = one.section_name.is_some() == other.section_name.is_some();
            let port = one.port.is_some() == other.port.is_some();
            if !section {
                standard = standard.or(Some("needs a sectionName, as all references to the same parent or none"));
            } else if one.section_name == other.section_name {
                standard = standard.or(Some("repeats a reference to the same parent and sectionName"));
            }
            if !section || !port {
                experimental = experimental
                    .or(Some("needs a sectionName or a port, as all references to the same parent or none"));
            } else if one.section_name == other.section_name && one.port == other.port {
                experimental = experimental.or(Some("repeats a reference to the same parent, sectionName and port"));
            }
        }
        let field = format!("parentRefs[{index}]");
        match (standard, experimental) {
            (Some(_), Some(message)) => fields.refuse(&field, message),
            (Some(message), None) => fields.refuse_in(Channel::Standard, &field, message),
            (None, Some(message)) => fields.refuse_in(Channel::Experimental, &field, message),
            (None, None) => {}
        }
    }
}

/// What tells parents apart. A namespace that is not given counts as another one than the same namespace given.
fn target(parent: &ParentRef) -> (&str, &str, Option<&Name>, &Name) {
    let group = parent.group.as_deref().unwrap_or(GATEWAY_GROUP);
    (group, parent.kind.as_deref().unwrap_or("Gateway"), parent.namespace.as_ref(), &parent.name)
}

/// Experimental: `useDefaultGateways` of a route (GEP-3793).
pub(super) fn use_default_gateways(fields: &mut Fields<'_>) -> Option<Name> {
    fields.experimental(|fields| fields.choice("useDefaultGateways", &super::gateway::DEFAULT_SCOPE))
}

/// Rules of one route must not share a name.
pub(super) fn rule_names<'a>(
    fields: &mut Fields<'_>,
    channel: Option<Channel>,
    names: impl Iterator<Item = Option<&'a Name>>,
) {
    let mut seen = std::collections::BTreeSet::new();
    for (index, name) in names.enumerate() {
        if let Some(name) = name
            && !seen.insert(name)
        {
            let (field, message) =
                (format!("rules[{index}].name"), format!("`{name}` is the name of another rule, too"));
            match channel {
                None => fields.refuse(&field, message),
                Some(channel) => fields.refuse_in(channel, &field, message),
            }
        }
    }
}
