//! Whether a route attaches to a parent, and under which hostnames.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::sync::Arc;

use portolan_model::ir::{Attachment, ListenerView, ParentView};
use portolan_model::objects::{FromNamespaces, ParentRef};
use portolan_model::{ConditionType, GATEWAY_GROUP, Name, ObjectKey, Reason};

use super::{Context, Finding};
use crate::gateway::hostname_of;
use crate::{hostname, namespaces};

/// The listeners of a parent that take the route. Each step narrows them down; the reason is that of the step that leaves none.
pub(super) fn attach(
    context: &Context<'_>,
    hostnames: &[Name],
    parent_ref: &ParentRef,
    parent: &ObjectKey,
    view: &ParentView,
) -> Result<Vec<Attachment>, Finding> {
    let named: Vec<_> = view.listeners.iter().filter(|listener| is_named(parent_ref, listener)).collect();
    if named.is_empty() {
        return Err(Finding::new(Reason::NoMatchingParent, no_such_listener(parent_ref, parent, view)));
    }
    let (allowed, barred): (Vec<&Arc<ListenerView>>, Vec<_>) =
        named.into_iter().partition(|listener| is_allowed(context, listener));
    if allowed.is_empty() {
        let listeners = few(barred.iter().map(|listener| format!("{} ({})", listener.id.name, bar(context, listener))));
        let message = format!(
            "No listener of {parent} that the parentRef names allows {}s of the namespace {}: {listeners}; change that, or name another listener",
            context.route.kind, context.route.name.namespace
        );
        return Err(Finding::new(Reason::NotAllowedByListeners, message));
    }
    let (accepted, refused): (Vec<&Arc<ListenerView>>, Vec<_>) =
        allowed.into_iter().partition(|listener| listener.accepted);
    if accepted.is_empty() {
        return Err(Finding::new(Reason::NoMatchingParent, not_accepted(&refused, parent)));
    }
    let mut attachments: Vec<_> = accepted.iter().filter_map(|listener| attachment(hostnames, listener)).collect();
    attachments.shrink_to_fit();
    if attachments.is_empty() {
        let listeners = accepted.iter().map(|listener| format!("{} ({})", listener.id.name, hostname_of(listener)));
        let message = format!(
            "spec.hostnames ({}) has nothing in common with the hostnames of the listeners of {parent} that the parentRef names: {}; change one of them",
            few(hostnames.iter().map(ToString::to_string)),
            few(listeners)
        );
        return Err(Finding::new(Reason::NoMatchingListenerHostname, message));
    }
    Ok(attachments)
}

/// "When both Port and SectionName are specified, the name and port of the selected listener must match both" (ParentReference.port).
fn is_named(parent_ref: &ParentRef, listener: &ListenerView) -> bool {
    parent_ref.section_name.as_ref().is_none_or(|section| *section == listener.id.name)
        && parent_ref.port.is_none_or(|port| port == listener.port)
}

fn takes_kind(context: &Context<'_>, listener: &ListenerView) -> bool {
    let kind = context.route.kind.as_str();
    listener.kinds.iter().any(|allowed| &*allowed.kind == kind && &*allowed.group == GATEWAY_GROUP)
}

fn is_allowed(context: &Context<'_>, listener: &ListenerView) -> bool {
    takes_kind(context, listener)
        && namespaces::admits(
            context.world,
            &listener.allowed_namespaces,
            &listener.id.parent.name.namespace,
            &context.route.name.namespace,
        )
}

/// What of a listener's `allowedRoutes` keeps the route away.
fn bar(context: &Context<'_>, listener: &ListenerView) -> String {
    if !takes_kind(context, listener) {
        return format!("takes no {}", context.route.kind);
    }
    match &listener.allowed_namespaces {
        FromNamespaces::Selector(_) => "allowedRoutes.namespaces.selector does not match the namespace".into(),
        FromNamespaces::Same => "allowedRoutes.namespaces.from is Same".into(),
        FromNamespaces::None => "allowedRoutes.namespaces.from is None".into(),
        FromNamespaces::All | FromNamespaces::Unknown(_) => "allowedRoutes.namespaces".into(),
    }
}

/// A list for people: the first ones.
fn few(all: impl ExactSizeIterator<Item = String>) -> String {
    const MOST: usize = 6;
    let more = all.len().saturating_sub(MOST);
    let mut text = all.take(MOST).collect::<Vec<_>>().join(", ");
    if more > 0 {
        // Into a String, which takes everything.
        let _ = write!(text, " and {more} more");
    }
    text
}

fn attachment(hostnames: &[Name], listener: &ListenerView) -> Option<Attachment> {
    let own = Name::from(hostname_of(listener));
    let common: BTreeSet<Name> = if hostnames.is_empty() {
        BTreeSet::from([own])
    } else {
        hostnames.iter().filter_map(|host| hostname::intersection(&own, host)).collect()
    };
    (!common.is_empty()).then(|| Attachment { listener: listener.id.clone(), hostnames: common.into_iter().collect() })
}

fn no_such_listener(parent_ref: &ParentRef, parent: &ObjectKey, view: &ParentView) -> String {
    let what = match (&parent_ref.section_name, parent_ref.port) {
        (Some(section), Some(port)) => format!(" {section} on port {port}"),
        (Some(section), None) => format!(" {section}"),
        (None, Some(port)) => format!(" on port {port}"),
        (None, None) => String::new(),
    };
    if view.listeners.is_empty() {
        return format!("{parent} has no listener in force; its own status says why");
    }
    let there = view.listeners.iter().map(|listener| format!("{} (port {})", listener.id.name, listener.port));
    format!("{parent} has no listener{what}; it has {}", few(there))
}

fn not_accepted(refused: &[&Arc<ListenerView>], parent: &ObjectKey) -> String {
    let reason = |listener: &ListenerView| {
        let accepted = listener.conditions.iter().find(|condition| condition.kind == ConditionType::Accepted);
        accepted.map_or("", |condition| condition.reason.as_str())
    };
    let listeners: Vec<String> = refused.iter().map(|it| format!("{} ({})", it.id.name, reason(it))).collect();
    format!(
        "The listeners of {parent} that the parentRef names are not accepted: {}; its own status says why",
        few(listeners.into_iter())
    )
}
