//! Gateways: class, listeners merged with those of ListenerSets, conflicts, certificates.

mod certificates;
mod conflict;
mod listener;
mod parameters;
mod sets;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use portolan_model::ir::{GatewayView, ListenerView, TableId};
use portolan_model::objects::{Gateway, GatewayClass, Protocol};
use portolan_model::{CONTROLLER_NAME, Condition, ConditionType, Kind, Name, NamespacedName, ObjectKey, Reason};

use crate::{World, hostname};
use conflict::Candidate;
pub use parameters::{Parameters, parameters};

/// The Gateway as Portolan sees it; `None` where it or its class is absent or the class is another controller's.
pub fn view(world: &dyn World, name: &NamespacedName) -> Option<GatewayView> {
    let gateway = world.gateway(name)?;
    let class = world.gateway_class(&gateway.class)?;
    if &*class.controller_name != CONTROLLER_NAME {
        return None;
    }
    let sets = sets::of(world, &gateway);
    let own = ObjectKey::new(Kind::Gateway, name.clone());
    let own_listeners = gateway.listeners.iter().map(|spec| Candidate { parent: &own, spec });
    let set_listeners = sets
        .iter()
        .filter(|set| set.allowed)
        .flat_map(|set| set.object.listeners.iter().map(|spec| Candidate { parent: &set.key, spec }));
    let candidates: Vec<_> = own_listeners.chain(set_listeners).collect();
    let verdicts = conflict::judge(&candidates);
    let mut listeners: Vec<_> = candidates
        .iter()
        .zip(verdicts)
        .map(|(candidate, reason)| {
            let conflict = reason.map(|reason| conflict::with(&candidates, candidate, reason));
            listener::view(world, &gateway, candidate, conflict.as_ref())
        })
        .collect();
    mark_overlapping(&mut listeners);

    let listeners: Vec<_> = listeners.into_iter().map(Arc::new).collect();
    let refusal = refusal(world, &gateway, &class);
    // The Gateway's own conditions "reflect the status of the local configuration" (GEP-1713).
    let local: Vec<&ListenerView> =
        listeners.iter().filter(|listener| listener.id.parent == own).map(AsRef::as_ref).collect();
    let notes = not_served(world, &gateway);
    let accepted = accepted(&notes, refusal.as_ref(), &local);
    let resolved = resolved_refs(&local);
    Some(GatewayView {
        name: name.clone(),
        accepted: accepted.status,
        refused: refusal.is_some(),
        listener_sets: sets.iter().map(|set| sets::view(set, accepted.status, &listeners)).collect(),
        conditions: vec![accepted, resolved],
        requested_addresses: gateway.addresses.clone(),
        listeners,
    })
}

/// The most specific of the listeners whose hostname covers `host`: the one that requests for `host` belong to, for isolation, for
/// 421 and for SNI alike.
pub fn best_listener<'a>(
    listeners: impl IntoIterator<Item = &'a Arc<ListenerView>>,
    host: &str,
) -> Option<&'a Arc<ListenerView>> {
    listeners
        .into_iter()
        .filter(|listener| hostname::covers(hostname_of(listener), host))
        .max_by(|one, other| hostname::by_specificity(hostname_of(one), hostname_of(other)))
}

/// The listener's hostname, `*` where it has none.
pub fn hostname_of(listener: &ListenerView) -> &str {
    listener.hostname.as_deref().unwrap_or(hostname::ANY)
}

/// The listeners that hold a port in the Gateway: accepted, of a protocol that has route tables. What the Gateway asks of its fleet is another matter.
pub fn listeners_on(gateway: &GatewayView, port: u16, tls: bool) -> impl Iterator<Item = &Arc<ListenerView>> {
    let protocol = if tls { Protocol::Https } else { Protocol::Http };
    gateway
        .listeners
        .iter()
        .filter(move |listener| listener.accepted && listener.port == port && listener.protocol == protocol)
}

/// The route table of a listener; `None` where its protocol has none.
pub fn table_of(gateway: &NamespacedName, listener: &ListenerView) -> Option<TableId> {
    let server = match listener.protocol {
        Protocol::Http => None,
        Protocol::Https => Some(Name::from(hostname_of(listener))),
        _ => return None,
    };
    Some(TableId { gateway: gateway.clone(), port: listener.port, server })
}

/// Why a Gateway gets no fleet whatever its listeners say.
fn refusal(world: &dyn World, gateway: &Gateway, class: &GatewayClass) -> Option<(Reason, String)> {
    let infrastructure =
        gateway.infrastructure.as_ref().and_then(|infrastructure| infrastructure.parameters_ref.as_ref());
    if let Some(reference) = infrastructure
        && let Err(problem) = parameters::find(world, reference, Some(&gateway.meta.name.namespace))
    {
        return Some((Reason::InvalidParameters, format!("spec.infrastructure.parametersRef {problem}")));
    }
    if let Some(problem) = class_problem(world, class) {
        return Some((
            Reason::InvalidParameters,
            format!("GatewayClass {} is not accepted: {problem}", class.meta.name),
        ));
    }
    // Whoever runs the proxies sees to it that a name leads to them.
    let (types, words) = if parameters::is_external(world, class) {
        (&["IPAddress", "Hostname"][..], "IPAddress or Hostname")
    } else {
        (&["IPAddress"][..], "IPAddress")
    };
    let unsupported = gateway.addresses.iter().find(|address| !types.contains(&&*address.kind))?;
    let message =
        format!("spec.addresses has the type {}, which Portolan does not support; use {words}", unsupported.kind);
    Some((Reason::UnsupportedAddress, message))
}

