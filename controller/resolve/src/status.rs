//! Statuses: what the objects call for, with what the proxies have said.

use std::collections::BTreeSet;
use std::sync::Arc;

use portolan_model::ir::{Binding, GatewayView, ListenerStatus, ListenerView, ParentStatus, Status};
use portolan_model::objects::{Object, ParentRef};
use portolan_model::{CONTROLLER_NAME, Condition, ConditionType, Kind, Name, NamespacedName, ObjectKey, Reason};

use crate::{
    FleetState, PortRefusal, Refusal, RefusedPlace, World, features, gateway as gateways, installation, parent, remedy,
};

/// The status of a GatewayClass; `None` where it is absent or another controller's.
pub fn gateway_class(world: &dyn World, name: &Name) -> Option<Status> {
    let class = world.gateway_class(name)?;
    if &*class.controller_name != CONTROLLER_NAME {
        return None;
    }
    let installed = world.installed();
    let accepted = match gateways::class_problem(world, &class) {
        None => {
            let unreadable = installed.as_deref().and_then(installation::unreadable);
            let notes: Vec<String> = gateways::class_note(world, &class).into_iter().chain(unreadable).collect();
            let message = notes.iter().fold(String::from("Accepted"), |message, note| format!("{message}. {note}"));
            Condition::new(ConditionType::Accepted, true, Reason::Accepted, message).with_attention(!notes.is_empty())
        }
        Some(problem) => Condition::new(ConditionType::Accepted, false, Reason::InvalidParameters, problem),
    };
    let supported_features = features::claimed(installed.as_deref()).map(Name::from).collect();
    let mut conditions = vec![accepted];
    conditions.extend(installed.as_deref().map(installation::supported_version));
    Some(Status::GatewayClass { conditions, supported_features })
}

/// The status of a Gateway; `None` where Portolan does not serve it.
pub fn gateway(world: &dyn World, name: &NamespacedName) -> Option<Status> {
    let view = world.gateway_view(name)?;
    let fleet = Fleet::of(world, &view);
    let own = ObjectKey::new(Kind::Gateway, name.clone());
    let listeners: Vec<_> = listeners_of(world, &view, &own, &fleet);
    let mut conditions = view.conditions.clone();
    conditions.insert(conditions.len().min(1), programmed(&view, &own, &fleet));
    let addresses = fleet.binding.as_ref().map(|binding| binding.status.clone()).unwrap_or_default();
    let attached_listener_sets = view.listener_sets.iter().filter(|set| set.accepted).count();
    Some(Status::Gateway { conditions, listeners, addresses, attached_listener_sets })
}

/// The status of a ListenerSet; `None` where its Gateway is not Portolan's.
pub fn listener_set(world: &dyn World, name: &NamespacedName) -> Option<Status> {
    let view = world.gateway_view(&parent::gateway_of(world, name)?)?;
    let set = view.listener_sets.iter().find(|set| set.name == *name)?;
    let fleet = Fleet::of(world, &view);
    let listeners = listeners_of(world, &view, &ObjectKey::new(Kind::ListenerSet, name.clone()), &fleet);
    let mut conditions = set.conditions.clone();
    if !conditions.iter().any(|condition| condition.kind == ConditionType::Programmed) {
        conditions.push(set_programmed(&listeners, &fleet));
    }
    Some(Status::ListenerSet { conditions, listeners })
}

/// The status of a route: one entry per parentRef that is Portolan's. With none it is empty, and what an earlier one left is taken
/// away. `None` where the route is absent.
pub fn route(world: &dyn World, key: &ObjectKey) -> Option<Status> {
    let view = world.route_view(key)?;
    let refs = parent_refs(&world.route(key)?);
    let refusals = world.refusals(key);
    let parents = view
        .parents
        .iter()
        .filter_map(|outcome| {
            let mut conditions = outcome.conditions.clone();
            if outcome.accepted() {
                report_refusals(&refusals, &mut conditions);
            }
            Some(ParentStatus { parent: refs.get(outcome.index)?.clone(), conditions })
        })
        .collect();
    Some(Status::Route { parents })
}

