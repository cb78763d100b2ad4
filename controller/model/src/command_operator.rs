//! Envoy's command operators: what formats of access logs are made of (Envoy documentation, "Access logging", "Command operators"). Those
//! that Envoy 1.37 has; a test shows each to Envoy.

use std::sync::LazyLock;

use regex::Regex;

/// Whether an operator has an argument.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Argument {
    None,
    Optional,
    Required,
}

#[rustfmt::skip]
const PLAIN: &[&str] = &[
    "ACCESS_LOG_TYPE", "BYTES_RECEIVED", "BYTES_SENT", "CONNECTION_ID", "CONNECTION_TERMINATION_DETAILS",
    "DOWNSTREAM_DIRECT_LOCAL_ADDRESS", "DOWNSTREAM_DIRECT_REMOTE_ADDRESS", "DOWNSTREAM_DIRECT_REMOTE_ADDRESS_WITHOUT_PORT",
    "DOWNSTREAM_DIRECT_REMOTE_PORT", "DOWNSTREAM_HEADER_BYTES_RECEIVED", "DOWNSTREAM_HEADER_BYTES_SENT",
    "DOWNSTREAM_LOCAL_ADDRESS", "DOWNSTREAM_LOCAL_ADDRESS_WITHOUT_PORT", "DOWNSTREAM_LOCAL_PORT", "DOWNSTREAM_LOCAL_SUBJECT",
    "DOWNSTREAM_LOCAL_URI_SAN", "DOWNSTREAM_PEER_CERT", "DOWNSTREAM_PEER_FINGERPRINT_256", "DOWNSTREAM_PEER_ISSUER",
    "DOWNSTREAM_PEER_SERIAL", "DOWNSTREAM_PEER_SUBJECT", "DOWNSTREAM_PEER_URI_SAN", "DOWNSTREAM_REMOTE_ADDRESS",
    "DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT", "DOWNSTREAM_REMOTE_PORT", "DOWNSTREAM_TLS_CIPHER", "DOWNSTREAM_TLS_SESSION_ID",
    "DOWNSTREAM_TLS_VERSION", "DOWNSTREAM_TRANSPORT_FAILURE_REASON", "DOWNSTREAM_WIRE_BYTES_RECEIVED",
    "DOWNSTREAM_WIRE_BYTES_SENT", "DURATION", "FILTER_CHAIN_NAME", "GRPC_STATUS_NUMBER", "HOSTNAME", "LOCAL_REPLY_BODY", "PROTOCOL",
    "REQUESTED_SERVER_NAME", "REQUEST_DURATION", "REQUEST_TX_DURATION", "RESPONSE_CODE", "RESPONSE_DURATION",
    "RESPONSE_FLAGS", "RESPONSE_FLAGS_LONG", "RESPONSE_TX_DURATION", "ROUTE_NAME", "STREAM_ID", "TLS_JA3_FINGERPRINT",
    "TRACE_ID", "UPSTREAM_CLUSTER", "UPSTREAM_CLUSTER_RAW", "UPSTREAM_CONNECTION_ID", "UPSTREAM_HEADER_BYTES_RECEIVED",
    "UPSTREAM_HEADER_BYTES_SENT", "UPSTREAM_HOST", "UPSTREAM_HOST_NAME", "UPSTREAM_LOCAL_ADDRESS",
    "UPSTREAM_LOCAL_ADDRESS_WITHOUT_PORT", "UPSTREAM_LOCAL_PORT", "UPSTREAM_PEER_CERT", "UPSTREAM_PEER_ISSUER",
    "UPSTREAM_PEER_SUBJECT", "UPSTREAM_PROTOCOL", "UPSTREAM_REMOTE_ADDRESS", "UPSTREAM_REMOTE_ADDRESS_WITHOUT_PORT",
    "UPSTREAM_REMOTE_PORT", "UPSTREAM_REQUEST_ATTEMPT_COUNT", "UPSTREAM_TLS_CIPHER", "UPSTREAM_TLS_VERSION",
    "UPSTREAM_TRANSPORT_FAILURE_REASON", "UPSTREAM_WIRE_BYTES_RECEIVED", "UPSTREAM_WIRE_BYTES_SENT", "VIRTUAL_CLUSTER_NAME",
];
const WITH_OR_WITHOUT: &[&str] = &[
    "DOWNSTREAM_PEER_CERT_V_END",
    "DOWNSTREAM_PEER_CERT_V_START",
    "GRPC_STATUS",
    "RESPONSE_CODE_DETAILS",
    "START_TIME",
    "UPSTREAM_PEER_CERT_V_END",
    "UPSTREAM_PEER_CERT_V_START",
];
/// Of a header, and perhaps another where that is missing
const HEADERS: &[&str] = &["REQ", "RESP", "TRAILER"];
const OTHERS: &[&str] =
    &["CLUSTER_METADATA", "DYNAMIC_METADATA", "ENVIRONMENT", "FILTER_STATE", "QUERY_PARAM", "UPSTREAM_METADATA"];

