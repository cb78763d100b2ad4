//! A directory of manifests that a test changes in the ways that people and programs do.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::Context as _;

/// A directory that is removed with the value.
///
/// Beside it, outside of what a program under test watches but on the same file system, lies a staging area for atomic renames.
#[derive(Debug)]
pub struct Dir {
    temporary: tempfile::TempDir,
    serial: AtomicU32,
}

impl Dir {
    /// An empty directory.
    ///
    /// # Errors
    /// When the system's directory for temporary files is not writable.
    pub fn new() -> anyhow::Result<Self> {
        let temporary = tempfile::Builder::new().prefix("portolan-").tempdir()?;
        fs::create_dir(temporary.path().join("manifests"))?;
        fs::create_dir(temporary.path().join("staging"))?;
        Ok(Self { temporary, serial: AtomicU32::new(0) })
    }

    /// A copy of another directory, as of the examples.
    ///
    /// # Errors
    /// When one of its files cannot be read or written.
    pub fn copy_of(source: &Path) -> anyhow::Result<Self> {
        let dir = Self::new()?;
        copy(source, &dir.path()).with_context(|| format!("copying {}", source.display()))?;
        Ok(dir)
    }

    /// The directory itself.
    pub fn path(&self) -> PathBuf {
        self.temporary.path().join("manifests")
    }

    /// The path of a file in it.
    pub fn file(&self, name: &str) -> PathBuf {
        self.path().join(name)
    }

    /// Writes a file the way careful programs do: complete beside the directory, then renamed into place. Parent directories are made.
    ///
    /// # Errors
    /// When the file system refuses.
    pub fn write(&self, name: &str, contents: impl AsRef<[u8]>) -> anyhow::Result<()> {
        let staged = self.staged();
        fs::write(&staged, contents)?;
        let target = self.target(name)?;
        fs::rename(&staged, &target).with_context(|| format!("renaming to {}", target.display()))
    }

    /// Writes a file the way shells do: truncated in place, then filled part by part with pauses, so that a reader can see it half-written.
    ///
    /// # Errors
    /// When the file system refuses.
    pub fn write_in_place(&self, name: &str, parts: &[&[u8]], pause: Duration) -> anyhow::Result<()> {
        let mut file = fs::File::create(self.target(name)?)?;
        for (index, part) in parts.iter().enumerate() {
            if index > 0 {
                std::thread::sleep(pause);
            }
            file.write_all(part)?;
            file.flush()?;
        }
        Ok(())
    }

    /// Moves a file within the directory.
    ///
    /// # Errors
    /// When it is not there.
    pub fn rename(&self, from: &str, to: &str) -> anyhow::Result<()> {
        fs::rename(self.file(from), self.target(to)?).with_context(|| format!("renaming {from} to {to}"))
    }

    /// Removes a file, or a directory with all it holds.
    ///
    /// # Errors
    /// When it is not there.
    pub fn remove(&self, name: &str) -> anyhow::Result<()> {
        let path = self.file(name);
        let removed =
            if path.is_dir() && !path.is_symlink() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
        removed.with_context(|| format!("removing {name}"))
    }

    /// Publishes a set of files the way the kubelet mounts a ConfigMap: `name` is a link to `..data/name`, `..data` is a link to a fresh directory,
    /// and one rename of `..data` swaps all of them at once.
    ///
    /// # Errors
    /// When the file system refuses.
    pub fn publish(&self, files: &[(&str, &str)]) -> anyhow::Result<()> {
        let version = format!("..{}", self.serial.fetch_add(1, Ordering::Relaxed));
        fs::create_dir(self.file(&version))?;
        for (name, contents) in files {
            fs::write(self.file(&version).join(name), contents)?;
        }
        let data = self.file("..data");
        let before = fs::read_link(&data).ok();
        let staged = self.file("..data_tmp");
        std::os::unix::fs::symlink(&version, &staged)?;
        fs::rename(&staged, &data)?;
        for (name, _) in files {
            if !self.file(name).is_symlink() {
                std::os::unix::fs::symlink(Path::new("..data").join(name), self.file(name))?;
            }
        }
        if let Some(before) = before {
            fs::remove_dir_all(self.path().join(before))?;
        }
        Ok(())
    }

    fn staged(&self) -> PathBuf {
        let serial = self.serial.fetch_add(1, Ordering::Relaxed);
        self.temporary.path().join("staging").join(serial.to_string())
    }

    fn target(&self, name: &str) -> anyhow::Result<PathBuf> {
        let target = self.file(name);
        if let Some(parent) = target.parent() {
            fs::create_dir_all(parent)?;
        }
        Ok(target)
    }
}

fn copy(source: &Path, target: &Path) -> std::io::Result<()> {
    fs::create_dir_all(target)?;
    for entry in fs::read_dir(source)? {
        let entry = entry?;
        let to = target.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &to)?;
        } else {
            fs::copy(entry.path(), to)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt as _;

    use super::*;

    #[test]
    fn an_atomic_write_replaces_the_file_and_an_in_place_write_keeps_it() {
        let dir = Dir::new().unwrap();
        dir.write("deep/a.yaml", "one").unwrap();
        let inode = fs::metadata(dir.file("deep/a.yaml")).unwrap().ino();
        dir.write("deep/a.yaml", "two").unwrap();
        let replaced = fs::metadata(dir.file("deep/a.yaml")).unwrap().ino();
        assert_ne!(inode, replaced);

        dir.write_in_place("deep/a.yaml", &[b"th", b"ree"], Duration::ZERO).unwrap();
        assert_eq!(fs::metadata(dir.file("deep/a.yaml")).unwrap().ino(), replaced);
        assert_eq!(fs::read_to_string(dir.file("deep/a.yaml")).unwrap(), "three");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "staging lies outside");
    }

    #[test]
    fn publishing_swaps_all_files_at_once() {
        let dir = Dir::new().unwrap();
        dir.publish(&[("a.yaml", "1"), ("b.yaml", "1")]).unwrap();
        dir.publish(&[("a.yaml", "2"), ("b.yaml", "2")]).unwrap();
        assert_eq!(fs::read_to_string(dir.file("a.yaml")).unwrap(), "2");
        assert!(dir.file("a.yaml").is_symlink());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 4, "a, b, ..data and one version");
    }

    #[test]
    fn copies_renames_and_removals() {
        let source = Dir::new().unwrap();
        source.write("x/y.yaml", "y").unwrap();
        let dir = Dir::copy_of(&source.path()).unwrap();
        dir.rename("x/y.yaml", "z.yaml").unwrap();
        assert_eq!(fs::read_to_string(dir.file("z.yaml")).unwrap(), "y");
        dir.remove("z.yaml").unwrap();
        dir.remove("x").unwrap();
        assert!(dir.remove("z.yaml").is_err());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}
