//! URLRewrite and the path of RequestRedirect (HTTPPathModifier).

use portolan_model::ir::{PathRewrite, PathSpec};
use portolan_proto::envoy::matcher::{RegexMatchAndSubstitute, RegexMatcher};

/// A path modifier in Envoy's terms.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rewritten {
    /// The whole path
    Full(String),
    /// Replaces the bytes that the prefix matched
    Prefix(String),
    /// Replaces what the expression matches
    Pattern { regex: String, substitution: String },
}

/// `None`: the path stays. `Prefix` of a match that is no prefix match does nothing (the API's rules exclude it).
///
/// The prefix is replaced by segments (HTTPPathModifier.replacePrefixMatch: with prefix `/foo`, replacement `/` and path `/foo/bar`
/// the result is `/bar`). Envoy replaces bytes: `/` for `/foo` would give `//bar`, so where nothing is left of the replacement the
/// slash goes with the prefix.
pub fn path(matched: &PathSpec, rewrite: &PathRewrite) -> Option<Rewritten> {
    let replacement = match rewrite {
        PathRewrite::Full(path) => return Some(Rewritten::Full(absolute(path))),
        PathRewrite::Prefix(replacement) => absolute(replacement.trim_end_matches('/')),
    };
    let prefix = match matched {
        PathSpec::SegmentPrefix(prefix) => &**prefix,
        PathSpec::RawPrefix(prefix) => {
            return Some(Rewritten::Prefix(if prefix.ends_with('/') { closed(&replacement) } else { replacement }));
        }
        PathSpec::Exact(_) | PathSpec::Regex(_) => return None,
    };
    match (prefix, replacement.as_str()) {
        ("", "/") => None,
        // The route matches the prefix `/`.
        ("", _) => Some(Rewritten::Prefix(closed(&replacement))),
        (_, "/") => Some(Rewritten::Pattern { regex: format!("^{}/*", quote(prefix)), substitution: "/".into() }),
        _ => Some(Rewritten::Prefix(replacement)),
    }
}

/// A path begins with a slash, whatever the object says.
fn absolute(path: &str) -> String {
    if path.starts_with('/') { path.into() } else { format!("/{path}") }
}

fn closed(path: &str) -> String {
    if path.ends_with('/') { path.into() } else { format!("{path}/") }
}

/// `text` as a RE2 expression that matches nothing else.
pub fn quote(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 8);
    for character in text.chars() {
        if r"\.+*?()|[]{}^$".contains(character) {
            quoted.push('\\');
        }
        quoted.push(character);
    }
    quoted
}

/// `regex_rewrite` of a route. Envoy applies it to the path without the query, which stays.
pub fn substitute(regex: &str, substitution: &str) -> RegexMatchAndSubstitute {
    RegexMatchAndSubstitute {
        pattern: Some(RegexMatcher { regex: regex.into(), ..Default::default() }),
        substitution: substitution.into(),
    }
}

/// Replaces the whole path by `path`, in which a backslash is no reference to a group. `\C` is any byte: a path that is no UTF-8
/// must not get around its rewrite.
pub fn whole(path: &str) -> RegexMatchAndSubstitute {
    substitute(r"^\C*$", &path.replace('\\', r"\\"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prefix(prefix: &str, replacement: &str) -> Option<Rewritten> {
        path(&PathSpec::SegmentPrefix(prefix.into()), &PathRewrite::Prefix(replacement.into()))
    }

    /// The result for `path` as Envoy would compute it.
    fn apply(matched: &str, replacement: &str, path: &str) -> String {
        match prefix(matched, replacement) {
            None => path.into(),
            Some(Rewritten::Full(path)) => path,
            Some(Rewritten::Prefix(new)) => {
                format!("{new}{}", &path[if matched.is_empty() { 1 } else { matched.len() }..])
            }
            Some(Rewritten::Pattern { regex, substitution }) => {
                assert_eq!(regex, format!("^{}/*", quote(matched)));
                format!("{substitution}{}", path[matched.len()..].trim_start_matches('/'))
            }
        }
    }

    /// The table in the documentation of HTTPPathModifier.replacePrefixMatch; prefixes come without their trailing slash.
    #[test]
    fn prefixes_are_replaced_as_the_specification_shows() {
        for (path, matched, replacement, result) in [
            ("/foo/bar", "/foo", "/xyz", "/xyz/bar"),
            ("/foo/bar", "/foo", "/xyz/", "/xyz/bar"),
            ("/foo", "/foo", "/xyz", "/xyz"),
            ("/foo/", "/foo", "/xyz", "/xyz/"),
            ("/foo/bar", "/foo", "", "/bar"),
            ("/foo/", "/foo", "", "/"),
            ("/foo", "/foo", "", "/"),
            ("/foo/", "/foo", "/", "/"),
            ("/foo", "/foo", "/", "/"),
            ("/bar", "", "/xyz", "/xyz/bar"),
            ("/bar", "", "/", "/bar"),
        ] {
            assert_eq!(apply(matched, replacement, path), result, "{matched} by {replacement} in {path}");
        }
    }

    #[test]
    fn quoted_text_is_literal() {
        assert_eq!(quote(r"/a.b+c_é\"), r"/a\.b\+c_é\\");
    }
}
