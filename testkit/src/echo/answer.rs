//! What an echo server says: the JSON of the conformance suite's `echo-basic` (`RequestAssertions`), and two fields more.

use std::collections::BTreeMap;

use http::HeaderMap;
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

/// A request as it arrived, and who received it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Answer {
    /// Path and query.
    pub path: String,
    /// The `host` header or `:authority`.
    pub host: String,
    /// The method.
    pub method: String,
    /// `HTTP/1.1` or `HTTP/2.0`.
    pub proto: String,
    /// The headers, names in lower case, values in the order of arrival.
    pub headers: BTreeMap<String, Vec<String>>,
    /// The port that received it.
    pub http_port: String,
    /// The backend's namespace.
    pub namespace: String,
    /// Always empty; a field of the suite.
    pub ingress: String,
    /// The backend's name.
    pub service: String,
    /// The backend's pod.
    pub pod: String,
    /// The TLS connection, where there was one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub tls: Option<Tls>,
    /// Bytes of the body.
    pub body_length: usize,
    /// [`body_hash`] of the body.
    pub body_hash: String,
}

impl Answer {
    /// The first value of a header that arrived.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.first().map(String::as_str)
    }
}

/// The TLS connection on which a request arrived.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Tls {
    /// `TLSv1.3` or `TLSv1.2`.
    pub version: String,
    /// The server name that the client asked for.
    pub server_name: String,
    /// The protocol chosen by ALPN.
    pub negotiated_protocol: String,
    /// The cipher suite.
    pub cipher_suite: String,
}

impl Tls {
    pub(super) fn of(connection: &rustls::ServerConnection) -> Self {
        let version = match connection.protocol_version() {
            Some(rustls::ProtocolVersion::TLSv1_3) => "TLSv1.3",
            Some(rustls::ProtocolVersion::TLSv1_2) => "TLSv1.2",
            _ => "",
        };
        Self {
            version: version.to_owned(),
            server_name: connection.server_name().unwrap_or_default().to_owned(),
            negotiated_protocol: String::from_utf8_lossy(connection.alpn_protocol().unwrap_or_default()).into_owned(),
            cipher_suite: connection
                .negotiated_cipher_suite()
                .map(|suite| format!("{:?}", suite.suite()))
                .unwrap_or_default(),
        }
    }
}

/// A short fingerprint of a body, the same at both ends.
pub fn body_hash(body: &[u8]) -> String {
    format!("{:016x}", xxh3_64(body))
}

pub(super) fn headers(map: &HeaderMap) -> BTreeMap<String, Vec<String>> {
    let mut headers: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (name, value) in map {
        headers
            .entry(name.as_str().to_owned())
            .or_default()
            .push(String::from_utf8_lossy(value.as_bytes()).into_owned());
    }
    headers
}
