//! Processes of pods, as they look from outside: they are children of the cluster's first process, on this machine.

use std::path::{Path, PathBuf};

use portolan_testkit::client::Endpoint;

fn processes() -> impl Iterator<Item = u32> {
    let entries = std::fs::read_dir("/proc").unwrap();
    entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
}

fn arguments(pid: u32) -> Vec<String> {
    let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    line.split(|byte| *byte == 0).map(|part| String::from_utf8_lossy(part).into_owned()).collect()
}

/// The process with this argument.
pub fn with_argument(argument: &str) -> Option<u32> {
    processes().find(|pid| arguments(*pid).iter().any(|one| one == argument))
}

/// The Envoy of a pod, by the pod's UID.
pub struct Envoy {
    root: PathBuf,
}

impl Envoy {
    /// # Panics
    /// When the pod has none.
    pub fn of(uid: &str) -> Self {
        let is = |pid: &u32| {
            let groups = std::fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
            groups.contains(uid) && arguments(*pid).first().is_some_and(|program| program.ends_with("envoy"))
        };
        let pid = processes().find(is).unwrap_or_else(|| panic!("no Envoy in the pod {uid}"));
        Self { root: format!("/proc/{pid}/root").into() }
    }

    pub fn admin(&self) -> Endpoint {
        Endpoint::http1(self.root.join("run/portolan/admin.sock").as_path())
    }

    /// The identity that the pod has at this moment: certificate, key, authorities. Kubelet changes all three at once, by a link.
    pub fn identity(&self) -> [String; 3] {
        let mounted = self.root.join("etc/portolan/identity");
        let now = mounted.join(std::fs::read_link(mounted.join("..data")).unwrap());
        ["tls.crt", "tls.key", "ca.crt"].map(|name| read(&now.join(name)))
    }
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}
