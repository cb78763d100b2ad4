//! Which object and field a resource comes from.

use std::sync::Arc;

use portolan_model::ir::{BackendId, ListenerId, ListenerPlan, PlannedRoute};
use portolan_model::{Kind, NamespacedName};
use portolan_proto::Origin;

fn origin(kind: Kind, name: &NamespacedName, field: impl Into<Arc<str>>) -> Origin {
    Origin {
        kind: kind.as_str().into(),
        namespace: Arc::clone(&name.namespace),
        name: Arc::clone(&name.name),
        field: field.into(),
    }
}

pub fn of_backend(backend: &BackendId) -> Origin {
    let field = if backend.port == 0 { String::new() } else { format!("spec.ports[{}]", backend.port) };
    origin(backend.kind, &backend.name, field)
}

pub fn of_secret(name: &NamespacedName) -> Origin {
    origin(Kind::Secret, name, "")
}

pub fn of_gateway(name: &NamespacedName) -> Origin {
    origin(Kind::Gateway, name, "")
}

pub fn of_listener(id: &ListenerId) -> Origin {
    origin(id.parent.kind, &id.parent.name, format!("spec.listeners[{}]", id.name))
}

/// The listeners that share the socket; the Gateway where none does.
pub fn of_socket(plan: &ListenerPlan) -> Vec<Origin> {
    if plan.listeners.is_empty() {
        return vec![of_gateway(&plan.gateway)];
    }
    plan.listeners.iter().map(of_listener).collect()
}

pub fn of_match(planned: &PlannedRoute) -> Origin {
    let field = format!("spec.rules[{}].matches[{}]", planned.rule.index, planned.matched);
    origin(planned.route.kind, &planned.route.name, field)
}
