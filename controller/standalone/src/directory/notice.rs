//! Notices that something below a directory has changed, and what.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use notify::event::{AccessKind, AccessMode, CreateKind, EventKind, ModifyKind, RemoveKind, RenameMode};
use notify::{RecommendedWatcher, RecursiveMode, Watcher as _};

use super::scan::{is_hidden, is_manifest};

/// Changes that follow each other within this time are looked at together.
const QUIET: Duration = Duration::from_millis(4);
/// A stream of changes is looked at after this time although it goes on.
const PATIENCE: Duration = Duration::from_millis(20);
/// A file that is held open for writing is read after this time although it may be half-written.
const WRITING: Duration = Duration::from_secs(1);

/// What woke the watcher.
#[derive(Debug)]
pub enum Wake {
    Event(notify::Result<notify::Event>),
    Stop,
}

/// What to look at.
#[derive(Debug, PartialEq, Eq)]
pub enum Notice {
    /// These files; nothing else has changed
    Files(BTreeSet<PathBuf>),
    /// Everything: directories, links or the watch itself changed
    Doubt,
    /// Everything, as the deadline passed and nothing happened
    Deadline,
    Stop,
}

/// The kernel's notifications about a directory and the directory that it is in, so that its removal and return are noticed.
pub struct Notifier {
    root: PathBuf,
    absolute: PathBuf,
    sender: Sender<Wake>,
    receiver: Receiver<Wake>,
    watcher: Option<RecommendedWatcher>,
    /// Files that were written to and not yet closed
    writing: BTreeMap<PathBuf, Instant>,
}

impl Notifier {
    /// `sender` and `receiver` are the ends of one channel, whose other senders may send [`Wake::Stop`].
    #[must_use]
    pub fn new(root: &Path, sender: Sender<Wake>, receiver: Receiver<Wake>) -> Self {
        let absolute = std::path::absolute(root).unwrap_or_else(|_| root.to_owned());
        Self { root: root.to_owned(), absolute, sender, receiver, watcher: None, writing: BTreeMap::new() }
    }

    /// Asks the kernel anew, as a watch does not survive the removal of its directory.
    ///
    /// # Errors
    /// When the system's limit of watches is reached, for example. Looking now and then still works.
    pub fn rearm(&mut self) -> notify::Result<()> {
        self.watcher = None;
        let sender = self.sender.clone();
        let hear = move |event| {
            // The receiver is gone only when nobody listens any more.
            let _gone = sender.send(Wake::Event(event));
        };
        // Links can form a mesh with more ways through it than the kernel has watches. What lies behind one is looked at now and then.
        let mut watcher = RecommendedWatcher::new(hear, notify::Config::default().with_follow_symlinks(false))?;
        if let Some(above) = self.absolute.parent() {
            watcher.watch(above, RecursiveMode::NonRecursive)?;
        }
        if self.absolute.exists() {
            watcher.watch(&self.absolute, RecursiveMode::Recursive)?;
        }
        self.watcher = Some(watcher);
        Ok(())
    }

    /// Files to leave alone for now, since somebody is writing them.
    pub fn busy(&mut self, now: Instant) -> BTreeSet<PathBuf> {
        self.writing.retain(|_, since| now.duration_since(*since) < WRITING);
        self.writing.keys().cloned().collect()
    }

    /// Waits until something happens, at most until `deadline`, and then until it is quiet again.
    pub fn wait(&mut self, deadline: Instant) -> Notice {
        let mut files = BTreeSet::new();
        let mut everything = false;
        let mut until = deadline;
        let mut patience = None;
        loop {
            match self.receiver.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(Wake::Stop) | Err(RecvTimeoutError::Disconnected) => return Notice::Stop,
                Ok(Wake::Event(event)) => {
                    let now = Instant::now();
                    if self.sort(event, now, &mut files, &mut everything) {
                        until = (now + QUIET).min(*patience.get_or_insert(now + PATIENCE));
                    }
                }
                Err(RecvTimeoutError::Timeout) if everything => return Notice::Doubt,
                Err(RecvTimeoutError::Timeout) if files.is_empty() => return Notice::Deadline,
                Err(RecvTimeoutError::Timeout) => return Notice::Files(files),
            }
        }
    }

    /// Sorts one event into what to look at; false where it says nothing.
    fn sort(
        &mut self,
        event: notify::Result<notify::Event>,
        now: Instant,
        files: &mut BTreeSet<PathBuf>,
        everything: &mut bool,
    ) -> bool {
        let Ok(event) = event else {
            *everything = true;
            return true;
        };
        if event.need_rescan() {
            *everything = true;
            return true;
        }
        let mut matters = false;
        for path in &event.paths {
            let Ok(below) = path.strip_prefix(&self.absolute) else { continue };
            let path = if below.as_os_str().is_empty() { self.root.clone() } else { self.root.join(below) };
            matters |= self.sort_path(event.kind, path, below, now, files, everything);
        }
        matters
    }

    fn sort_path(
        &mut self,
        kind: EventKind,
        path: PathBuf,
        below: &Path,
        now: Instant,
        files: &mut BTreeSet<PathBuf>,
        everything: &mut bool,
    ) -> bool {
        let single = is_manifest(&path) && !below.ancestors().any(is_hidden);
        match kind {
            EventKind::Access(AccessKind::Close(AccessMode::Write)) => {
                self.writing.remove(&path);
            }
            EventKind::Access(_) => return false,
            EventKind::Modify(ModifyKind::Data(_)) if single => {
                self.writing.entry(path.clone()).or_insert(now);
            }
            EventKind::Remove(RemoveKind::File)
            | EventKind::Modify(ModifyKind::Name(RenameMode::From | RenameMode::To)) => {
                self.writing.remove(&path);
            }
            EventKind::Create(CreateKind::File) | EventKind::Modify(_) => {}
            _ => *everything = true,
        }
        if single && path.metadata().map_or(true, |metadata| metadata.is_file()) && !path.is_symlink() {
            files.insert(path);
            return true;
        }
        // Files of other names say nothing, unless they are directories or links: those of Kubernetes' mounts are hidden.
        let said_nothing = matches!(kind, EventKind::Access(_) | EventKind::Modify(ModifyKind::Data(_)));
        if said_nothing && !below.as_os_str().is_empty() {
            return false;
        }
        *everything = true;
        true
    }
}