/// The status of a BackendTLSPolicy: by Gateway whose routes lead to a target. Policies are not served yet, and what they protect is
/// closed.
pub fn policy(world: &dyn World, name: &NamespacedName) -> Option<Status> {
    let policy = world.backend_tls_policy(name)?;
    let gateways: BTreeSet<NamespacedName> = policy
        .targets
        .iter()
        .filter_map(|target| {
            let kind = Kind::find(&target.group, &target.kind)?;
            let name = NamespacedName::new(Arc::clone(&name.namespace), Arc::clone(&target.name));
            Some(world.gateways_using(&ObjectKey::new(kind, name)))
        })
        .flatten()
        .collect();
    let condition = Condition::new(
        ConditionType::Accepted,
        false,
        Reason::Invalid,
        "BackendTLSPolicy is not supported yet: routes to its targets answer 500, and nothing is sent to them in clear text",
    );
    // "a maximum of 16 ancestors" (PolicyStatus.ancestors)
    let ancestors = gateways.into_iter().take(16).map(|gateway| (gateway, vec![condition.clone()])).collect();
    Some(Status::Policy { ancestors })
}

fn parent_refs(route: &Object) -> Vec<ParentRef> {
    match route {
        Object::HttpRoute(route) => route.parents.clone(),
        Object::GrpcRoute(route) => route.parents.clone(),
        Object::L4Route(route) => route.parents.clone(),
        _ => Vec::new(),
    }
}

/// Matches that a proxy refused answer 500; `Accepted` does not depend on proxies (design invariant 14).
fn report_refusals(refusals: &[Refusal], conditions: &mut Vec<Condition>) {
    if refusals.is_empty() {
        return;
    }
    let texts = listed(refusals.iter().map(refused_part).collect());
    match conditions.iter_mut().find(|condition| condition.kind == ConditionType::PartiallyInvalid) {
        Some(partial) => partial.message = format!("{}; {texts}", partial.message).into(),
        None => conditions.push(Condition::new(
            ConditionType::PartiallyInvalid,
            true,
            Reason::UnsupportedValue,
            format!("Dropped Rule: {texts}"),
        )),
    }
}

/// A condition's message has at most 32,768 characters, and each text of Envoy's up to 4,096.
fn listed(mut texts: Vec<String>) -> String {
    const MOST: usize = 6;
    if texts.len() > MOST {
        let more = format!("and {} more", texts.len() - MOST);
        texts.truncate(MOST);
        texts.push(more);
    }
    texts.join("; ")
}

fn refused_part(Refusal { place, text }: &Refusal) -> String {
    match place {
        RefusedPlace::Match { rule, matched } => format!("Envoy refused spec.rules[{rule}].matches[{matched}]: {text}"),
        RefusedPlace::Host(table, host) => {
            format!(
                "Envoy refused the hostname {host} on port {}, and all requests for it answer 500: {text}",
                table.port
            )
        }
    }
}

/// What decides `Programmed` beside the objects.
struct Fleet<'a> {
    world: &'a dyn World,
    binding: Option<Arc<Binding>>,
    state: FleetState,
    refused: Vec<PortRefusal>,
    problems: Arc<[Name]>,
}

impl<'a> Fleet<'a> {
    fn of(world: &'a dyn World, gateway: &GatewayView) -> Self {
        let (binding, state) = (world.binding(&gateway.name), world.fleet_state(&gateway.name));
        let (refused, problems) = (world.port_refusals(&gateway.name), world.fleet_problems(&gateway.name));
        Self { world, binding, state, refused, problems }
    }

