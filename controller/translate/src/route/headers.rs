//! RequestHeaderModifier and ResponseHeaderModifier.

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
