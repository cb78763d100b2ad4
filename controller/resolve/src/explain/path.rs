//! What Envoy makes of a path before it looks for a route (`normalize_path`, `merge_slashes`, escaped slashes).

use std::fmt::Write;

/// A path as routes see it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Normalised {
    /// With the query, which stays as it is
    pub path: String,
    /// Escaped slashes were found: the client is redirected
    pub redirect: bool,
}

pub(super) fn normalise(target: &str) -> Normalised {
    let (path, query) = target.split_at(target.find('?').unwrap_or(target.len()));
    let unescaped = unescape_slashes(path);
    let redirect = unescaped != path;
    Normalised { path: merge_slashes(&without_dots(&canonical(&unescaped))) + query, redirect }
}

fn unescape_slashes(path: &str) -> String {
    path.replace("%2F", "/").replace("%2f", "/").replace("%5C", "\\").replace("%5c", "\\")
}

/// Escapes of unreserved characters are resolved (RFC 3986, section 6.2.2.2), others stay; backslashes are slashes, as in browsers.
fn canonical(path: &str) -> String {
    let mut out = String::with_capacity(path.len());
    let mut rest = path;
    while let Some(next) = rest.chars().next() {
        let escaped =
            (next == '%').then(|| rest.get(1..3).and_then(|digits| u8::from_str_radix(digits, 16).ok())).flatten();
        match escaped.map(char::from) {
            Some(plain) if plain.is_ascii_alphanumeric() || "-._~".contains(plain) => {
                out.push(plain);
                rest = rest.get(3..).unwrap_or("");
                continue;
            }
            _ => {}
        }
        match next {
            '\\' => out.push('/'),
            ' ' | '"' | '<' | '>' | '`' | '{' | '}' => _ = write!(out, "%{:02X}", u32::from(next)),
            _ if next.is_ascii() => out.push(next),
            _ => next.to_string().bytes().for_each(|byte| _ = write!(out, "%{byte:02X}")),
        }
        rest = rest.get(next.len_utf8()..).unwrap_or("");
    }
    out
}

/// RFC 3986, section 5.2.4.
fn without_dots(path: &str) -> String {
    let mut segments: Vec<&str> = Vec::new();
    let mut parts = path.split('/').skip(1).peekable();
    while let Some(part) = parts.next() {
        let last = parts.peek().is_none();
        match part {
            "." | ".." => {
                if part == ".." {
                    segments.pop();
                }
                if last {
                    segments.push("");
                }
            }
            part => segments.push(part),
        }
    }
    if path.starts_with('/') { format!("/{}", segments.join("/")) } else { path.into() }
}

fn merge_slashes(path: &str) -> String {
    let mut out = String::with_capacity(path.len());
    for next in path.chars() {
        if !(next == '/' && out.ends_with('/')) {
            out.push(next);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_normalised_and_queries_are_not() {
        for (target, expected, redirect) in [
            ("/a/b?x=//", "/a/b?x=//", false),
            ("/a//b", "/a/b", false),
            ("/a/./b/../c", "/a/c", false),
            ("/../a", "/a", false),
            ("/a/..", "/", false),
            ("/a/.", "/a/", false),
            ("/%61%2E%2e/%7E", "/a../~", false),
            ("/a/%2e%2e/b", "/b", false),
            ("/a%20b", "/a%20b", false),
            ("/a%2Fb", "/a/b", true),
            ("/a%5cb", "/a/b", true),
            ("/a\\b", "/a/b", false),
            ("/", "/", false),
            ("*", "*", false),
        ] {
            assert_eq!(normalise(target), Normalised { path: expected.into(), redirect }, "{target}");
        }
    }
}
