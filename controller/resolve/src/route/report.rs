//! What is wrong with a route's rules, and the conditions that say so.

use std::collections::BTreeSet;

use portolan_model::{Condition, ConditionType, Reason};

use super::Finding;

/// Collects what resolution finds.
#[derive(Default)]
pub(super) struct Report {
    rules: usize,
    /// Rules of which nothing is served as written
    invalid: BTreeSet<usize>,
    /// Everything wrong with the rules themselves, by rule
    broken: Vec<(usize, Finding)>,
    /// References that do not resolve, by rule
    unresolved: Vec<(usize, Finding)>,
    /// Fields that do nothing yet
    without_effect: Vec<String>,
}

impl Report {
    pub(super) const fn rule(&mut self) {
        self.rules += 1;
    }

    /// The rule is not served at all, or answers 500 to whatever it matches.
    pub(super) fn invalid(&mut self, rule: usize, finding: Finding) {
        self.invalid.insert(rule);
        self.broken.push((rule, finding));
    }

    /// A part of the rule, such as one backend, is not served as written.
    pub(super) fn partly_invalid(&mut self, rule: usize, finding: Finding) {
        self.broken.push((rule, finding));
    }

    pub(super) fn unresolved(&mut self, rule: usize, finding: Finding) {
        self.unresolved.push((rule, finding));
    }

    pub(super) fn without_effect(&mut self, field: String) {
        self.without_effect.push(field);
    }

    /// The conditions towards one parent, which may have reasons of its own to refuse the route. `Accepted` and `ResolvedRefs` always.
    pub(super) fn conditions(&self, refusal: Option<&Finding>) -> Vec<Condition> {
        let accepted = self.accepted(refusal);
        let partial = accepted.status && !self.broken.is_empty();
        let mut conditions = vec![accepted, self.resolved_refs()];
        if partial {
            conditions.push(self.partially_invalid());
        }
        conditions
    }

    fn accepted(&self, refusal: Option<&Finding>) -> Condition {
        let accepted =
            |status, reason, message: String| Condition::new(ConditionType::Accepted, status, reason, message);
        if let Some(Finding { reason, message }) = refusal {
            return accepted(false, *reason, message.clone());
        }
        if let (true, Some((_, first))) = (self.invalid.len() == self.rules, self.broken.first()) {
            return accepted(false, first.reason, format!("No rule is valid: {}", self.broken_messages()));
        }
        let mut message = String::from("Accepted");
        if !self.without_effect.is_empty() {
            message.push_str(". These fields are not supported yet and have no effect: ");
            message.push_str(&self.without_effect.join(", "));
        }
        accepted(true, Reason::Accepted, message).with_attention(!self.without_effect.is_empty())
    }

    fn resolved_refs(&self) -> Condition {
        let Some((_, first)) = self.unresolved.first() else {
            return Condition::new(
                ConditionType::ResolvedRefs,
                true,
                Reason::ResolvedRefs,
                "All references are resolved",
            );
        };
        let messages: Vec<&str> = self.unresolved.iter().map(|(_, finding)| finding.message.as_str()).collect();
        Condition::new(ConditionType::ResolvedRefs, false, first.reason, messages.join("; "))
    }

    /// "The message for this condition MUST start with the prefix `Dropped Rule`" (RouteConditionPartiallyInvalid).
    fn partially_invalid(&self) -> Condition {
        let message = format!("Dropped Rule: {}", self.broken_messages());
        Condition::new(ConditionType::PartiallyInvalid, true, Reason::UnsupportedValue, message)
    }

    fn broken_messages(&self) -> String {
        let messages: Vec<&str> = self.broken.iter().map(|(_, finding)| finding.message.as_str()).collect();
        messages.join("; ")
    }
}
