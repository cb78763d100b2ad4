//! Access logs of proxies.

use std::collections::BTreeMap;

use crate::Name;

/// A setting of `spec.telemetry.accessLog` of an EnvoyProxy with one of its sinks.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct AccessLog {
    pub format: AccessLogFormat,
    /// File that each request adds a line to; `/dev/stdout` and `/dev/stderr` are the proxy's own
    pub path: Name,
}

/// What a line holds, with Envoy's command operators.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum AccessLogFormat {
    Text(Name),
    /// An object with these members
    Json(BTreeMap<Name, Name>),
}

impl AccessLog {
    /// What fleets in a cluster log unless they are told otherwise: JSON on standard output.
    #[must_use]
    pub fn standard() -> Self {
        Self { format: AccessLogFormat::standard(), path: Name::from("/dev/stdout") }
    }
}

impl AccessLogFormat {
    /// The members are those of Envoy Gateway's, without headers that Portolan suppresses (`x-envoy-*`). `path` is the one that the
    /// backend got.
    #[must_use]
    pub fn standard() -> Self {
        let members = [
            ("start_time", "%START_TIME%"),
            ("method", "%REQ(:METHOD)%"),
            (":authority", "%REQ(:AUTHORITY)%"),
            ("path", "%REQ(:PATH)%"),
            ("protocol", "%PROTOCOL%"),
            ("response_code", "%RESPONSE_CODE%"),
            ("response_code_details", "%RESPONSE_CODE_DETAILS%"),
            ("response_flags", "%RESPONSE_FLAGS%"),
            ("connection_termination_details", "%CONNECTION_TERMINATION_DETAILS%"),
            ("bytes_received", "%BYTES_RECEIVED%"),
            ("bytes_sent", "%BYTES_SENT%"),
            ("duration", "%DURATION%"),
            ("response_duration", "%RESPONSE_DURATION%"),
            ("x-request-id", "%REQ(X-REQUEST-ID)%"),
            ("x-forwarded-for", "%REQ(X-FORWARDED-FOR)%"),
            ("user-agent", "%REQ(USER-AGENT)%"),
            ("downstream_remote_address", "%DOWNSTREAM_REMOTE_ADDRESS%"),
            ("downstream_local_address", "%DOWNSTREAM_LOCAL_ADDRESS%"),
            ("requested_server_name", "%REQUESTED_SERVER_NAME%"),
            ("route_name", "%ROUTE_NAME%"),
            ("upstream_cluster", "%UPSTREAM_CLUSTER%"),
            ("upstream_host", "%UPSTREAM_HOST%"),
            ("upstream_local_address", "%UPSTREAM_LOCAL_ADDRESS%"),
            ("upstream_transport_failure_reason", "%UPSTREAM_TRANSPORT_FAILURE_REASON%"),
        ];
        Self::Json(members.map(|(name, value)| (Name::from(name), Name::from(value))).into())
    }
}
