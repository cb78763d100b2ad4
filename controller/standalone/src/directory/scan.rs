//! Finds the manifests below a directory and reads those that changed.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, Metadata};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// What became of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Text {
    Read(Vec<u8>),
    /// It is there but cannot be used: what is wrong and what to do
    Unusable(String),
    Gone,
}

/// The result of one look at the directory.
#[derive(Debug, Default)]
pub struct Scan {
    /// Files whose content differs from the last look, by path
    pub changed: Vec<(Arc<str>, Text)>,
    /// Why the directory cannot be listed; nothing has changed then
    pub missing: Option<String>,
    /// A file was written so recently that its time cannot tell a further write apart: look again
    pub again: bool,
}

/// Remembers which files were read and what identified their content.
#[derive(Debug)]
pub struct Scanner {
    root: PathBuf,
    /// Files larger than this many bytes are not read
    limit: u64,
    seen: BTreeMap<PathBuf, Seen>,
}

#[derive(Debug)]
struct Seen {
    /// `None`: it could not be read, so it is tried again on every look
    stamp: Option<Stamp>,
    content: u64,
    /// It was a text rather than something that cannot be used
    readable: bool,
}

/// What says that a file is the one that was read. ctime cannot be set back by tools that preserve mtime.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    device: u64,
    inode: u64,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

/// Times of files advance in steps of up to 10 ms on Linux. A file younger than this is read again on the next look (git calls such
/// index entries "racy").
const RACY: Duration = Duration::from_millis(40);
/// A known file that changed so recently, and of which no notification says that its writer has finished, is left for the next look.
const UNFINISHED: Duration = Duration::from_millis(100);

impl Scanner {
    #[must_use]
    pub const fn new(root: PathBuf, limit: u64) -> Self {
        Self { root, limit, seen: BTreeMap::new() }
    }

    /// Looks at everything, or at the files in `only`. Files in `busy` are being written and left alone.
    pub fn scan(&mut self, only: Option<&BTreeSet<PathBuf>>, busy: &BTreeSet<PathBuf>, now: SystemTime) -> Scan {
        let mut scan = Scan::default();
        let files = match only {
            Some(paths) => paths.iter().map(|path| (path.clone(), look(path))).collect(),
            None => match self.list() {
                Ok(files) => files,
                Err(error) => {
                    scan.missing = Some(error.to_string());
                    return scan;
                }
            },
        };
        for (path, state) in files {
            let unfinished =
                only.is_none() && self.seen.contains_key(&path) && state.age(now).is_some_and(|age| age < UNFINISHED);
            if unfinished {
                scan.again = true;
            } else if !busy.contains(&path) {
                self.visit(path, state, now, &mut scan);
            }
        }
        scan
    }

    /// Every manifest below the root and every one known before, by path.
    fn list(&self) -> io::Result<BTreeMap<PathBuf, Look>> {
        let mut files = BTreeMap::new();
        let root = fs::metadata(&self.root)?;
        if root.is_dir() {
            let walk = Walk { seen: &self.seen, files, visited: BTreeSet::new(), links: BTreeSet::new() };
            files = walk.whole(&self.root, &root)?;
        } else if self.seen.keys().any(|path| *path != self.root) {
            // A file in the place of the directory says nothing about what the directory held.
            return Err(io::ErrorKind::NotADirectory.into());
        } else {
            files.insert(self.root.clone(), look(&self.root));
        }
        for path in self.seen.keys() {
            files.entry(path.clone()).or_insert(Look::Gone);
        }
        Ok(files)
    }

    fn visit(&mut self, path: PathBuf, state: Look, now: SystemTime, scan: &mut Scan) {
        let name: Arc<str> = path.to_string_lossy().into();
        let text = match state {
            Look::Kept => return,
            Look::Gone => {
                if self.seen.remove(&path).is_some() {
                    scan.changed.push((name, Text::Gone));
                }
                return;
            }
            Look::Unusable(reason) => Err(reason),
            Look::File(stamp) if self.seen.get(&path).is_some_and(|seen| seen.stamp == Some(stamp)) => return,
            Look::File(_) => self.read(&path),
        };
        let (stamp, text) = match text {
            Ok((stamp, text)) => (Some(stamp), text),
            Err(reason) => (None, Text::Unusable(reason)),
        };
        let racy = stamp.is_some_and(|stamp| stamp.age(now) < RACY);
        scan.again |= racy;
        let readable = matches!(text, Text::Read(_));
        let seen = Seen { stamp: stamp.filter(|_| !racy), content: content_hash(&text), readable };
        let content = seen.content;
        if self.seen.insert(path, seen).is_none_or(|before| before.content != content) {
            scan.changed.push((name, text));
        }
    }

    /// The files that were readable at the last look, once more; `None` for one that has changed since.
    pub fn read_again(&self) -> impl Iterator<Item = (Arc<str>, Option<Vec<u8>>)> {
        self.seen.iter().filter(|(_, seen)| seen.readable).map(|(path, seen)| {
            let text = self.read(path).map(|(_, text)| text).ok().filter(|text| content_hash(text) == seen.content);
            let bytes = text.and_then(|text| if let Text::Read(bytes) = text { Some(bytes) } else { None });
            (path.to_string_lossy().into(), bytes)
        })
    }

