//! References across namespaces: allowed only where a ReferenceGrant of the target's namespace says so.

use portolan_model::objects::{GrantFrom, GrantTo, ObjectRef};
use portolan_model::{Kind, Name, NamespacedName};

use crate::World;

/// Whether objects of kind `from` in `namespace` may refer to `target`. Within one namespace always; else "a ReferenceGrant …
/// in the referent namespace" must name both sides (ReferenceGrant: `from` and `to` are each additive lists, matched exactly).
pub(crate) fn granted(world: &dyn World, from: Kind, namespace: &Name, target: Kind, name: &NamespacedName) -> bool {
    let is_from = |entry: &GrantFrom| {
        &*entry.group == from.group() && &*entry.kind == from.as_str() && entry.namespace == *namespace
    };
    let is_to = |entry: &GrantTo| {
        &*entry.group == target.group()
            && &*entry.kind == target.as_str()
            && entry.name.as_ref().is_none_or(|allowed| *allowed == name.name)
    };
    *namespace == name.namespace
        || world
            .grants(&name.namespace)
            .iter()
            .any(|grant| grant.from.iter().any(is_from) && grant.to.iter().any(is_to))
}

/// What to tell whoever wrote a reference that is not granted.
pub(crate) fn not_granted(from: Kind, namespace: &Name, target: Kind, name: &NamespacedName) -> String {
    format!(
        "{target} {name} is in another namespace, and no ReferenceGrant in {} allows {from}s of {namespace} to refer to it; create one there",
        name.namespace
    )
}

/// The kind that a reference names, with its group.
pub(crate) fn kind_of(reference: &ObjectRef) -> String {
    kind(&reference.group, &reference.kind)
}

/// A kind with its group.
pub(crate) fn kind(group: &str, kind: &str) -> String {
    if group.is_empty() { kind.to_owned() } else { format!("{kind}.{group}") }
}