/// Why a class is not accepted. "`InvalidParameters` … an unsupported resource or kind" (GatewayClassConditionStatusAccepted).
pub(crate) fn class_problem(world: &dyn World, class: &GatewayClass) -> Option<String> {
    let problem = parameters::of_class(world, class)?.err()?;
    Some(format!("spec.parametersRef {problem}"))
}

/// What of a class's parameters has no effect.
pub(crate) fn class_note(world: &dyn World, class: &GatewayClass) -> Option<String> {
    parameters::without_effect(&*parameters::of_class(world, class)?.ok()?, false)
}

fn accepted(notes: &[String], refusal: Option<&(Reason, String)>, listeners: &[&ListenerView]) -> Condition {
    let condition = |status, reason, message: String| {
        Condition::new(ConditionType::Accepted, status, reason, message).with_attention(!notes.is_empty())
    };
    if let Some((reason, message)) = refusal {
        return condition(false, *reason, message.clone());
    }
    let bad: Vec<String> = listeners.iter().filter(|listener| !listener.accepted).map(|it| describe(it)).collect();
    let with_notes =
        |message: &str| notes.iter().fold(message.to_owned(), |message, note| format!("{message}. {note}"));
    if bad.is_empty() {
        return condition(true, Reason::Accepted, with_notes("Accepted"));
    }
    let some = bad.len() < listeners.len();
    let message = format!(
        "{} not valid: {}",
        if some { "Some listeners are" } else { "No listener is valid, all are" },
        bad.join(", ")
    );
    condition(some, Reason::ListenersNotValid, with_notes(&message))
}

fn describe(listener: &ListenerView) -> String {
    let accepted = listener.conditions.iter().find(|condition| condition.kind == ConditionType::Accepted);
    format!("{} ({})", listener.id.name, accepted.map_or("", |condition| condition.reason.as_str()))
}

/// Fields of the Gateway that have no effect yet. Client certificates are judged per listener: that one is not served without.
fn not_served(world: &dyn World, gateway: &Gateway) -> Vec<String> {
    let own = parameters(world, &gateway.meta.name).own;
    let mut notes: Vec<String> =
        own.iter().filter_map(|parameters| parameters::without_effect(parameters, true)).collect();
    if gateway.tls.as_ref().is_some_and(|tls| tls.backend_client_certificate.is_some()) {
        notes.push(
            "spec.tls.backend is not supported yet: no client certificate is shown to backends, and backends with a BackendTLSPolicy are refused"
                .into(),
        );
    }
    if gateway.default_scope.as_deref().is_some_and(|scope| scope != "None") {
        notes.push("spec.defaultScope is not supported yet: only routes that name the Gateway attach to it".into());
    }
    notes
}

/// "a positive-polarity summary of Listener's ResolvedRefs condition" (GatewayConditionResolvedRefs).
fn resolved_refs(listeners: &[&ListenerView]) -> Condition {
    let is_unresolved = |condition: &Condition| condition.kind == ConditionType::ResolvedRefs && !condition.status;
    let unresolved: Vec<&str> = listeners
        .iter()
        .filter(|listener| listener.conditions.iter().any(is_unresolved))
        .map(|listener| &*listener.id.name)
        .collect();
    if unresolved.is_empty() {
        return Condition::new(ConditionType::ResolvedRefs, true, Reason::ResolvedRefs, "All references are resolved");
    }
    let message = format!("References of listeners are not resolved: {}", unresolved.join(", "));
    Condition::new(ConditionType::ResolvedRefs, false, Reason::ListenersNotResolved, message)
}

/// "This condition MUST be set on all Listeners with overlapping TLS config" (ListenerConditionOverlappingTLSConfig): browsers reuse
/// a connection for another name that its certificate covers.
fn mark_overlapping(listeners: &mut [ListenerView]) {
    let mut by_port: BTreeMap<u16, BTreeSet<Name>> = BTreeMap::new();
    for listener in listeners.iter().filter(|listener| listener.accepted && listener.protocol == Protocol::Https) {
        by_port.entry(listener.port).or_default().insert(hostname_of(listener).into());
    }
    let mut overlapping: BTreeSet<(u16, Name)> = BTreeSet::new();
    for (port, hosts) in &by_port {
        for host in hosts {
            for above in hostname::wildcards_above(host).filter(|above| hosts.contains(above)) {
                overlapping.extend([(*port, host.clone()), (*port, above)]);
            }
        }
    }
    for listener in listeners.iter_mut().filter(|listener| listener.accepted && listener.protocol == Protocol::Https) {
        let host = Name::from(hostname_of(listener));
        if overlapping.contains(&(listener.port, host.clone())) {
            let message = format!(
                "The hostname {host} overlaps with that of another HTTPS listener on port {}; requests for one that arrive on a connection of the other are answered 421",
                listener.port
            );
            listener.conditions.push(Condition::new(
                ConditionType::OverlappingTLSConfig,
                true,
                Reason::OverlappingHostnames,
                message,
            ));
        }
    }
}

#[cfg(test)]
mod tests;
