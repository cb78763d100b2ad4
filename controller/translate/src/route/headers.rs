//! RequestHeaderModifier and ResponseHeaderModifier.

use portolan_model::Name;
use portolan_model::objects::HeaderModifier;
use portolan_proto::envoy::core::{HeaderValue, HeaderValueOption, header_value_option::HeaderAppendAction};

/// What is set, then what is added: an addition to a name that is set as well comes after the set value.
pub fn to_add(modifier: &HeaderModifier) -> Vec<HeaderValueOption> {
    let set = modifier.set.iter().map(|(name, value)| option(name, value, HeaderAppendAction::OverwriteIfExistsOrAdd));
    let add = modifier.add.iter().map(|(name, value)| option(name, value, HeaderAppendAction::AppendIfExistsOrAdd));
    set.chain(add).collect()
}

pub fn to_remove(modifier: &HeaderModifier) -> Vec<String> {
    modifier.remove.iter().map(ToString::to_string).collect()
}

/// The modifiers of a rule followed by those of a backend, as one: on a name that both change, the backend's word is the last.
///
/// Envoy would apply a weighted cluster's modifiers before those of its route, and within either removals before all else.
pub fn merged(rule: &HeaderModifier, backend: &HeaderModifier) -> HeaderModifier {
    let decided = |name: &Name| {
        let mut names = backend.set.iter().map(|(set, _)| set).chain(&backend.remove);
        names.any(|other| other.eq_ignore_ascii_case(name))
    };
    let kept = |pairs: &[(Name, Name)]| pairs.iter().filter(|(name, _)| !decided(name)).cloned().collect::<Vec<_>>();
    HeaderModifier {
        set: [kept(&rule.set), backend.set.clone()].concat(),
        add: [kept(&rule.add), backend.add.clone()].concat(),
        remove: [rule.remove.clone(), backend.remove.clone()].concat(),
    }
}

fn option(name: &str, value: &str, action: HeaderAppendAction) -> HeaderValueOption {
    HeaderValueOption {
        header: Some(HeaderValue { key: name.into(), value: literal(value), ..Default::default() }),
        append_action: action.into(),
        // Envoy drops empty values otherwise, so that `set` to nothing would not set.
        keep_empty_value: true,
        ..Default::default()
    }
}

/// Envoy reads `%` as the start of a command; the Gateway API has literal values only.
fn literal(value: &str) -> String {
    value.replace('%', "%%")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn modifier(set: &[&str], add: &[&str], remove: &[&str], value: &str) -> HeaderModifier {
        let pairs = |names: &[&str]| names.iter().map(|name| ((*name).into(), value.into())).collect();
        HeaderModifier { set: pairs(set), add: pairs(add), remove: remove.iter().map(|name| (*name).into()).collect() }
    }

    #[test]
    fn the_backend_has_the_last_word() {
        let rule = modifier(&["A", "b", "c"], &["d", "e"], &["f"], "rule");
        let backend = modifier(&["a", "E", "f"], &["b"], &["C"], "backend");
        let merged = merged(&rule, &backend);
        let show =
            |pairs: &[(Name, Name)]| pairs.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>();
        assert_eq!(show(&merged.set), ["b=rule", "a=backend", "E=backend", "f=backend"]);
        assert_eq!(show(&merged.add), ["d=rule", "b=backend"]);
        assert_eq!(merged.remove.iter().map(AsRef::as_ref).collect::<Vec<&str>>(), ["f", "C"]);
    }
}
