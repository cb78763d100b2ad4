//! The conditions of a status that say that something is wrong.

use portolan_model::ir::Status;
use portolan_model::objects::ParentRef;
use portolan_model::{Condition, ConditionType, ObjectKey};

use crate::Finding;
use crate::bookkeeping::Ledger;

/// What is wrong with an object by its status, at the place where it is written.
#[must_use]
pub fn problems(key: &ObjectKey, status: &Status, ledger: &Ledger) -> Vec<Finding> {
    let location = ledger.location(key);
    let finding = |subject: &str, condition: &Condition| Finding {
        file: location.map_or_else(|| "".into(), |location| location.file.clone()),
        line: location.map_or(0, |location| location.line),
        column: location.map_or(0, |location| location.column),
        object: Some(key.to_string()),
        field: describe(subject, condition),
        message: condition.message.to_string(),
        meanwhile: None,
        error: condition.is_problem(),
    };
    let sections: Vec<(String, &[Condition])> = match status {
        Status::GatewayClass { conditions, .. } => vec![(String::new(), conditions)],
        Status::Gateway { conditions, listeners, .. } | Status::ListenerSet { conditions, listeners } => {
            let listeners =
                listeners.iter().map(|listener| (format!("listener {}", listener.name), &*listener.conditions));
            std::iter::once((String::new(), &**conditions)).chain(listeners).collect()
        }
        Status::Route { parents } => {
            parents.iter().map(|parent| (format!("parent {}", show(&parent.parent)), &*parent.conditions)).collect()
        }
        Status::Policy { ancestors } => {
            ancestors.iter().map(|(gateway, conditions)| (format!("Gateway {gateway}"), &**conditions)).collect()
        }
    };
    let mut findings = Vec::new();
    for (subject, conditions) in &sections {
        findings.extend(
            conditions
                .iter()
                .filter(|condition| condition.is_problem() || is_notable(condition))
                .map(|condition| finding(subject, condition)),
        );
    }
    findings
}

/// Right as it is, but to be known: a field without effect, names of one port that browsers may mix up.
fn is_notable(condition: &Condition) -> bool {
    condition.attention || condition.status && condition.kind == ConditionType::OverlappingTLSConfig
}

/// `listener http: Programmed=False (Invalid)`
fn describe(subject: &str, condition: &Condition) -> String {
    let separator = if subject.is_empty() { "" } else { ": " };
    let status = if condition.status { "True" } else { "False" };
    format!("{subject}{separator}{}={status} ({})", condition.kind, condition.reason)
}

fn show(parent: &ParentRef) -> String {
    let namespace = parent.namespace.as_ref().map(|namespace| format!("{namespace}/")).unwrap_or_default();
    let section = parent.section_name.as_ref().map(|section| format!(" listener {section}")).unwrap_or_default();
    let port = parent.port.map(|port| format!(" port {port}")).unwrap_or_default();
    format!("{namespace}{}{section}{port}", parent.name)
}
