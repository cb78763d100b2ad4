//! Hostnames as listeners and routes write them: exact (`a.example.com`), a wildcard (`*.example.com`) or every hostname (`*`).
//! All are lower-case.
//!
//! "Hostnames that are prefixed with a wildcard label (`*.`) are interpreted as a suffix match. That means that a match for
//! `*.example.com` would match both `test.example.com`, and `foo.test.example.com`, but not `example.com`" (Listener.hostname).

use std::cmp::Ordering;

use portolan_model::Name;

/// Every hostname: a listener or route that names none.
pub const ANY: &str = "*";

/// Whether every hostname that `host` stands for (itself when exact) also belongs to `pattern`.
pub fn covers(pattern: &str, host: &str) -> bool {
    match pattern.strip_prefix('*') {
        Some(suffix) => host.len() > suffix.len() && host.ends_with(suffix),
        None => pattern == host,
    }
}

/// The hostnames that belong to both: the narrower of the two, if one covers the other.
pub fn intersection(listener: &Name, route: &Name) -> Option<Name> {
    if covers(listener, route) {
        Some(route.clone())
    } else if covers(route, listener) {
        Some(listener.clone())
    } else {
        None
    }
}

/// Orders two hostnames that cover a third: the greater is the more specific. "Exact matches MUST be processed before wildcard
/// matches, and wildcard matches MUST be processed before fallback (empty Hostname value) matches … more specific wildcard entries
/// must be processed before less specific wildcard entries" (GatewaySpec.listeners).
pub fn by_specificity(one: &str, other: &str) -> Ordering {
    let key = |host: &str| (!host.starts_with('*'), host.len());
    key(one).cmp(&key(other))
}

/// The wildcards that cover `host`, itself left out: the longest first, `*` last.
pub fn wildcards_above(host: &str) -> impl Iterator<Item = Name> + '_ {
    let labels = host.strip_prefix("*.").unwrap_or(host);
    let suffixes = labels.match_indices('.').filter_map(|(dot, _)| labels.get(dot..));
    let own = (host != ANY).then_some(ANY);
    suffixes.map(|suffix| Name::from(format!("*{suffix}"))).chain(own.map(Name::from))
}

/// The hostname that a request is matched under: lower-case and without a port, as Envoy does with `ignore_port_in_host_matching`.
pub fn of_authority(authority: &str) -> String {
    let is_port = |port: &str| port.bytes().all(|byte| byte.is_ascii_digit());
    let host = match authority.rsplit_once(':') {
        // Without brackets the last part of an IPv6 address is no port.
        Some((host, port)) if is_port(port) && (!host.contains(':') || host.ends_with(']')) => host,
        _ => authority,
    };
    host.to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wildcard_covers_several_labels_but_not_its_own_domain() {
        for (pattern, host, expected) in [
            ("*", "a.test", true),
            ("*", "*", true),
            ("*", "*.test", true),
            ("*.a.test", "b.a.test", true),
            ("*.a.test", "c.b.a.test", true),
            ("*.a.test", "a.test", false),
            ("*.a.test", "ba.test", false),
            ("*.a.test", "*.a.test", true),
            ("*.a.test", "*.b.a.test", true),
            ("*.a.test", "*.test", false),
            ("*.a.test", "*", false),
            ("a.test", "a.test", true),
            ("a.test", "*", false),
            ("a.test", "b.test", false),
        ] {
            assert_eq!(covers(pattern, host), expected, "{pattern} {host}");
        }
    }

    #[test]
    fn an_intersection_is_the_narrower() {
        for (listener, route, expected) in [
            ("*", "a.test", Some("a.test")),
            ("a.test", "*", Some("a.test")),
            ("*.test", "a.test", Some("a.test")),
            ("a.b.test", "*.test", Some("a.b.test")),
            ("*.b.test", "*.test", Some("*.b.test")),
            ("*.test", "*.b.test", Some("*.b.test")),
            ("*.b.test", "b.test", None),
            ("a.test", "b.test", None),
        ] {
            assert_eq!(intersection(&listener.into(), &route.into()).as_deref(), expected, "{listener} {route}");
        }
    }

    #[test]
    fn wildcards_come_longest_first() {
        let above = |host: &str| wildcards_above(host).map(|name| name.to_string()).collect::<Vec<_>>();
        assert_eq!(above("a.b.test"), ["*.b.test", "*.test", "*"]);
        assert_eq!(above("*.b.test"), ["*.test", "*"]);
        assert_eq!(above("test"), ["*"]);
        assert!(above("*").is_empty());
    }

    #[test]
    fn specificity_prefers_exact_then_longer() {
        let mut hosts = ["*", "*.test", "a.b.test", "*.b.test"];
        hosts.sort_by(|one, other| by_specificity(other, one));
        assert_eq!(hosts, ["a.b.test", "*.b.test", "*.test", "*"]);
    }

    #[test]
    fn an_authority_loses_its_port_and_case() {
        for (authority, expected) in [
            ("A.Test:8080", "a.test"),
            ("a.test", "a.test"),
            ("[::1]:80", "[::1]"),
            ("[::1]", "[::1]"),
            ("::1", "::1"),
            ("a.test:x", "a.test:x"),
            ("127.0.0.1:80", "127.0.0.1"),
        ] {
            assert_eq!(of_authority(authority), expected);
        }
    }
}
