//! Which namespaces' objects a Gateway or listener lets in.

use std::collections::BTreeMap;

use portolan_model::Name;
use portolan_model::objects::{FromNamespaces, LabelSelector, SelectorOperator};

use crate::World;

/// Whether `from`, written in an object of namespace `own`, admits objects of `namespace`. A value of a newer API admits none.
pub(crate) fn admits(world: &dyn World, from: &FromNamespaces, own: &Name, namespace: &Name) -> bool {
    match from {
        FromNamespaces::All => true,
        FromNamespaces::Same => own == namespace,
        FromNamespaces::Selector(selector) => selects(selector, &world.namespace_labels(namespace)),
        FromNamespaces::None | FromNamespaces::Unknown(_) => false,
    }
}

/// Kubernetes' rule: all of a selector must hold, `NotIn` also where the label is absent. An operator of a newer API holds nowhere.
fn selects(selector: &LabelSelector, labels: &BTreeMap<Name, Name>) -> bool {
    selector.match_labels.iter().all(|(key, value)| labels.get(key) == Some(value))
        && selector.match_expressions.iter().all(|requirement| {
            let value = labels.get(&requirement.key);
            match &requirement.operator {
                SelectorOperator::In => value.is_some_and(|value| requirement.values.contains(value)),
                SelectorOperator::NotIn => value.is_none_or(|value| !requirement.values.contains(value)),
                SelectorOperator::Exists => value.is_some(),
                SelectorOperator::DoesNotExist => value.is_none(),
                SelectorOperator::Unknown(_) => false,
            }
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use portolan_model::objects::LabelSelectorRequirement;

    #[test]
    fn all_requirements_must_hold() {
        let labels: BTreeMap<Name, Name> = [("team".into(), "shop".into())].into();
        let requirement = |key: &str, operator, values: &[&str]| LabelSelectorRequirement {
            key: key.into(),
            operator,
            values: values.iter().map(|value| Name::from(*value)).collect(),
        };
        for (expression, expected) in [
            (requirement("team", SelectorOperator::In, &["shop", "web"]), true),
            (requirement("team", SelectorOperator::In, &["web"]), false),
            (requirement("other", SelectorOperator::In, &["web"]), false),
            (requirement("team", SelectorOperator::NotIn, &["shop"]), false),
            (requirement("other", SelectorOperator::NotIn, &["shop"]), true),
            (requirement("team", SelectorOperator::Exists, &[]), true),
            (requirement("team", SelectorOperator::DoesNotExist, &[]), false),
            (requirement("team", SelectorOperator::Unknown("Gt".into()), &["1"]), false),
        ] {
            let selector = LabelSelector { match_expressions: vec![expression], ..LabelSelector::default() };
            assert_eq!(selects(&selector, &labels), expected, "{selector:?}");
        }
        assert!(selects(&LabelSelector::default(), &labels), "an empty selector selects everything");
        let both = LabelSelector {
            match_labels: labels.clone(),
            match_expressions: vec![requirement("team", SelectorOperator::DoesNotExist, &[])],
        };
        assert!(!selects(&both, &labels));
    }
}
