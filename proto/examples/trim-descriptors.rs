//! Makes `descriptors/envoy.bin.gz`, what the JSON view reads, out of the descriptor set that the crate `envoy-types` ships:
//!
//! ```text
//! cargo run -p portolan-proto --example trim-descriptors
//! ```
//!
//! Run it after an update of `envoy-types` or when a package is added to `src/envoy.rs`. Kept are the files of the packages that
//! `ROOTS` names by prefix, and what they import.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::io::Write;
use std::process::Command;

use prost::encoding::{WireType, encode_key, encode_varint};
use prost_reflect::{DescriptorPool, FileDescriptor};

/// Prefixes of package names.
const ROOTS: &[&str] = &[
    "envoy.config.",
    "envoy.extensions.access_loggers.file",
    "envoy.extensions.access_loggers.grpc",
    "envoy.extensions.access_loggers.open_telemetry",
    "envoy.extensions.access_loggers.stream",
    "envoy.extensions.bootstrap.internal_listener",
    "envoy.extensions.clusters.",
    "envoy.extensions.compression.",
    "envoy.extensions.filters.common.",
    "envoy.extensions.filters.http.api_key_auth",
    "envoy.extensions.filters.http.basic_auth",
    "envoy.extensions.filters.http.buffer",
    "envoy.extensions.filters.http.composite",
    "envoy.extensions.filters.http.compressor",
    "envoy.extensions.filters.http.cors",
    "envoy.extensions.filters.http.credential_injector",
    "envoy.extensions.filters.http.csrf",
    "envoy.extensions.filters.http.custom_response",
    "envoy.extensions.filters.http.decompressor",
    "envoy.extensions.filters.http.ext_authz",
    "envoy.extensions.filters.http.ext_proc",
    "envoy.extensions.filters.http.fault",
    "envoy.extensions.filters.http.grpc_stats",
    "envoy.extensions.filters.http.grpc_web",
    "envoy.extensions.filters.http.header_mutation",
    "envoy.extensions.filters.http.health_check",
    "envoy.extensions.filters.http.jwt_authn",
    "envoy.extensions.filters.http.local_ratelimit",
    "envoy.extensions.filters.http.lua",
    "envoy.extensions.filters.http.oauth2",
    "envoy.extensions.filters.http.ratelimit",
    "envoy.extensions.filters.http.rbac",
    "envoy.extensions.filters.http.router",
    "envoy.extensions.filters.http.set_filter_state",
    "envoy.extensions.filters.http.stateful_session",
    "envoy.extensions.filters.http.wasm",
    "envoy.extensions.filters.listener.",
    "envoy.extensions.filters.network.connection_limit",
    "envoy.extensions.filters.network.direct_response",
    "envoy.extensions.filters.network.http_connection_manager",
    "envoy.extensions.filters.network.local_ratelimit",
    "envoy.extensions.filters.network.rbac",
    "envoy.extensions.filters.network.tcp_proxy",
    "envoy.extensions.filters.udp.udp_proxy",
    "envoy.extensions.formatter.",
    "envoy.extensions.http.custom_response",
    "envoy.extensions.http.early_header_mutation",
    "envoy.extensions.http.header_formatters",
    "envoy.extensions.http.injected_credentials",
    "envoy.extensions.http.original_ip_detection",
    "envoy.extensions.http.stateful_session",
    "envoy.extensions.load_balancing_policies.",
    "envoy.extensions.matching.",
    "envoy.extensions.network.dns_resolver",
    "envoy.extensions.path.",
    "envoy.extensions.regex_engines",
    "envoy.extensions.request_id",
    "envoy.extensions.resource_monitors",
    "envoy.extensions.retry.",
    "envoy.extensions.transport_sockets.",
    "envoy.extensions.upstreams.",
    "envoy.type",
    "udpa.annotations",
    "xds.core",
    "xds.type",
];

fn main() -> Result<(), Box<dyn Error>> {
    let full = DescriptorPool::decode(std::fs::read(shipped_descriptors()?)?.as_slice())?;
    let mut kept = BTreeMap::new();
    for file in full.files().filter(|file| ROOTS.iter().any(|root| file.package_name().starts_with(root))) {
        keep(&file, &mut kept);
    }
    // A set lists a file after what it imports.
    let mut set = Vec::new();
    let mut written = BTreeSet::new();
    for file in kept.values() {
        write(file, &mut written, &mut set)?;
    }
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/descriptors/envoy.bin.gz");
    let mut gzip = flate2::GzBuilder::new().write(Vec::new(), flate2::Compression::best());
    gzip.write_all(&set)?;
    let compressed = gzip.finish()?;
    std::fs::write(path, &compressed)?;
    println!("{} of {} files, {} bytes, {} compressed", kept.len(), full.files().len(), set.len(), compressed.len());
    Ok(())
}

fn keep(file: &FileDescriptor, kept: &mut BTreeMap<String, FileDescriptor>) {
    if kept.insert(file.name().to_string(), file.clone()).is_none() {
        for import in file.dependencies() {
            keep(&import, kept);
        }
    }
}

fn write(file: &FileDescriptor, written: &mut BTreeSet<String>, set: &mut Vec<u8>) -> Result<(), Box<dyn Error>> {
    if !written.insert(file.name().to_string()) {
        return Ok(());
    }
    for import in file.dependencies() {
        write(&import, written, set)?;
    }
    let bytes = file.encode_to_vec();
    encode_key(1, WireType::LengthDelimited, set);
    encode_varint(bytes.len() as u64, set);
    set.extend(bytes);
    Ok(())
}

/// `src/generated/types.bin` of the `envoy-types` that the lock file names.
fn shipped_descriptors() -> Result<std::path::PathBuf, Box<dyn Error>> {
    let output = Command::new(env!("CARGO")).args(["metadata", "--format-version", "1", "--locked"]).output()?;
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout)?;
    let manifest = metadata["packages"]
        .as_array()
        .into_iter()
        .flatten()
        .find(|package| package["name"] == "envoy-types")
        .and_then(|package| package["manifest_path"].as_str())
        .ok_or("envoy-types is not among the packages")?;
    Ok(std::path::Path::new(manifest).with_file_name("src").join("generated/types.bin"))
}
