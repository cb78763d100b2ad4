//! The files that a proxy starts with.

use portolan_model::NamespacedName;
use portolan_proto::envoy::bootstrap::Bootstrap;
use portolan_proto::json::{Secrets, from_json, to_json};
use portolan_proto::prost::{Message, Name as _};
use portolan_translate::{AUTHORITIES_SECRET, BootstrapOptions, IDENTITY_SECRET, SecretFiles, ServerTls, XdsServer};
use serde_json::{Map, Value, json};

use super::Platform;
use super::settings::Settings;
use crate::Fleet;

/// Where the ConfigMap is mounted.
pub(super) const FILES: &str = "/etc/portolan/bootstrap";
/// Where the Secret with the fleet's identity is mounted.
pub(super) const IDENTITY: &str = "/etc/portolan/identity";
/// What Envoy and the sidecar share.
pub(super) const RUN: &str = "/run/portolan";
pub(super) const ADMIN: &str = "/run/portolan/admin.sock";

/// The ConfigMap's `data`, and what is wrong with additions to it.
pub(super) fn files(
    gateway: &NamespacedName,
    platform: &Platform,
    settings: &Settings,
    problems: &mut Vec<String>,
) -> Map<String, Value> {
    let tls = ServerTls {
        certificate: format!("{IDENTITY}/tls.crt"),
        private_key: format!("{IDENTITY}/tls.key"),
        authorities: format!("{IDENTITY}/ca.crt"),
        server_name: platform.server_name.clone(),
        secrets: Some(SecretFiles {
            identity: format!("{FILES}/identity.json"),
            authorities: format!("{FILES}/authorities.json"),
        }),
    };
    // kubelet replaces a volume's content by renaming, which is what Envoy watches for.
    let watched = json!({"path": IDENTITY});
    let certificate = json!({
        "certificate_chain": {"filename": tls.certificate},
        "private_key": {"filename": tls.private_key},
        "watched_directory": watched,
    });
    let trusted = json!({"trusted_ca": {"filename": tls.authorities}, "watched_directory": watched});
    let identity = secret_file(IDENTITY_SECRET, "tls_certificate", &certificate);
    let authorities = secret_file(AUTHORITIES_SECRET, "validation_context", &trusted);
    let xds = XdsServer::Tcp { host: platform.xds_host.clone(), port: platform.xds_port, tls };
    let options = BootstrapOptions {
        // The pod's own, from the command line
        node_id: String::new(),
        // The kernel ends a process at its limit: load is shed before.
        heap_limit: settings.memory_limit().map(|bytes| bytes / 10 * 9),
        ..Fleet::of(gateway.clone()).bootstrap_options(xds, ADMIN.to_owned())
    };
    let mut bootstrap = rendered(&portolan_translate::bootstrap(&options));
    if let Some(additions) = &settings.bootstrap {
        match merged(&bootstrap, additions) {
            Ok(merged) => bootstrap = merged,
            Err(problem) => problems.push(format!("bootstrap.value is left out: {problem}")),
        }
    }
    let mut files = Map::new();
    files.insert("authorities.json".into(), json!(pretty(&authorities)));
    files.insert("envoy.json".into(), json!(pretty(&bootstrap)));
    files.insert("identity.json".into(), json!(pretty(&identity)));
    files
}

/// A secret as a file of SDS: Envoy reads files again only for secrets that come so.
fn secret_file(name: &str, field: &str, content: &Value) -> Value {
    let kind = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret";
    json!({"resources": [{"@type": kind, "name": name, field: content}]})
}

fn pretty(value: &Value) -> String {
    format!("{value:#}\n")
}

fn rendered(bootstrap: &Bootstrap) -> Value {
    // Portolan's own message is always JSON: a test renders it.
    to_json(&Bootstrap::type_url(), &bootstrap.encode_to_vec(), Secrets::Show).unwrap_or_default()
}

/// "The provided bootstrap can add or override a value within a map, or add a new value to a list" (ProxyBootstrap). The outcome must be
/// a bootstrap, or no proxy would start.
fn merged(bootstrap: &Value, additions: &str) -> Result<Value, String> {
    let additions = portolan_model::read::yaml(additions)?;
    if !additions.is_object() {
        return Err("it is no YAML mapping".to_owned());
    }
    let mut merged = bootstrap.clone();
    add(&mut merged, &additions);
    let bytes = from_json(&Bootstrap::type_url(), &merged).map_err(|error| error.to_string())?;
    let message = Bootstrap::decode(bytes.as_slice()).map_err(|error| error.to_string())?;
    Ok(rendered(&message))
}

fn add(target: &mut Value, additions: &Value) {
    match (target, additions) {
        (Value::Object(target), Value::Object(additions)) => {
            for (key, value) in additions {
                // The bootstrap has the names of Envoy's documentation; protobuf's JSON mapping allows camel case too.
                let key = if target.contains_key(key) { key.clone() } else { snake(key) };
                match target.get_mut(&key) {
                    Some(old) => add(old, value),
                    None => _ = target.insert(key, value.clone()),
                }
            }
        }
        (Value::Array(target), Value::Array(additions)) => target.extend(additions.iter().cloned()),
        (target, additions) => *target = additions.clone(),
    }
}

fn snake(camel: &str) -> String {
    camel.chars().fold(String::new(), |mut name, char| {
        if char.is_ascii_uppercase() {
            name.push('_');
        }
        name.push(char.to_ascii_lowercase());
        name
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn additions_are_merged_or_refused() {
        let bootstrap = json!({"static_resources": {"clusters": [{"name": "a"}]}, "admin": {}});
        for good in ["static_resources: {clusters: [{name: b}]}", "{staticResources: {clusters: [{name: b}]}}"] {
            let merged = merged(&bootstrap, good).expect("merged");
            assert_eq!(merged["static_resources"]["clusters"], json!([{"name": "a"}, {"name": "b"}]));
        }
        for bad in ["nonsense: 1", "[1]", "{", "admin: 7"] {
            assert!(merged(&bootstrap, bad).is_err(), "{bad}");
        }
    }
}
