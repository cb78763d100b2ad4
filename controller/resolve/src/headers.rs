//! Header names and values: what HTTP allows and Envoy takes.
//!
//! Envoy refuses a whole route table with ":-prefixed or host headers may not be modified", or with a name or value that holds a NUL,
//! a line feed or a carriage return (validation rule HTTP_HEADER_NAME and HTTP_HEADER_VALUE of its API).

use std::collections::BTreeSet;

use portolan_model::Name;
use portolan_model::objects::HeaderModifier;

/// Envoy's limit on a header's name and value.
const MAX_LENGTH: usize = 16_384;

/// Which message a modifier changes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Request,
    Response,
}

/// A header modifier that Envoy takes.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Checked {
    /// Names lower-case
    pub modifier: HeaderModifier,
    /// `set` of `Host`, which Envoy does by rewriting
    pub host: Option<Name>,
}

/// Whether `name` is a token (RFC 9110, section 5.1).
pub(crate) fn is_name(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= MAX_LENGTH
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte))
}

/// Whether `value` can stand in a header line.
pub(crate) fn is_value(value: &str) -> bool {
    value.len() <= MAX_LENGTH && value.bytes().all(|byte| byte == b'\t' || (byte >= b' ' && byte != 0x7f))
}

/// Checks a modifier. "Filters specifying multiple actions of the same or different type for any one header name are invalid"
/// (HTTPHeaderFilter).
pub(crate) fn check(modifier: &HeaderModifier, side: Side) -> Result<Checked, String> {
    let mut seen = BTreeSet::new();
    let mut checked = Checked::default();
    let written = [(&modifier.set, true), (&modifier.add, false)];
    for (entries, set) in written {
        for (name, value) in entries {
            let name = check_name(name, &mut seen)?;
            if !is_value(value) {
                return Err(format!(
                    "the value for the header {name} holds a control character or is longer than {MAX_LENGTH} bytes"
                ));
            }
            match (&*name == "host", set, side) {
                (true, true, Side::Request) => checked.host = Some(value.clone()),
                (true, ..) => return Err(host_problem(side)),
                (false, true, _) => checked.modifier.set.push((name, value.clone())),
                (false, false, _) => checked.modifier.add.push((name, value.clone())),
            }
        }
    }
    for name in &modifier.remove {
        let name = check_name(name, &mut seen)?;
        if &*name == "host" {
            return Err(host_problem(side));
        }
        checked.modifier.remove.push(name);
    }
    checked.modifier.set.shrink_to_fit();
    checked.modifier.add.shrink_to_fit();
    checked.modifier.remove.shrink_to_fit();
    Ok(checked)
}

fn check_name(name: &str, seen: &mut BTreeSet<Name>) -> Result<Name, String> {
    if !is_name(name) {
        return Err(format!("{name:?} is not a header name"));
    }
    let name = Name::from(name.to_ascii_lowercase());
    if seen.insert(name.clone()) { Ok(name) } else { Err(format!("the header {name} is named twice")) }
}

fn host_problem(side: Side) -> String {
    match side {
        Side::Request => "the header Host can be set but not added or removed".into(),
        Side::Response => "responses have no header Host".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn modifier(set: &[(&str, &str)], add: &[(&str, &str)], remove: &[&str]) -> HeaderModifier {
        let pairs = |entries: &[(&str, &str)]| {
            entries.iter().map(|(name, value)| (Name::from(*name), Name::from(*value))).collect()
        };
        HeaderModifier {
            set: pairs(set),
            add: pairs(add),
            remove: remove.iter().map(|name| Name::from(*name)).collect(),
        }
    }

    #[test]
    fn names_become_lower_case_and_host_a_rewrite() {
        let checked =
            check(&modifier(&[("X-A", "1"), ("HOST", "b.test")], &[("X-B", "2")], &["X-C"]), Side::Request).unwrap();
        assert_eq!(checked.modifier, modifier(&[("x-a", "1")], &[("x-b", "2")], &["x-c"]));
        assert_eq!(checked.host.as_deref(), Some("b.test"));
    }

    #[test]
    fn what_envoy_refuses_is_refused() {
        for (modifier, side, expected) in [
            (modifier(&[(":path", "/")], &[], &[]), Side::Request, "not a header name"),
            (modifier(&[("", "/")], &[], &[]), Side::Request, "not a header name"),
            (modifier(&[("a b", "/")], &[], &[]), Side::Request, "not a header name"),
            (modifier(&[], &[], &["a\n"]), Side::Request, "not a header name"),
            (modifier(&[("a", "x\r\ny")], &[], &[]), Side::Request, "control character"),
            (modifier(&[("a", "x\0")], &[], &[]), Side::Request, "control character"),
            (modifier(&[], &[("Host", "a")], &[]), Side::Request, "set but not added"),
            (modifier(&[], &[], &["host"]), Side::Request, "set but not added"),
            (modifier(&[("host", "a")], &[], &[]), Side::Response, "no header Host"),
            (modifier(&[("a", "1")], &[("A", "2")], &[]), Side::Request, "named twice"),
            (modifier(&[], &[("a", "2")], &["A"]), Side::Request, "named twice"),
        ] {
            let problem = check(&modifier, side).unwrap_err();
            assert!(problem.contains(expected), "{modifier:?}: {problem}");
        }
    }
}
