//! The Envoy on this machine.

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The versions that Portolan is tested with, both included.
pub const OLDEST: (u32, u32) = (1, 37);
/// See [`OLDEST`].
pub const NEWEST: (u32, u32) = (1, 40);
/// The version that `hack/envoy.sh` puts into the cache.
const CACHED: &str = "portolan/envoy-1.40.0/envoy";

/// An Envoy that runs and has a supported version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EnvoyBinary {
    pub path: PathBuf,
    pub version: EnvoyVersion,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct EnvoyVersion {
    pub major: u32,
    pub minor: u32,
    pub patch: u32,
}

impl fmt::Display for EnvoyVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

/// Where to look for Envoy: what the environment says, passed in.
#[derive(Clone, Debug, Default)]
pub struct Places {
    /// `--envoy` or `$PORTOLAN_ENVOY`: this one or none
    pub given: Option<PathBuf>,
    /// `$PATH`
    pub path: Option<std::ffi::OsString>,
    /// `$XDG_CACHE_HOME`, or `.cache` in the home directory
    pub cache: Option<PathBuf>,
}

/// Why there is no Envoy to start.
#[derive(Debug, thiserror::Error)]
pub enum EnvoyError {
    #[error(
        "no Envoy found (looked in {places}); name one with --envoy PATH or $PORTOLAN_ENVOY, or run hack/envoy.sh, which fetches one"
    )]
    Missing { places: String },
    #[error("{path} does not run: {reason}; name another Envoy with --envoy PATH")]
    Unusable { path: String, reason: String },
    #[error("{path} is Envoy {version}; supported are 1.37 to 1.40: name another with --envoy PATH or $PORTOLAN_ENVOY")]
    Unsupported { path: String, version: EnvoyVersion },
}

impl Places {
    /// The first Envoy there is: the given one, else from the PATH, else from the cache.
    ///
    /// # Errors
    /// When there is none, it does not run, or its version is not supported.
    pub fn find(&self) -> Result<EnvoyBinary, EnvoyError> {
        let path = match &self.given {
            Some(path) => path.clone(),
            None => self.search()?,
        };
        let version = version(&path)?;
        if (OLDEST..=NEWEST).contains(&(version.major, version.minor)) {
            Ok(EnvoyBinary { path, version })
        } else {
            Err(EnvoyError::Unsupported { path: path.display().to_string(), version })
        }
    }

    fn search(&self) -> Result<PathBuf, EnvoyError> {
        let on_path = self.path.iter().flat_map(std::env::split_paths).map(|directory| directory.join("envoy"));
        let cached = self.cache.iter().map(|cache| cache.join(CACHED));
        on_path.chain(cached).find(|path| path.is_file()).ok_or_else(|| {
            let cache = self.cache.as_ref().map(|cache| format!(" and {}", cache.join(CACHED).display()));
            EnvoyError::Missing { places: format!("$PATH{}", cache.unwrap_or_default()) }
        })
    }
}

/// Asks `envoy --version`, which prints `envoy  version: HASH/1.40.0/Clean/RELEASE/BoringSSL`.
fn version(path: &Path) -> Result<EnvoyVersion, EnvoyError> {
    let unusable = |reason: String| EnvoyError::Unusable { path: path.display().to_string(), reason };
    let output = Command::new(path).arg("--version").output().map_err(|error| unusable(error.to_string()))?;
    let text = String::from_utf8_lossy(&output.stdout);
    parse_version(&text).ok_or_else(|| {
        let said = if text.trim().is_empty() { String::from_utf8_lossy(&output.stderr) } else { text };
        unusable(format!("--version said {:?}", said.trim().chars().take(200).collect::<String>()))
    })
}

fn parse_version(text: &str) -> Option<EnvoyVersion> {
    let version = text.split("version:").nth(1)?.trim().split('/').nth(1)?;
    let mut parts = version.split(['.', '-']).map(str::parse::<u32>);
    let mut next = || parts.next()?.ok();
    Some(EnvoyVersion { major: next()?, minor: next()?, patch: next()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn script(directory: &Path, says: &str) -> PathBuf {
        let path = directory.join("envoy");
        // By another process: one that a thread of this one starts in the same moment would inherit the open file, and a program that is open for writing
        // cannot be run.
        let write = r#"printf '#!/bin/sh\necho "%s"\n' "$1" >"$0" && chmod 755 "$0""#;
        let written = Command::new("sh").args(["-c", write]).arg(&path).arg(says).status().unwrap();
        assert!(written.success());
        path
    }

    fn given(path: &Path) -> Places {
        Places { given: Some(path.to_owned()), ..Places::default() }
    }

    #[test]
    fn supported_versions_are_taken_and_others_named() {
        let directory = tempfile::tempdir().unwrap();
        let path = script(directory.path(), "envoy  version: 0123abcd/1.37.4/Clean/RELEASE/BoringSSL");
        assert_eq!(given(&path).find().unwrap().version, EnvoyVersion { major: 1, minor: 37, patch: 4 });
        for version in ["1.36.9", "1.41.0", "2.0.0"] {
            let path = script(directory.path(), &format!("envoy  version: 0123abcd/{version}/Clean/RELEASE/BoringSSL"));
            let error = given(&path).find().unwrap_err().to_string();
            assert!(error.contains(version) && error.contains("1.37 to 1.40"), "{error}");
        }
    }

    #[test]
    fn what_is_no_envoy_is_said() {
        let directory = tempfile::tempdir().unwrap();
        let error = given(&script(directory.path(), "hello")).find().unwrap_err();
        assert!(error.to_string().contains("hello"), "{error}");
        assert!(matches!(given(Path::new("/no/such/envoy")).find(), Err(EnvoyError::Unusable { .. })));
    }

    #[test]
    fn the_path_goes_before_the_cache() {
        let (on_path, cache) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let cached = cache.path().join(CACHED);
        std::fs::create_dir_all(cached.parent().unwrap()).unwrap();
        script(cached.parent().unwrap(), "envoy version: x/1.40.0/y");
        let mut places = Places { given: None, path: None, cache: Some(cache.path().to_owned()) };
        assert_eq!(places.find().unwrap().path, cached);
        places.path = Some(on_path.path().as_os_str().to_owned());
        assert_eq!(places.find().unwrap().path, cached);
        let first = script(on_path.path(), "envoy version: x/1.39.1/y");
        assert_eq!(places.find().unwrap().path, first);
        let error = Places::default().find().unwrap_err();
        assert!(matches!(error, EnvoyError::Missing { .. }));
    }
}
