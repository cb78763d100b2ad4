//! The private directory where sockets, bootstraps and the state of Envoys stand, so that a later process finds them again.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs::{self, DirBuilder, File, TryLockError};
use std::io::{self, Read, Write};
use std::net::IpAddr;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use portolan_model::NamespacedName;
use serde::{Deserialize, Serialize};

use super::process::Identity;

/// Longest path of a Unix socket that Linux takes, less its final zero.
const SOCKET_PATH: usize = 107;
/// Longest name of a Gateway's directory.
const SLUG: usize = 40;

/// Why there is no runtime directory.
#[derive(Debug, thiserror::Error)]
pub enum RuntimeError {
    #[error("{path}: {source}; name a directory of your own with --runtime-dir")]
    Io { path: String, source: io::Error },
    #[error(
        "{path} belongs to somebody else or others may write to it; name a directory of your own with --runtime-dir"
    )]
    NotPrivate { path: String },
    #[error(
        "the path of the socket {path} is longer than {SOCKET_PATH} bytes; name a shorter directory with --runtime-dir"
    )]
    TooLong { path: String },
    #[error("process {pid} already runs portolan on this directory; stop it first")]
    Busy { pid: String },
}

/// The runtime directory of one `portolan run DIR`, locked while this process lives.
#[derive(Debug)]
pub struct Runtime {
    path: PathBuf,
    /// The kernel releases the lock when the process ends, however it ends.
    _lock: File,
}

/// What is remembered about a Gateway's Envoy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EnvoyState {
    pub namespace: String,
    pub name: String,
    pub process: Identity,
    /// Hash of the bootstrap that it was started with
    pub bootstrap: u64,
    /// Where its listeners are; empty: all addresses
    pub addresses: Vec<IpAddr>,
}

impl EnvoyState {
    #[must_use]
    pub fn gateway(&self) -> NamespacedName {
        NamespacedName::new(self.namespace.as_str(), self.name.as_str())
    }
}

impl Runtime {
    /// The directory for manifests in `manifests`, below `base` (`$XDG_RUNTIME_DIR` or the temporary directory).
    ///
    /// # Errors
    /// When it cannot be made, is not private, or another process holds it.
    pub fn open(base: &Path, manifests: &Path) -> Result<Self, RuntimeError> {
        let manifests = fs::canonicalize(manifests)
            .or_else(|_| std::path::absolute(manifests))
            .unwrap_or_else(|_| manifests.into());
        let path = base.join(format!("{:016x}", hash(manifests.as_os_str().as_encoded_bytes())));
        for directory in [base, &path] {
            make_private(directory)?;
        }
        let lock = lock(&path.join("lock"))?;
        Ok(Self { path, _lock: lock })
    }

    /// The files of one Gateway's Envoy; makes their directory.
    ///
    /// # Errors
    /// When it cannot be made or its sockets' paths are too long.
    pub fn files(&self, gateway: &NamespacedName) -> Result<EnvoyFiles, RuntimeError> {
        let files = EnvoyFiles { directory: self.path.join(slug(gateway)) };
        make_private(&files.directory)?;
        let longest = files.admin_socket();
        if longest.as_os_str().len() > SOCKET_PATH {
            return Err(RuntimeError::TooLong { path: longest.display().to_string() });
        }
        Ok(files)
    }

    /// Removes the files of a Gateway that is gone, whose Envoy has ended.
    ///
    /// # Errors
    /// When something of it cannot be removed.
    pub fn remove(&self, gateway: &NamespacedName) -> Result<(), RuntimeError> {
        remove(&self.path.join(slug(gateway)))
    }

