//! A directory of manifests, watched.
//!
//! ```text
//! notice (inotify) ─▶ scan (which files differ) ─▶ contents (which objects differ, what is wrong) ─▶ Update
//! ```
//!
//! The kernel's notifications say when to look, and they are never believed further than that: every two seconds, and whenever
//! something but a plain file changed, everything is looked at. Files are read by `.yaml`, `.yml` and `.json`; hidden ones are not.

mod contents;
mod notice;
mod scan;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};

pub use contents::{Applied, Contents, Update};
use portolan_model::ObjectKey;
use portolan_model::read;

use notice::{Notice, Notifier, Wake};
use scan::Scanner;

/// Everything is looked at this often, whatever the kernel says.
const PERIOD: Duration = Duration::from_secs(2);
/// The next look at a file whose time is too young to tell a further write apart.
const SOON: Duration = Duration::from_millis(50);
/// Files larger than this are not read. 10,000 routes are about 8 MiB.
pub const FILE_LIMIT: u64 = 32 << 20;

/// Why a directory cannot be watched at all.
#[derive(Debug, thiserror::Error)]
pub enum DirectoryError {
    #[error("{path}: {reason}; name a directory with manifests (.yaml, .yml or .json), or one such file")]
    Unlistable { path: String, reason: String },
    #[error("cannot start a thread to watch {path}: {reason}")]
    Thread { path: String, reason: String },
    #[error("{path} has changed while it was read; try again")]
    Changed { path: String },
}

/// A directory (or a single file) as it was when last looked at.
pub struct Directory {
    path: PathBuf,
    scanner: Scanner,
    contents: Contents,
}

impl Directory {
    /// Reads everything once. The update holds every object and finding.
    ///
    /// # Errors
    /// When the directory is not there or cannot be listed. Single files that cannot be read are findings.
    pub fn open(path: &Path, now: (SystemTime, Instant)) -> Result<(Self, Update), DirectoryError> {
        let name: Arc<str> = path.to_string_lossy().into();
        let mut directory = Self {
            path: path.to_owned(),
            scanner: Scanner::new(path.to_owned(), FILE_LIMIT),
            contents: Contents::new(Arc::clone(&name)),
        };
        let scan = directory.scanner.scan(None, &BTreeSet::new(), now.0);
        if let Some(reason) = scan.missing {
            return Err(DirectoryError::Unlistable { path: name.to_string(), reason });
        }
        let update = directory.contents.update(scan, now.1);
        Ok((directory, update))
    }

    #[must_use]
    pub const fn contents(&self) -> &Contents {
        &self.contents
    }

    /// The objects in force as they were written, with defaults and without status; Secrets without their values. Read anew, since a
    /// program that runs for long has no use for them.
    ///
    /// # Errors
    /// When a file has changed since the last look.
    pub fn written(&self) -> Result<BTreeMap<ObjectKey, serde_json::Value>, DirectoryError> {
        let mut all = BTreeMap::new();
        for (file, text) in self.scanner.read_again() {
            let text = text.ok_or_else(|| DirectoryError::Changed { path: file.to_string() })?;
            // What is neither YAML nor JSON holds nothing that is in force: a finding has said so.
            for (manifest, value) in read::written(&file, &text).unwrap_or_default() {
                let in_force = |key: &ObjectKey| {
                    self.contents.objects().get(key).is_some_and(|applied| applied.location == manifest.location)
                };
                if let Some(key) = manifest.key.filter(in_force) {
                    // The first counts; two have one place in JSON that is no YAML.
                    all.entry(key).or_insert(value);
                }
            }
        }
        Ok(all)
    }

    /// Watches from now on; `sink` gets what changes, on a thread of its own. False from it ends the watch.
    ///
    /// # Errors
    /// When there is no thread to be had.
    pub fn watch(self, sink: impl FnMut(Update) -> bool + Send + 'static) -> Result<Watch, DirectoryError> {
        let path = self.path.to_string_lossy().into_owned();
        let (sender, receiver) = channel();
        let notifier = Notifier::new(&self.path, sender.clone(), receiver);
        let thread = std::thread::Builder::new()
            .name("directory".into())
            .spawn(move || self.run(notifier, sink))
            .map_err(|error| DirectoryError::Thread { path, reason: error.to_string() })?;
        Ok(Watch { stop: sender, thread: Some(thread) })
    }

    fn run(mut self, mut notifier: Notifier, mut sink: impl FnMut(Update) -> bool) {
        let mut armed = true;
        let mut notice = Notice::Doubt;
        loop {
            if notice == Notice::Doubt || !armed {
                // Before the look: what happens after it is noticed.
                armed = rearm(&mut notifier, armed);
            }
            let only = match &notice {
                Notice::Files(files) => Some(files),
                Notice::Doubt | Notice::Deadline => None,
                Notice::Stop => return,
            };
            let busy = notifier.busy(Instant::now());
            let scan = self.scanner.scan(only, &busy, SystemTime::now());
            let soon = scan.again || !busy.is_empty();
            armed &= scan.missing.is_none();
            let now = Instant::now();
            for update in [self.contents.update(scan, now), self.contents.settle(now)] {
                if !update.is_empty() && !sink(update) {
                    return;
                }
            }
            let deadline = now + if soon || !armed { SOON } else { PERIOD };
            notice = notifier.wait(self.contents.deadline().map_or(deadline, |due| due.min(deadline)));
        }
    }
}

/// True when the kernel will tell.
fn rearm(notifier: &mut Notifier, armed: bool) -> bool {
    match notifier.rearm() {
        Ok(()) => true,
        Err(error) => {
            if armed {
                tracing::warn!(%error, "the kernel does not notify of changes: looking 20 times a second");
            }
            false
        }
    }
}

/// Ends the watch when dropped.
pub struct Watch {
    stop: Sender<Wake>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Watch {
    fn drop(&mut self) {
        let _gone = self.stop.send(Wake::Stop);
        if let Some(thread) = self.thread.take() {
            let _panicked = thread.join();
        }
    }
}