static OPERATOR: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"^%([A-Z0-9_]+)(?:\(([^)\n\r\x00]+)\))?(?::[0-9]{1,6})?%").ok());

/// Each operator, as it may be written.
pub fn all() -> impl Iterator<Item = String> {
    let plain = PLAIN.iter().chain(WITH_OR_WITHOUT).map(|name| format!("%{name}%"));
    let with_argument = HEADERS.iter().chain(OTHERS).map(|name| match *name {
        "DYNAMIC_METADATA" | "CLUSTER_METADATA" | "UPSTREAM_METADATA" => format!("%{name}(some.filter:key)%"),
        _ => format!("%{name}(some-name):10%"),
    });
    plain.chain(with_argument)
}

/// What is wrong with a format.
#[must_use]
pub fn problem(format: &str) -> Option<String> {
    let mut rest = format;
    while let Some(at) = rest.find('%') {
        rest = rest.get(at..)?;
        if let Some(after) = rest.strip_prefix("%%") {
            rest = after;
            continue;
        }
        let Some(found) = OPERATOR.as_ref().and_then(|regex| regex.captures(rest)) else {
            let part: String = rest.chars().take(40).collect();
            return Some(format!("`{part}` is no command operator of Envoy; a percent sign is written `%%`"));
        };
        let name = found.get(1).map_or("", |name| name.as_str());
        let argument = found.get(2).map(|argument| argument.as_str());
        if let Some(problem) = judge(name, argument) {
            return Some(problem);
        }
        rest = rest.get(found.get(0)?.end()..)?;
    }
    None
}

fn judge(name: &str, argument: Option<&str>) -> Option<String> {
    let wanted = if PLAIN.contains(&name) {
        Argument::None
    } else if WITH_OR_WITHOUT.contains(&name) {
        Argument::Optional
    } else if HEADERS.contains(&name) || OTHERS.contains(&name) {
        Argument::Required
    } else {
        return Some(format!("%{name}% is no command operator that Portolan knows of Envoy"));
    };
    match (wanted, argument) {
        (Argument::None, Some(_)) => Some(format!("%{name}% has no argument")),
        (Argument::Required, None) => Some(format!("%{name}% needs an argument in parentheses")),
        (Argument::Required, Some(argument)) if HEADERS.contains(&name) && argument.matches('?').count() > 1 => {
            Some(format!("%{name}({argument})% names more than one alternative header"))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_judged_by_their_operators() {
        for good in [
            "",
            "100%%",
            "%START_TIME(%Y-%m-%dT%H:%M:%S.%3fZ)% %REQ(X-A?:PATH):20% [%RESPONSE_FLAGS%]",
            "%DYNAMIC_METADATA(com.test:key)%",
        ] {
            assert_eq!(problem(good), None, "{good}");
        }
        for bad in ["100%", "%NOPE%", "%REQ%", "%PROTOCOL(x)%", "%REQ(a?b?c)%", "%REQ(a", "%start_time%", "é%é"] {
            assert!(problem(bad).is_some(), "{bad}");
        }
    }
}