    fn read(&self, path: &Path) -> Result<(Stamp, Text), String> {
        let failed = |error: io::Error| format!("cannot be read: {error}; correct its permissions or remove it");
        let file = File::open(path).map_err(failed)?;
        let metadata = file.metadata().map_err(failed)?;
        let too_large = || {
            format!(
                "has {} MiB; manifests of more than {} MiB are not read: split it, or move it out of the directory",
                metadata.size() >> 20,
                self.limit >> 20
            )
        };
        if metadata.size() > self.limit {
            return Ok((Stamp::of(&metadata), Text::Unusable(too_large())));
        }
        let mut bytes = Vec::new();
        (&file).take(self.limit + 1).read_to_end(&mut bytes).map_err(failed)?;
        if bytes.len() as u64 > self.limit {
            return Err(too_large());
        }
        Ok((Stamp::of(&metadata), Text::Read(bytes)))
    }
}

fn content_hash(text: &Text) -> u64 {
    let mut hasher = DefaultHasher::new();
    match text {
        Text::Read(bytes) => (0, bytes).hash(&mut hasher),
        Text::Unusable(reason) => (1, reason).hash(&mut hasher),
        Text::Gone => {}
    }
    hasher.finish()
}

impl Stamp {
    fn of(metadata: &Metadata) -> Self {
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            size: metadata.size(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }

    /// Time since the file was last written, renamed or otherwise touched.
    fn age(&self, now: SystemTime) -> Duration {
        let (seconds, nanoseconds) = self.changed;
        let since_epoch = Duration::new(u64::try_from(seconds).unwrap_or(0), u32::try_from(nanoseconds).unwrap_or(0));
        now.duration_since(SystemTime::UNIX_EPOCH + since_epoch).unwrap_or_default()
    }
}

enum Look {
    File(Stamp),
    Unusable(String),
    Gone,
    /// Nothing can be said, as its directory cannot be listed: as before
    Kept,
}

impl Look {
    fn age(&self, now: SystemTime) -> Option<Duration> {
        match self {
            Self::File(stamp) => Some(stamp.age(now)),
            Self::Unusable(_) | Self::Gone | Self::Kept => None,
        }
    }
}

/// Follows symbolic links: Kubernetes mounts ConfigMaps as links through a hidden directory that is swapped.
fn look(path: &Path) -> Look {
    match fs::metadata(path) {
        Ok(metadata) if metadata.is_file() => Look::File(Stamp::of(&metadata)),
        Ok(metadata) if metadata.is_dir() => Look::Gone,
        Ok(_) => Look::Unusable("is neither a file nor a directory; remove it".into()),
        Err(error) if error.kind() == io::ErrorKind::NotFound && fs::symlink_metadata(path).is_err() => Look::Gone,
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => Look::Gone,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Look::Unusable("is a symbolic link to nothing; correct or remove it".into())
        }
        Err(error) => Look::Unusable(format!("cannot be read: {error}; correct its permissions or remove it")),
    }
}

/// Whether a file of this name is read: `.yaml`, `.yml` or `.json`, not hidden.
#[must_use]
pub fn is_manifest(path: &Path) -> bool {
    let extension = path.extension().and_then(|extension| extension.to_str());
    !is_hidden(path) && matches!(extension, Some("yaml" | "yml" | "json"))
}

/// Whether the last component begins with a dot.
#[must_use]
pub fn is_hidden(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.as_encoded_bytes().first() == Some(&b'.'))
}
/// One look at everything below the root. A directory that is reached in several ways, as links can make it, is looked at once: as
/// itself rather than through a link, through the first link by path otherwise. So links may form circles and meshes.
struct Walk<'a> {
    seen: &'a BTreeMap<PathBuf, Seen>,
    files: BTreeMap<PathBuf, Look>,
    /// Device and inode
    visited: BTreeSet<(u64, u64)>,
    links: BTreeSet<PathBuf>,
}

impl Walk<'_> {
    fn whole(mut self, root: &Path, metadata: &Metadata) -> io::Result<BTreeMap<PathBuf, Look>> {
        self.visited.insert((metadata.dev(), metadata.ino()));
        self.list(root)?;
        while let Some(link) = self.links.pop_first() {
            if let Ok(metadata) = fs::metadata(&link) {
                self.enter(link, &metadata);
            }
        }
        Ok(self.files)
    }

    fn list(&mut self, directory: &Path) -> io::Result<()> {
        for entry in fs::read_dir(directory)? {
            let path = entry?.path();
            if is_hidden(&path) {
                continue;
            }
            match fs::metadata(&path) {
                Ok(metadata) if metadata.is_dir() && path.is_symlink() => _ = self.links.insert(path),
                Ok(metadata) if metadata.is_dir() => self.enter(path, &metadata),
                _ if is_manifest(&path) => {
                    let state = look(&path);
                    self.files.insert(path, state);
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn enter(&mut self, directory: PathBuf, metadata: &Metadata) {
        if !self.visited.insert((metadata.dev(), metadata.ino())) {
            return;
        }
        if let Err(error) = self.list(&directory)
            && error.kind() != io::ErrorKind::NotFound
        {
            for known in self.seen.keys().filter(|known| known.starts_with(&directory)) {
                self.files.insert(known.clone(), Look::Kept);
            }
            let text = format!("cannot be listed: {error}; correct its permissions");
            self.files.insert(directory, Look::Unusable(text));
        }
    }
}
