//! Manifests read once, for the commands that do not serve.

use std::path::Path;
use std::time::{Instant, SystemTime};

use portolan_model::NamespacedName;
use portolan_standalone::binding::BindingOptions;
use portolan_standalone::control_plane::{ControlPlane, Happening};
use portolan_standalone::directory::Directory;
use portolan_standalone::{Finding, problems};

use crate::cli::BindingArguments;
use crate::failure::Failure;

/// What a directory of manifests leads to.
pub struct Loaded {
    pub directory: Directory,
    pub plane: ControlPlane,
    /// What is wrong with files and objects, and the conditions that say that something is wrong; by file and line
    pub findings: Vec<Finding>,
}

/// Reads a directory and computes everything.
pub fn load(directory: &Path, binding: Option<BindingArguments>) -> Result<Loaded, Failure> {
    let (directory, update) =
        Directory::open(directory, (SystemTime::now(), Instant::now())).map_err(Failure::environment)?;
    let options = binding.map(BindingOptions::from).unwrap_or_default();
    let mut plane = ControlPlane::new(options, &std::collections::BTreeMap::new());
    // What the machine has is a matter of where it will run.
    plane.apply([Happening::Objects(update.objects)], seconds(SystemTime::now()), &|_| Ok(()));
    let mut findings = directory.contents().findings();
    for (key, _) in plane.ledger().objects() {
        if let Some(status) = plane.engine().status(key) {
            findings.extend(problems(key, status, plane.ledger()));
        }
    }
    findings.sort();
    Ok(Loaded { directory, plane, findings })
}

/// Seconds since the epoch.
pub fn seconds(time: SystemTime) -> i64 {
    time.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| i64::try_from(since.as_secs()).unwrap_or(i64::MAX))
}

/// `NAMESPACE/NAME`, or a name in the namespace `default`.
pub fn gateway_name(text: &str) -> Result<NamespacedName, Failure> {
    let (namespace, name) = text.split_once('/').unwrap_or(("default", text));
    if namespace.is_empty() || name.is_empty() || name.contains('/') {
        return Err(Failure::Usage(format!("{text:?} names no Gateway; write NAMESPACE/NAME")));
    }
    Ok(NamespacedName::new(namespace, name))
}

impl From<BindingArguments> for BindingOptions {
    fn from(arguments: BindingArguments) -> Self {
        Self { port_offset: arguments.port_offset, loopback: arguments.loopback }
    }
}
