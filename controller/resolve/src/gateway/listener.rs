//! One listener: what it takes and whether it can be served.

use portolan_model::ir::{ListenerId, ListenerView};
use portolan_model::objects::{FromNamespaces, Gateway, ListenerSpec, Protocol, RouteGroupKind, TlsMode};
use portolan_model::{Condition, ConditionType, GATEWAY_GROUP, Kind, Reason};

use super::certificates::{self, Certificates};
use super::conflict::{Candidate, Conflict, is_served};
use crate::World;

pub(super) fn view(
    world: &dyn World,
    gateway: &Gateway,
    candidate: &Candidate<'_>,
    conflict: Option<&Conflict<'_>>,
) -> ListenerView {
    let Candidate { parent, spec } = candidate;
    let refusal = refusal(gateway, candidate, conflict);
    let certificates = if spec.protocol == Protocol::Https {
        certificates::of(world, parent, spec.tls.as_ref())
    } else {
        Certificates::default()
    };
    let (kinds, unsupported_kinds) = kinds(spec);
    let mut conditions = vec![match &refusal {
        Some((reason, message)) => Condition::new(ConditionType::Accepted, false, *reason, message.clone()),
        None => Condition::new(ConditionType::Accepted, true, Reason::Accepted, accepted_message(spec)),
    }];
    conditions.extend(not_programmed(refusal.as_ref(), spec, &certificates));
    conditions.push(resolved_refs(&certificates, &unsupported_kinds));
    if let (Some(conflict), Some((_, message))) = (conflict, &refusal) {
        conditions.push(Condition::new(ConditionType::Conflicted, true, conflict.reason, message.clone()));
    }
    ListenerView {
        id: ListenerId { parent: (*parent).clone(), name: spec.name.clone() },
        port: spec.port,
        protocol: spec.protocol.clone(),
        hostname: spec.hostname.clone().filter(|hostname| !hostname.is_empty()),
        allowed_namespaces: spec.allowed_routes.from.clone(),
        kinds,
        accepted: refusal.is_none(),
        certificates: certificates.views,
        conditions,
    }
}

/// Why the listener is not accepted.
fn refusal(
    gateway: &Gateway,
    Candidate { parent, spec }: &Candidate<'_>,
    conflict: Option<&Conflict<'_>>,
) -> Option<(Reason, String)> {
    let port = spec.port;
    if let Some(Conflict { reason, with }) = conflict {
        let other = match with {
            Some(with) if with.parent == *parent => format!("Listener {}", with.spec.name),
            Some(with) => format!("Listener {} of {}", with.spec.name, with.parent),
            None => "Another listener".to_owned(),
        };
        let message = match reason {
            Reason::ProtocolConflict => {
                format!("{other} uses port {port} with a protocol that cannot share it; change the port of one")
            }
            _ => format!("{other} uses port {port} with the same hostname; change the port or the hostname of one"),
        };
        return Some((*reason, message));
    }
    if !is_served(&spec.protocol) {
        let message = match &spec.protocol {
            Protocol::Other(protocol) => format!("The protocol {protocol} is not supported; use HTTP or HTTPS"),
            Protocol::Udp => "The protocol UDP is not supported yet: it comes with UDPRoute".into(),
            Protocol::Tcp => "The protocol TCP is not supported yet: it comes with TCPRoute".into(),
            _ => "The protocol TLS is not supported yet: it comes with TLSRoute".into(),
        };
        return Some((Reason::UnsupportedProtocol, message));
    }
    if let FromNamespaces::Unknown(from) = &spec.allowed_routes.from {
        let message = format!(
            "allowedRoutes.namespaces.from has the value {from}, which is not supported; use All, Same, Selector or None"
        );
        return Some((Reason::UnsupportedValue, message));
    }
    if spec.protocol != Protocol::Https {
        return None;
    }
    match spec.tls.as_ref().map(|tls| &tls.mode) {
        Some(TlsMode::Passthrough) => {
            return Some((Reason::UnsupportedValue, "tls.mode of an HTTPS listener must be Terminate".into()));
        }
        Some(TlsMode::Unknown(mode)) => {
            return Some((
                Reason::UnsupportedValue,
                format!("tls.mode has the value {mode}, which is not supported; use Terminate"),
            ));
        }
        Some(TlsMode::Terminate) | None => {}
    }
    // Serving without the check that was asked for would let everyone in.
    validates_clients(gateway, port).then(|| {
        let message = format!(
            "spec.tls.frontend of the Gateway asks for client certificates on port {port}, which is not supported yet; the listener is not served without"
        );
        (Reason::UnsupportedValue, message)
    })
}

