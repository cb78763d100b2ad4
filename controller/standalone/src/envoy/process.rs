//! A running Envoy: our child, or one that an earlier process left running.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
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
    #[must_use]
    pub fn of(pid: u32) -> Option<Self> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The second field, the name in parentheses, may hold anything; the third is the state.
        let mut fields = stat.rsplit_once(") ")?.1.split(' ');
        let state = fields.next()?;
        let started = fields.nth(18)?.parse().ok()?;
        (!matches!(state, "Z" | "X")).then_some(Self { pid, started })
    }

    #[must_use]
    pub fn is_alive(&self) -> bool {
        Self::of(self.pid) == Some(*self)
    }

    /// Sends a signal, unless the process is gone.
    pub fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.pid).ok().and_then(Pid::from_raw);
        if let Some(pid) = pid
            && self.is_alive()
        {
            // It may end between the two; then there is nothing to signal.
            let _gone = kill_process(pid, signal);
        }
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
        let child = Command::new(binary)
            .arg("--config-path")
            .arg(files.bootstrap())
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .process_group(0)
            .kill_on_drop(false)
            .spawn()?;
        let identity = child.id().and_then(Identity::of).ok_or_else(|| io::Error::other("it ended at once"))?;
        Ok(Self { identity, child: Some(child) })
    }

    /// Takes over an Envoy that an earlier process started.
    #[must_use]
    pub const fn adopt(identity: Identity) -> Self {
        Self { identity, child: None }
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
        let own = Identity::of(std::process::id()).unwrap();
        assert!(own.is_alive() && own.started > 0);
        assert!(!Identity { started: own.started + 1, ..own }.is_alive());
        let mut child = std::process::Command::new("sleep").arg("100").spawn().unwrap();
        let identity = Identity::of(child.id()).unwrap();
        Identity { started: identity.started + 1, ..identity }.signal(Signal::KILL);
        assert!(identity.is_alive(), "a signal for another process");
        identity.signal(Signal::KILL);
        child.wait().unwrap();
        assert!(!identity.is_alive());
    }
}
