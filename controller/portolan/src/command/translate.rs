//! `portolan translate`: the Envoy configuration.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use portolan_model::NamespacedName;
use portolan_proto::json::{Secrets, to_json};
use portolan_proto::prost::{Message, Name};
use portolan_proto::{Resource, ResourceType, Snapshot};
use serde_json::{Map, Value, json};

use crate::cli::{TranslateFormat, TranslateOptions};
use crate::failure::{Failure, Verdict};
use crate::load::{Loaded, gateway_name, load};
use crate::shell::{Shell, finding};
use crate::yaml;

/// Prints, or writes into files, the configuration of one Gateway or of all.
pub fn translate(options: &TranslateOptions, shell: Shell) -> Result<Verdict, Failure> {
    let loaded = load(&options.directory, Some(options.binding))?;
    for one in &loaded.findings {
        shell.err(finding(one, |style, text| shell.on_err(style, text).to_string()));
    }
    let secrets = if options.show_secrets { Secrets::Show } else { Secrets::Redact };
    let gateways = gateways(&loaded, options.gateway.as_deref())?;
    match (&options.output_dir, options.output) {
        (Some(directory), format) => write_all(directory, format, &gateways, secrets)?,
        (None, TranslateFormat::Envoy) => {
            let [(_, snapshot)] = gateways.as_slice() else {
                let names: Vec<String> = gateways.iter().map(|(name, _)| name.to_string()).collect();
                return Err(Failure::Usage(format!(
                    "there are {} Gateways ({}): choose one with --gateway NAMESPACE/NAME, or write all with -d DIR",
                    names.len(),
                    names.join(", ")
                )));
            };
            shell.out(format_args!("{:#}", complete(snapshot, secrets)?));
        }
        (None, format) => {
            let mut all = Map::new();
            for (name, snapshot) in &gateways {
                all.insert(name.to_string(), resources(snapshot.iter(), secrets)?);
            }
            shell.out(print(&Value::Object(all), format).trim_end());
        }
    }
    // Findings have been told; what is right has been translated. `check` judges.
    Ok(Verdict::Good)
}

type Gateways<'a> = Vec<(&'a NamespacedName, &'a Snapshot)>;

fn gateways<'a>(loaded: &'a Loaded, only: Option<&str>) -> Result<Gateways<'a>, Failure> {
    let engine = loaded.plane.engine();
    let only = only.map(gateway_name).transpose()?;
    let all = engine.fleets().filter_map(|name| Some((name, engine.snapshot(name)?)));
    let chosen: Gateways<'_> = all.filter(|(name, _)| only.as_ref().is_none_or(|only| only == *name)).collect();
    match only {
        Some(name) if chosen.is_empty() => {
            Err(Failure::Usage(format!("no Gateway {name} of Portolan's is in the manifests")))
        }
        _ => Ok(chosen),
    }
}

fn write_all(
    directory: &Path,
    format: TranslateFormat,
    gateways: &Gateways<'_>,
    secrets: Secrets,
) -> Result<(), Failure> {
    let failed = |path: &Path, error: std::io::Error| Failure::Environment(format!("{}: {error}", path.display()));
    std::fs::create_dir_all(directory).map_err(|error| failed(directory, error))?;
    for (name, snapshot) in gateways {
        let extension = if format == TranslateFormat::Yaml { "yaml" } else { "json" };
        let path = directory.join(format!("{}.{}.{extension}", name.namespace, name.name));
        let value = if format == TranslateFormat::Envoy {
            complete(snapshot, secrets)?
        } else {
            resources(snapshot.iter(), secrets)?
        };
        std::fs::write(&path, print(&value, format)).map_err(|error| failed(&path, error))?;
    }
    Ok(())
}

fn print(value: &Value, format: TranslateFormat) -> String {
    match format {
        TranslateFormat::Yaml => yaml::document(value),
        TranslateFormat::Json | TranslateFormat::Envoy => format!("{value:#}\n"),
    }
}

/// A configuration that `envoy -c` runs as it is.
fn complete(snapshot: &Snapshot, secrets: Secrets) -> Result<Value, Failure> {
    let bootstrap = portolan_translate::static_bootstrap(snapshot).map_err(Failure::environment)?;
    to_json(&bootstrap_type(), &bootstrap.encode_to_vec(), secrets).map_err(Failure::environment)
}

/// The type URL of a bootstrap.
pub fn bootstrap_type() -> String {
    portolan_proto::envoy::bootstrap::Bootstrap::type_url()
}

/// Resources of a Snapshot by type, each with its version and what it comes from.
pub fn resources<'a>(all: impl Iterator<Item = &'a Arc<Resource>>, secrets: Secrets) -> Result<Value, Failure> {
    let mut types: BTreeMap<ResourceType, Vec<Value>> = BTreeMap::new();
    for one in all {
        types.entry(one.key.kind).or_default().push(resource(one, secrets)?);
    }
    Ok(Value::Object(types.into_iter().map(|(kind, all)| (plural(kind).into(), Value::Array(all))).collect()))
}

fn resource(resource: &Resource, secrets: Secrets) -> Result<Value, Failure> {
    let origins: Vec<String> = resource
        .origins
        .iter()
        .map(|origin| {
            let namespace = if origin.namespace.is_empty() { String::new() } else { format!("{}/", origin.namespace) };
            format!("{} {namespace}{} {}", origin.kind, origin.name, origin.field).trim_end().to_owned()
        })
        .collect();
    let configuration = match resource.body.message() {
        Some(bytes) => to_json(resource.key.kind.type_url(), &bytes, secrets).map_err(Failure::environment)?,
        None => json!("[held: proxies keep what they have]"),
    };
    Ok(json!({
        "name": *resource.key.name,
        "version": resource.version.to_string(),
        "origins": origins,
        "resource": configuration,
    }))
}

const fn plural(kind: ResourceType) -> &'static str {
    match kind {
        ResourceType::Cluster => "clusters",
        ResourceType::Endpoints => "endpoints",
        ResourceType::Secret => "secrets",
        ResourceType::Scope => "scopes",
        ResourceType::Route => "routes",
        ResourceType::Extension => "extensions",
        ResourceType::Listener => "listeners",
    }
}
