//! The listeners that a parentRef can mean.

use std::sync::Arc;

use portolan_model::ir::ParentView;
use portolan_model::{Kind, NamespacedName, ObjectKey};

use crate::World;

/// The listeners of a Gateway itself or of a ListenerSet. A route that names a Gateway "MUST NOT attach to any listeners in the child
/// ListenerSets" (GEP-1713). `None` where Portolan does not serve the Gateway.
pub fn view(world: &dyn World, parent: &ObjectKey) -> Option<ParentView> {
    let name = match parent.kind {
        Kind::Gateway => parent.name.clone(),
        Kind::ListenerSet => gateway_of(world, &parent.name)?,
        _ => return None,
    };
    let gateway = world.gateway_view(&name)?;
    let own = gateway.listeners.iter().filter(|listener| listener.id.parent == *parent);
    Some(ParentView { gateway: name, listeners: own.map(Arc::clone).collect() })
}

/// The Gateway that a ListenerSet names.
pub(crate) fn gateway_of(world: &dyn World, listener_set: &NamespacedName) -> Option<NamespacedName> {
    let set = world.listener_set(listener_set)?;
    (set.parent.kind() == Some(Kind::Gateway)).then(|| set.parent.resolve(&listener_set.namespace))
}
