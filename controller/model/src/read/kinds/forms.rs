//! The forms of names and values that many fields share, as the CRDs of v1.6.3 have them.

use super::super::schema::{Pattern, Text};

pub(super) static LABEL_PATTERN: Pattern = Pattern::new(
    r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$",
    "a DNS label: lower-case letters, digits and `-`, not at the ends",
);
pub(super) static SUBDOMAIN_PATTERN: Pattern = Pattern::new(
    r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$",
    "a DNS name: labels of lower-case letters, digits and `-`, joined by dots",
);
pub(super) static GROUP_PATTERN: Pattern = Pattern::new(
    r"^$|^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$",
    "an API group: empty for the core group, or a DNS name in lower case, without a version",
);
pub(super) static KIND_PATTERN: Pattern =
    Pattern::new(r"^[a-zA-Z]([-a-zA-Z0-9]*[a-zA-Z0-9])?$", "a kind: letters, digits and `-`, a letter first");
pub(super) static HOSTNAME_PATTERN: Pattern = Pattern::new(
    r"^(\*\.)?[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$",
    "a hostname: a DNS name in lower case without port, which may start with the wildcard label `*.`",
);
pub(super) static HEADER_NAME_PATTERN: Pattern = Pattern::new(
    r"^[A-Za-z0-9!#$%&'*+\-.^_\x60|~]+$",
    "a name of RFC 9110: letters, digits and !#$%&'*+-.^_`|~, no colon and no space",
);
pub(super) static HEADER_VALUE_PATTERN: Pattern =
    Pattern::new(r"^[!-~]+([\t ]?[!-~]+)*$", "a header value: visible ASCII, single spaces or tabs only between");
pub(super) static PATH_PATTERN: Pattern = Pattern::new(
    r"^(?:[-A-Za-z0-9/._~!$&'()*+,;=:@]|[%][0-9a-fA-F]{2})+$",
    "a path of RFC 3986: letters, digits, /._~!$&'()*+,;=:@- and %XX; no query, no fragment, no space",
);
/// A domain, a slash and a path: the form of implementation-specific values
pub(super) static CONTROLLER_NAME_PATTERN: Pattern = Pattern::new(
    r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*\/[A-Za-z0-9\/\-._~%!$&'()*+,;=:]+$",
    "a domain and a path, such as `example.net/gateway-controller`",
);

/// The name of an object that is referred to: its own API server has checked the form.
pub(super) static OBJECT_NAME: Text = Text::sized(1, 253);
pub(super) static NAMESPACE: Text = Text::formed(1, 63, &LABEL_PATTERN);
pub(super) static GROUP: Text = Text::formed(0, 253, &GROUP_PATTERN);
pub(super) static KIND: Text = Text::formed(1, 63, &KIND_PATTERN);
/// Of listeners, rules and ports
pub(super) static SECTION_NAME: Text = Text::formed(1, 253, &SUBDOMAIN_PATTERN);
pub(super) static HOSTNAME: Text = Text::formed(1, 253, &HOSTNAME_PATTERN);
/// A hostname without a wildcard
pub(super) static PRECISE_HOSTNAME: Text = Text::formed(1, 253, &SUBDOMAIN_PATTERN);
pub(super) static HEADER_NAME: Text = Text::formed(1, 256, &HEADER_NAME_PATTERN);
/// A value of `options`, an annotation's value
pub(super) static LONG_VALUE: Text = Text::sized(0, 4096);