    /// Why nothing is programmed yet, whichever listener it is.
    fn pending(&self) -> Option<(Reason, String)> {
        let unassigned = || (Reason::AddressNotAssigned, "No address has been assigned to the Gateway yet".into());
        let waiting = match &self.binding {
            None => unassigned(),
            Some(binding) if !binding.unusable.is_empty() => {
                let reasons: Vec<String> =
                    binding.unusable.iter().map(|(address, reason)| format!("{address} ({reason})")).collect();
                let message = format!("spec.addresses cannot be used: {}; change or remove them", reasons.join(", "));
                return Some((Reason::AddressNotUsable, message));
            }
            Some(binding) if binding.status.is_empty() => unassigned(),
            Some(_) if self.state.programmed => return None,
            Some(_) => (Reason::Pending, "No proxy has acknowledged the configuration of the Gateway yet".into()),
        };
        // "insufficient infrastructure resources are available" (GatewayReasonNoResources): nothing will come by waiting.
        Some(self.problems().map_or(waiting, |problems| (Reason::NoResources, problems)))
    }

    /// What of the fleet could not be made as it should be, whether it serves or not.
    fn problems(&self) -> Option<String> {
        let problems: Vec<String> = self.problems.iter().map(ToString::to_string).collect();
        (!problems.is_empty())
            .then(|| format!("The Gateway's proxies cannot be made as they should be: {}", listed(problems)))
    }

    /// Why nothing listens for a port whatever proxies say.
    fn out_of_range(&self, port: u16) -> Option<String> {
        let binding = self.binding.as_ref().filter(|binding| binding.port(port).is_none())?;
        Some(format!(
            "The port offset {} (--port-offset) moves the port {port} beyond 65535, so that nothing listens for it; choose an offset of at most {}, or another port",
            binding.port_offset,
            u16::MAX - port
        ))
    }

    /// What Envoy refused of a listener: the whole, its routes, or certificates.
    fn refused(&self, listener: &ListenerView) -> Vec<String> {
        let ports = self.refused.iter().filter(|refusal| concerns(refusal, listener)).map(refused_port);
        let secret = |secret| {
            let text = self.world.secret_refusal(secret)?;
            Some(format!("Envoy refused the certificate of Secret {secret}: {text}"))
        };
        let secrets = listener.certificates.iter().filter_map(|certificate| secret(&certificate.secret));
        ports.chain(secrets).collect()
    }
}

fn is_false(conditions: &[Condition], kind: ConditionType) -> bool {
    conditions.iter().any(|condition| condition.kind == kind && !condition.status)
}

/// Why nothing is programmed whatever the proxies say.
const fn not_accepted(gateway: &GatewayView) -> Option<&'static str> {
    match gateway {
        GatewayView { accepted: true, .. } => None,
        GatewayView { refused: true, .. } => {
            Some("The Gateway is not accepted: no proxies are made for it, and those that run stay as they are")
        }
        GatewayView { .. } => Some("The Gateway is not accepted"),
    }
}

/// Design invariant 14, for the Gateway's own listeners.
fn programmed(gateway: &GatewayView, own: &ObjectKey, fleet: &Fleet<'_>) -> Condition {
    let condition =
        |status, reason, message: String| Condition::new(ConditionType::Programmed, status, reason, message);
    if let Some(message) = not_accepted(gateway) {
        return condition(false, Reason::Invalid, message.into());
    }
    let listeners = || gateway.listeners.iter().filter(|listener| listener.id.parent == *own);
    let is_closed = |listener: &ListenerView| {
        is_false(&listener.conditions, ConditionType::Programmed) || fleet.out_of_range(listener.port).is_some()
    };
    if listeners().all(|listener| is_closed(listener)) {
        let why = listeners().filter_map(|listener| {
            let message = fleet.out_of_range(listener.port).or_else(|| {
                let programmed = listener.conditions.iter().find(|it| it.kind == ConditionType::Programmed);
                programmed.map(|it| it.message.to_string())
            });
            Some(format!("{} ({})", listener.id.name, message?))
        });
        return condition(false, Reason::Invalid, format!("No listener can be served: {}", listed(why.collect())));
    }
    if let Some((reason, message)) = fleet.pending() {
        return condition(false, reason, message);
    }
    let all_refused = listeners().all(|listener| !fleet.refused(listener).is_empty());
    let is_own = |refusal: &&PortRefusal| listeners().any(|listener| concerns(refusal, listener));
    let hosts = fleet.world.refusals(own);
    let texts: Vec<String> =
        fleet.refused.iter().filter(is_own).map(refused_port).chain(hosts.iter().map(refused_part)).collect();
    if !texts.is_empty() {
        condition(false, Reason::Invalid, listed(texts))
    } else if all_refused {
        condition(false, Reason::Invalid, "Envoy refused the certificates of every listener".into())
    } else {
        // A fleet that serves goes on serving: `Programmed` stays True.
        let problems = fleet.problems();
        let message = std::iter::once("A proxy has acknowledged the configuration").chain(problems.as_deref());
        condition(true, Reason::Programmed, message.collect::<Vec<_>>().join(". ")).with_attention(problems.is_some())
    }
}