    /// Removes what earlier processes left of Gateways other than these.
    ///
    /// # Errors
    /// When something cannot be removed; the rest is.
    pub fn remove_others<'a>(
        &self,
        gateways: impl IntoIterator<Item = &'a NamespacedName>,
    ) -> Result<(), RuntimeError> {
        let kept: BTreeSet<OsString> = gateways.into_iter().map(|gateway| slug(gateway).into()).collect();
        let entries = fs::read_dir(&self.path).into_iter().flatten().flatten();
        let others = entries.filter(|entry| !kept.contains(&entry.file_name()) && entry.path().is_dir());
        // Not lazily: one that stays is no reason to leave the others.
        others.map(|entry| remove(&entry.path())).fold(Ok(()), Result::and)
    }

    /// The Envoys of earlier processes that are still alive.
    #[must_use]
    pub fn running(&self) -> BTreeMap<NamespacedName, EnvoyState> {
        let entries = fs::read_dir(&self.path).into_iter().flatten().flatten();
        let states = entries.filter_map(|entry| EnvoyFiles { directory: entry.path() }.state());
        states.filter(|state| state.process.is_alive()).map(|state| (state.gateway(), state)).collect()
    }
}

/// The files of one Gateway's Envoy.
#[derive(Clone, Debug)]
pub struct EnvoyFiles {
    directory: PathBuf,
}

impl EnvoyFiles {
    #[must_use]
    pub fn xds_socket(&self) -> PathBuf {
        self.directory.join("xds.sock")
    }
    #[must_use]
    pub fn admin_socket(&self) -> PathBuf {
        self.directory.join("admin.sock")
    }
    #[must_use]
    pub fn bootstrap(&self) -> PathBuf {
        self.directory.join("envoy.json")
    }
    #[must_use]
    pub fn log(&self) -> PathBuf {
        self.directory.join("envoy.log")
    }

    fn state_file(&self) -> PathBuf {
        self.directory.join("state.json")
    }

    /// What an earlier process wrote, if anything legible.
    #[must_use]
    pub fn state(&self) -> Option<EnvoyState> {
        serde_json::from_slice(&fs::read(self.state_file()).ok()?).ok()
    }

    /// Remembers a running Envoy.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn remember(&self, state: &EnvoyState) -> io::Result<()> {
        let staging = self.directory.join("state.json.new");
        fs::write(&staging, serde_json::to_vec_pretty(state)?)?;
        fs::rename(staging, self.state_file())
    }

    /// Removes what an ended Envoy left. The xDS socket is not Envoy's: it goes with whoever listens on it.
    pub fn clean(&self) {
        for path in [self.state_file(), self.admin_socket()] {
            // What is not there need not be removed; what cannot be removed is written over next time.
            let _absent = fs::remove_file(path);
        }
    }
}

/// The number of the user on whose behalf this process acts.
#[must_use]
pub fn user() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// A hash that is the same in every process and build.
pub fn hash(bytes: &[u8]) -> u64 {
    xxhash_rust::xxh3::xxh3_64(bytes)
}

fn slug(gateway: &NamespacedName) -> String {
    let full = format!("{}.{}", gateway.namespace, gateway.name);
    if full.len() <= SLUG {
        return full;
    }
    let start: String = full.chars().take(SLUG - 17).collect();
    format!("{start}-{:016x}", hash(full.as_bytes()))
}

fn remove(directory: &Path) -> Result<(), RuntimeError> {
    match fs::remove_dir_all(directory) {
        Err(source) if source.kind() != io::ErrorKind::NotFound => {
            Err(RuntimeError::Io { path: directory.display().to_string(), source })
        }
        _ => Ok(()),
    }
}

fn make_private(path: &Path) -> Result<(), RuntimeError> {
    let failed = |source| RuntimeError::Io { path: path.display().to_string(), source };
    DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(failed)?;
    let metadata = fs::metadata(path).map_err(failed)?;
    if metadata.uid() != user() || metadata.mode() & 0o022 != 0 {
        return Err(RuntimeError::NotPrivate { path: path.display().to_string() });
    }
    Ok(())
}

