//! A running Envoy: our child, or one that an earlier process left running.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use serde::{Deserialize, Serialize};
use tokio::process::{Child, Command};

use super::runtime::EnvoyFiles;

/// What tells a process from a later one with the same pid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    pub pid: u32,
    /// Field 22 of `/proc/PID/stat`: clock ticks after boot (proc_pid_stat(5))
    pub started: u64,
}

impl Identity {
    /// The process that has this pid now; `None` where there is none, or only its exit status.
    ///
    /// # Errors
    /// When it cannot be looked at, such as where no file descriptor is left. That says nothing about the process.
    pub fn of(pid: u32) -> io::Result<Option<Self>> {
        let stat = match fs::read_to_string(format!("/proc/{pid}/stat")) {
            Ok(stat) => stat,
            // ESRCH: it ended after the file was opened.
            Err(error)
                if error.kind() == io::ErrorKind::NotFound
                    || error.raw_os_error() == Some(Errno::SRCH.raw_os_error()) =>
            {
                return Ok(None);
            }
            Err(error) => return Err(error),
        };
        // The second field, the name in parentheses, may hold anything; the third is the state.
        let parsed = stat.rsplit_once(") ").and_then(|(_, fields)| {
            let mut fields = fields.split(' ');
            let state = fields.next()?;
            let started = fields.nth(18)?.parse().ok()?;
            Some((!matches!(state, "Z" | "X")).then_some(Self { pid, started }))
        });
        Ok(parsed.flatten())
    }

    /// Whether it runs. One that cannot be looked at does: to take it for ended would start another in its place.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        self.look(Self::of)
    }

    fn look(&self, of: impl FnOnce(u32) -> io::Result<Option<Self>>) -> bool {
        of(self.pid).map_or_else(
            |_| Pid::from_raw(self.pid.cast_signed()).is_some_and(|pid| test_kill_process(pid) != Err(Errno::SRCH)),
            |found| found == Some(*self),
        )
    }

    /// Sends a signal, unless the process is gone or may be another.
    pub fn signal(&self, signal: Signal) {
        if Self::of(self.pid).is_ok_and(|found| found == Some(*self)) {
            send(self.pid, signal);
        }
    }
}

fn send(pid: u32, signal: Signal) {
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        // It may have ended meanwhile; then there is nothing to signal.
        let _gone = kill_process(pid, signal);
    }
}

/// A running Envoy.
#[derive(Debug)]
pub struct EnvoyProcess {
    pub identity: Identity,
    /// `None`: started by an earlier process
    child: Option<Child>,
}

/// How often an Envoy that is no child of ours is looked at.
const LOOK: Duration = Duration::from_millis(100);

impl EnvoyProcess {
    /// Starts Envoy in a process group of its own, so that neither the terminal's signals nor the end of this process end it; its
    /// log goes to a file for the same reason.
    ///
    /// # Errors
    /// When the program cannot be started.
    pub fn start(binary: &Path, files: &EnvoyFiles, arguments: &[String]) -> io::Result<Self> {
        let log = open_log(&files.log())?;
        let mut child = Command::new(binary)
            .arg("--config-path")
            .arg(files.bootstrap())
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .process_group(0)
            .kill_on_drop(false)
            .spawn()?;
        let identity = child.id().map_or(Ok(None), Identity::of);
        match identity.and_then(|identity| identity.ok_or_else(|| io::Error::other("it ended at once"))) {
            Ok(identity) => Ok(Self { identity, child: Some(child) }),
            Err(error) => {
                // Nobody would know of it, and it would share ports with the next one.
                let _gone = child.start_kill();
                Err(error)
            }
        }
    }

    /// Takes over an Envoy that an earlier process started.
    #[must_use]
    pub const fn adopt(identity: Identity) -> Self {
        Self { identity, child: None }
    }

    /// Sends a signal, unless the process is gone. The pid of a child that was not waited for is nobody else's: that needs no look,
    /// which may not be possible.
    pub fn signal(&self, signal: Signal) {
        match &self.child {
            Some(child) => child.id().into_iter().for_each(|pid| send(pid, signal)),
            None => self.identity.signal(signal),
        }
    }

    /// Ends it for sure. One that cannot be looked at is signalled when it can.
    pub async fn kill(&mut self) {
        loop {
            self.signal(Signal::KILL);
            if tokio::time::timeout(LOOK * 5, self.ended()).await.is_ok() {
                return;
            }
        }
    }

    /// Waits for the end of the process; says how it ended.
    pub async fn ended(&mut self) -> String {
        match &mut self.child {
            Some(child) => match child.wait().await {
                Ok(status) => status.to_string(),
                Err(error) => error.to_string(),
            },
            None => {
                while self.identity.is_alive() {
                    tokio::time::sleep(LOOK).await;
                }
                "ended".into()
            }
        }
    }
}

/// Appending, so that it can be cut short while Envoy writes to it.
fn open_log(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identities_tell_processes_apart() {
        let own = Identity::of(std::process::id()).unwrap().unwrap();
        assert!(own.is_alive() && own.started > 0);
        assert!(!Identity { started: own.started + 1, ..own }.is_alive());
        let mut child = std::process::Command::new("sleep").arg("100").spawn().unwrap();
        let identity = Identity::of(child.id()).unwrap().unwrap();
        Identity { started: identity.started + 1, ..identity }.signal(Signal::KILL);
        assert!(identity.is_alive(), "a signal for another process");
        identity.signal(Signal::KILL);
        child.wait().unwrap();
        assert!(!identity.is_alive());
        assert_eq!(Identity::of(identity.pid).unwrap(), None);
    }

    #[test]
    fn a_process_that_cannot_be_looked_at_is_not_taken_for_ended() {
        let no_descriptors = |_| Err(io::Error::from(Errno::MFILE));
        let own = Identity::of(std::process::id()).unwrap().unwrap();
        assert!(own.look(no_descriptors));
        let mut child = std::process::Command::new("true").spawn().unwrap();
        child.wait().unwrap();
        assert!(!Identity { pid: child.id(), started: 1 }.look(no_descriptors), "nobody has the pid");
    }
}