/// An HTTP port has one table, an HTTPS port one for each hostname of its listeners.
fn concerns(refusal: &PortRefusal, listener: &ListenerView) -> bool {
    let server = refusal.table.as_ref().and_then(|table| table.server.as_ref());
    refusal.port == listener.port && server.is_none_or(|server| **server == *gateways::hostname_of(listener))
}

fn refused_port(PortRefusal { port, table, text }: &PortRefusal) -> String {
    match table {
        None => format!("Envoy refused the listener on port {port}: {text}{}", remedy::of(text)),
        Some(_) => format!("Envoy refused the routes on port {port} together, and requests there answer 500: {text}"),
    }
}

fn listeners_of(
    world: &dyn World,
    gateway: &GatewayView,
    parent: &ObjectKey,
    fleet: &Fleet<'_>,
) -> Vec<ListenerStatus> {
    let own = gateway.listeners.iter().filter(|listener| listener.id.parent == *parent);
    own.map(|listener| {
        let mut conditions = listener.conditions.clone();
        if !conditions.iter().any(|condition| condition.kind == ConditionType::Programmed) {
            conditions.insert(conditions.len().min(1), listener_programmed(gateway, listener, fleet));
        }
        ListenerStatus {
            name: listener.id.name.clone(),
            attached_routes: world.attached_routes(&listener.id),
            supported_kinds: listener.kinds.clone(),
            conditions,
        }
    })
    .collect()
}

fn listener_programmed(gateway: &GatewayView, listener: &ListenerView, fleet: &Fleet<'_>) -> Condition {
    let condition =
        |status, reason, message: String| Condition::new(ConditionType::Programmed, status, reason, message);
    if let Some(message) = not_accepted(gateway) {
        return condition(false, Reason::Invalid, message.into());
    }
    if let Some(message) = fleet.out_of_range(listener.port) {
        return condition(false, Reason::Invalid, message);
    }
    // A listener has no reasons for addresses.
    if let Some((_, message)) = fleet.pending() {
        return condition(false, Reason::Pending, message);
    }
    let refused = fleet.refused(listener);
    if refused.is_empty() {
        condition(true, Reason::Programmed, "A proxy has acknowledged the configuration".into())
    } else {
        condition(false, Reason::Invalid, listed(refused))
    }
}

/// A ListenerSet is programmed as soon as one of its listeners is.
fn set_programmed(listeners: &[ListenerStatus], fleet: &Fleet<'_>) -> Condition {
    let condition =
        |status, reason, message: String| Condition::new(ConditionType::Programmed, status, reason, message);
    let mut programmed =
        listeners.iter().flat_map(|listener| &listener.conditions).filter(|it| it.kind == ConditionType::Programmed);
    if programmed.clone().any(|it| it.status) {
        return condition(true, Reason::Programmed, "A proxy has acknowledged the configuration".into());
    }
    match (programmed.any(|it| it.reason == Reason::Pending), fleet.pending()) {
        (true, Some((_, message))) => condition(false, Reason::Pending, message),
        _ => condition(false, Reason::ListenersNotValid, "No listener can be served".into()),
    }
}