fn lock(path: &Path) -> Result<File, RuntimeError> {
    let failed = |source| RuntimeError::Io { path: path.display().to_string(), source };
    let mut file =
        File::options().read(true).write(true).create(true).truncate(false).mode(0o600).open(path).map_err(failed)?;
    match file.try_lock() {
        Ok(()) => {
            file.set_len(0).map_err(failed)?;
            write!(file, "{}", std::process::id()).map_err(failed)?;
            Ok(file)
        }
        Err(TryLockError::WouldBlock) => {
            let mut pid = String::new();
            file.read_to_string(&mut pid).map_err(failed)?;
            Err(RuntimeError::Busy { pid })
        }
        Err(TryLockError::Error(source)) => Err(failed(source)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_process_at_a_time_and_private() {
        let base = tempfile::tempdir().unwrap();
        let base = base.path().join("portolan");
        let first = Runtime::open(&base, Path::new("/no/such/manifests")).unwrap();
        assert_eq!(fs::metadata(&first.path).unwrap().mode() & 0o777, 0o700);
        let error = Runtime::open(&base, Path::new("/no/such/manifests")).unwrap_err();
        assert!(error.to_string().contains(&std::process::id().to_string()), "{error}");
        Runtime::open(&base, Path::new("/other/manifests")).unwrap();
        drop(first);
        Runtime::open(&base, Path::new("/no/such/manifests")).unwrap();
        fs::set_permissions(&base, std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
        let error = Runtime::open(&base, Path::new("/no/such/manifests")).unwrap_err();
        assert!(matches!(error, RuntimeError::NotPrivate { .. }), "{error}");
    }

    #[test]
    fn a_living_envoy_is_found_again_and_a_dead_one_is_not() {
        let base = tempfile::tempdir().unwrap();
        let runtime = Runtime::open(&base.path().join("p"), Path::new("/m")).unwrap();
        let state = |name: &str, process: Identity| EnvoyState {
            namespace: "ns".into(),
            name: name.into(),
            process,
            bootstrap: 7,
            addresses: vec!["127.0.0.2".parse().unwrap()],
        };
        let own = Identity::of(std::process::id()).unwrap().unwrap();
        let living = state("living", own);
        runtime.files(&living.gateway()).unwrap().remember(&living).unwrap();
        // The pid lives, but it began at another time: another process.
        let reused = state("reused", Identity { started: own.started + 1, ..own });
        runtime.files(&reused.gateway()).unwrap().remember(&reused).unwrap();
        assert_eq!(runtime.running(), BTreeMap::from([(living.gateway(), living.clone())]));
        runtime.files(&living.gateway()).unwrap().clean();
        assert_eq!(runtime.running(), BTreeMap::new());
    }

    #[test]
    fn what_is_left_of_others_is_removed() {
        let base = tempfile::tempdir().unwrap();
        let runtime = Runtime::open(&base.path().join("p"), Path::new("/m")).unwrap();
        let gateways = ["kept", "gone", "old"].map(|name| NamespacedName::new("ns", name));
        let logs = gateways.each_ref().map(|gateway| runtime.files(gateway).unwrap().log());
        for log in &logs {
            fs::write(log, "").unwrap();
        }
        let there = || logs.each_ref().map(|log| log.exists());
        runtime.remove(&gateways[1]).unwrap();
        runtime.remove(&gateways[1]).unwrap();
        assert_eq!(there(), [true, false, true]);
        runtime.remove_others([&gateways[0]]).unwrap();
        assert_eq!(there(), [true, false, false]);
        Runtime::open(&base.path().join("p"), Path::new("/m")).expect_err("the lock is still there");
    }

    #[test]
    fn long_names_make_short_paths_of_their_own() {
        let long = |end: &str| NamespacedName::new("n".repeat(63), "g".repeat(60) + end);
        assert!(slug(&long("a")).len() <= SLUG);
        assert_ne!(slug(&long("a")), slug(&long("b")));
        let base = tempfile::tempdir().unwrap();
        let runtime = Runtime::open(&base.path().join("x".repeat(60)), Path::new("/m")).unwrap();
        let error = runtime.files(&long("a")).unwrap_err();
        assert!(matches!(error, RuntimeError::TooLong { .. }), "{error}");
    }
}
