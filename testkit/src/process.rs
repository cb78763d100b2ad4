//! A child process with a log: started, watched, signalled by its id, and ended with the value.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context as _;

/// How often a state that has no event is looked at.
const POLL: Duration = Duration::from_millis(20);

/// A running program whose output goes to a file.
#[derive(Debug)]
pub struct Process {
    child: Child,
    log: PathBuf,
    name: String,
    _temporary: tempfile::TempDir,
}

impl Process {
    /// Starts a command; standard output and error go to one log.
    ///
    /// # Errors
    /// When the program cannot be started.
    pub fn start(mut command: Command) -> anyhow::Result<Self> {
        let temporary = tempfile::Builder::new().prefix("portolan-log-").tempdir()?;
        let log = temporary.path().join("log");
        let file = fs::File::create(&log)?;
        let program = PathBuf::from(command.get_program());
        let name = program.file_name().unwrap_or(program.as_os_str()).to_string_lossy().into_owned();
        let child = command
            .stdin(Stdio::null())
            .stdout(file.try_clone()?)
            .stderr(file)
            .spawn()
            .with_context(|| format!("starting {}", program.display()))?;
        Ok(Self { child, log, name, _temporary: temporary })
    }

    /// The process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Everything it has written so far.
    pub fn log(&self) -> String {
        fs::read(&self.log).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
    }

    /// Its exit status, once it has ended.
    ///
    /// # Errors
    /// When the operating system does not know the child.
    pub fn exited(&mut self) -> anyhow::Result<Option<ExitStatus>> {
        Ok(self.child.try_wait()?)
    }

    /// Waits for a text in the log.
    ///
    /// # Errors
    /// When the program ends or the time is over first; the message carries the end of the log.
    pub async fn wait_for_log(&mut self, text: &str, limit: Duration) -> anyhow::Result<()> {
        let end = Instant::now() + limit;
        loop {
            // In this order: what a program writes just before it ends counts.
            let status = self.exited()?;
            if self.log().contains(text) {
                return Ok(());
            }
            if let Some(status) = status {
                anyhow::bail!("{} ended with {status} before it wrote {text:?}:\n{}", self.name, self.tail());
            }
            if Instant::now() > end {
                anyhow::bail!("{} did not write {text:?} within {limit:?}:\n{}", self.name, self.tail());
            }
            tokio::time::sleep(POLL).await;
        }
    }

    /// Sends a signal by name (`TERM`, `INT`, `HUP`, `STOP`, `CONT`, `KILL`).
    ///
    /// # Errors
    /// When the process has ended already.
    pub fn signal(&self, name: &str) -> anyhow::Result<()> {
        // `kill` the program rather than the system call, which would need unsafe code or one more crate.
        let status =
            Command::new("kill").arg(format!("-{name}")).arg(self.id().to_string()).stderr(Stdio::null()).status()?;
        anyhow::ensure!(status.success(), "{} ({}) does not take signal {name}: it has ended", self.name, self.id());
        Ok(())
    }

    /// Waits for the end of the program.
    ///
    /// # Errors
    /// When it still runs after the limit; it is left running.
    pub async fn wait(&mut self, limit: Duration) -> anyhow::Result<ExitStatus> {
        let end = Instant::now() + limit;
        loop {
            if let Some(status) = self.exited()? {
                return Ok(status);
            }
            if Instant::now() > end {
                anyhow::bail!("{} ({}) still runs after {limit:?}:\n{}", self.name, self.id(), self.tail());
            }
            tokio::time::sleep(POLL).await;
        }
    }

    /// Asks it to end with SIGTERM and waits.
    ///
    /// # Errors
    /// When it does not end within the limit.
    pub async fn terminate(&mut self, limit: Duration) -> anyhow::Result<ExitStatus> {
        if let Some(status) = self.exited()? {
            return Ok(status);
        }
        self.signal("TERM")?;
        self.wait(limit).await
    }

    /// Ends it at once with SIGKILL.
    ///
    /// # Errors
    /// When the operating system does not know the child.
    pub fn kill(&mut self) -> anyhow::Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    fn tail(&self) -> String {
        let log = self.log();
        let lines: Vec<&str> = log.lines().collect();
        lines.get(lines.len().saturating_sub(30)..).unwrap_or_default().join("\n")
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended before; there is nobody to report to either way.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn shell(script: &str) -> Process {
        let mut command = Command::new("sh");
        command.arg("-c").arg(script);
        Process::start(command).unwrap()
    }

    #[tokio::test]
    async fn signals_reach_it_and_its_output_is_kept() {
        let mut process = shell("trap 'echo asked; exit 7' TERM; echo up; while :; do sleep 0.05; done");
        process.wait_for_log("up", Duration::from_secs(5)).await.unwrap();
        let status = process.terminate(Duration::from_secs(5)).await.unwrap();
        assert_eq!(status.code(), Some(7));
        assert!(process.log().contains("asked"));
    }

    #[tokio::test]
    async fn waiting_for_a_text_that_never_comes_shows_the_log() {
        let mut process = shell("echo something else; exit 3");
        let error = process.wait_for_log("up", Duration::from_secs(5)).await.unwrap_err().to_string();
        assert!(error.contains("something else") && error.contains("exit status: 3"), "{error}");
    }

    #[tokio::test]
    async fn dropping_it_ends_it() {
        let process = shell("echo up; exec sleep 60");
        let id = process.id();
        assert!(Path::new(&format!("/proc/{id}")).exists());
        drop(process);
        assert!(!Path::new(&format!("/proc/{id}")).exists());
    }
}
