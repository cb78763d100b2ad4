//! ListenerSets of a Gateway (GEP-1713).

use std::sync::Arc;

use portolan_model::ir::{ListenerSetView, ListenerView};
use portolan_model::objects::{Gateway, ListenerSet, Protocol};
use portolan_model::{Condition, ConditionType, Kind, ObjectKey, Reason};

use crate::{World, namespaces};

/// A ListenerSet that names the Gateway.
pub(super) struct Attached {
    pub key: ObjectKey,
    pub object: Arc<ListenerSet>,
    /// Whether `allowedListeners` admits it
    pub allowed: bool,
}

/// The ListenerSets that name the Gateway, in order of precedence: "ordered by creation time (oldest first)", then "alphabetically by
/// {namespace}/{name}" (ListenerSetSpec.listeners).
pub(super) fn of(world: &dyn World, gateway: &Gateway) -> Vec<Attached> {
    let name = &gateway.meta.name;
    let from = &gateway.allowed_listeners.from;
    let mut sets = world.listener_sets_of(name);
    sets.sort_by(|one, other| one.meta.cmp(&other.meta));
    sets.into_iter()
        .map(|object| Attached {
            key: ObjectKey::new(Kind::ListenerSet, object.meta.name.clone()),
            allowed: namespaces::admits(world, from, &name.namespace, &object.meta.name.namespace),
            object,
        })
        .collect()
}

/// A ListenerSet counts as valid with one valid listener: accepted, and for HTTPS with a certificate it may use.
fn is_valid(listener: &ListenerView) -> bool {
    listener.accepted && (listener.protocol != Protocol::Https || !listener.certificates.is_empty())
}

pub(super) fn view(set: &Attached, parent_accepted: bool, listeners: &[Arc<ListenerView>]) -> ListenerSetView {
    let own = || listeners.iter().filter(|listener| listener.id.parent == set.key);
    let valid = own().filter(|listener| is_valid(listener)).count();
    let invalid: Vec<&str> = own().filter(|listener| !is_valid(listener)).map(|listener| &*listener.id.name).collect();
    let refused = |reason, message: String| {
        let programmed = if reason == Reason::ParentNotAccepted { Reason::ParentNotProgrammed } else { reason };
        vec![
            Condition::new(ConditionType::Accepted, false, reason, message.clone()),
            Condition::new(ConditionType::Programmed, false, programmed, message),
        ]
    };
    let gateway = set.object.parent.resolve(&set.key.name.namespace);
    let conditions = if !set.allowed {
        refused(
            Reason::NotAllowed,
            format!(
                "spec.allowedListeners of Gateway {gateway} does not allow ListenerSets of the namespace {}; change spec.allowedListeners.namespaces there",
                set.key.name.namespace
            ),
        )
    } else if !parent_accepted {
        refused(Reason::ParentNotAccepted, format!("Gateway {gateway} is not accepted; its own status says why"))
    } else if valid == 0 {
        refused(Reason::ListenersNotValid, format!("No listener is valid: {}", invalid.join(", ")))
    } else if invalid.is_empty() {
        vec![Condition::new(ConditionType::Accepted, true, Reason::Accepted, "Accepted")]
    } else {
        let message = format!("Accepted, but some listeners are not valid: {}", invalid.join(", "));
        vec![Condition::new(ConditionType::Accepted, true, Reason::ListenersNotValid, message)]
    };
    ListenerSetView {
        name: set.key.name.clone(),
        accepted: conditions.first().is_some_and(|condition| condition.status),
        allowed: set.allowed,
        conditions,
    }
}