/// "Once set this configuration overrides the default configuration for all Listeners handling HTTPS traffic that match this port"
/// (FrontendTLSConfig.perPort).
fn validates_clients(gateway: &Gateway, port: u16) -> bool {
    gateway.tls.as_ref().is_some_and(|tls| {
        let own = tls.frontend_per_port.iter().find(|(configured, _)| *configured == port);
        own.map_or(tls.frontend_default.is_some(), |(_, validation)| validation.is_some())
    })
}

/// The kinds of routes that may attach, and those that were asked for in vain.
fn kinds(spec: &ListenerSpec) -> (Vec<RouteGroupKind>, Vec<String>) {
    if !is_served(&spec.protocol) {
        return (Vec::new(), Vec::new());
    }
    let all = [Kind::HTTPRoute, Kind::GRPCRoute]
        .map(|kind| RouteGroupKind { group: GATEWAY_GROUP.into(), kind: kind.as_str().into() });
    if spec.allowed_routes.kinds.is_empty() {
        return (all.to_vec(), Vec::new());
    }
    let (known, unknown): (Vec<_>, Vec<_>) =
        spec.allowed_routes.kinds.iter().cloned().partition(|kind| all.contains(kind));
    let mut seen = std::collections::BTreeSet::new();
    let known = known.into_iter().filter(|kind| seen.insert(kind.clone())).collect();
    (known, unknown.iter().map(|kind| format!("{}.{}", kind.kind, kind.group)).collect())
}

fn accepted_message(spec: &ListenerSpec) -> String {
    let options: Vec<&str> = spec.tls.iter().flat_map(|tls| tls.options.keys()).map(|key| &**key).collect();
    if options.is_empty() {
        "Accepted".into()
    } else {
        format!("Accepted. These keys of tls.options are not supported and have no effect: {}", options.join(", "))
    }
}

/// `Programmed=False` where that follows from the objects.
fn not_programmed(
    refusal: Option<&(Reason, String)>,
    spec: &ListenerSpec,
    certificates: &Certificates,
) -> Option<Condition> {
    let programmed = |reason, message: String| Condition::new(ConditionType::Programmed, false, reason, message);
    if let Some((reason, message)) = refusal {
        // The suite wants a conflict's own reason here too (ListenerSetHostnameConflict).
        let conflict = matches!(reason, Reason::HostnameConflict | Reason::ProtocolConflict);
        return Some(programmed(if conflict { *reason } else { Reason::Invalid }, message.clone()));
    }
    if spec.protocol != Protocol::Https || certificates.views.iter().any(|view| view.usable) {
        return None;
    }
    let problems: Vec<&str> = certificates.problems.iter().map(|(_, message)| message.as_str()).collect();
    let message = format!("The listener has no usable certificate: {}", problems.join("; "));
    Some(programmed(Reason::Invalid, message))
}

fn resolved_refs(certificates: &Certificates, unsupported_kinds: &[String]) -> Condition {
    let mut problems = certificates.problems.clone();
    if !unsupported_kinds.is_empty() {
        let message = format!(
            "allowedRoutes.kinds names kinds that the listener does not support: {}",
            unsupported_kinds.join(", ")
        );
        problems.push((Reason::InvalidRouteKinds, message));
    }
    let Some((reason, _)) = problems.first() else {
        return Condition::new(ConditionType::ResolvedRefs, true, Reason::ResolvedRefs, "All references are resolved");
    };
    let messages: Vec<&str> = problems.iter().map(|(_, message)| message.as_str()).collect();
    Condition::new(ConditionType::ResolvedRefs, false, *reason, messages.join("; "))
}
