//! `portolan run` as a process: killed, started again, and asked about itself on its admin endpoint.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use http::StatusCode;
use serde_json::Value;

use crate::client::{Endpoint, get};
use crate::{Process, envoy, ports};

/// A running `portolan run DIR` with its Envoys. Dropping it ends both, by their ids.
pub struct Portolan {
    binary: PathBuf,
    arguments: Vec<String>,
    process: Process,
    admin: Endpoint,
    runtime: tempfile::TempDir,
}

impl Portolan {
    /// Starts `binary run directory` with these further arguments, an admin port and a runtime directory of its own.
    ///
    /// # Errors
    /// When it cannot be started or there is no Envoy.
    pub fn start(binary: &Path, directory: &Path, arguments: &[&str]) -> anyhow::Result<Self> {
        // Short: sockets lie in it, and their paths have a limit.
        let runtime = tempfile::Builder::new().prefix("portolan-").tempdir()?;
        let admin = ports::address()?;
        let mut all = vec!["run".to_owned(), directory.display().to_string(), "--admin".to_owned(), admin.to_string()];
        all.extend(["--runtime-dir".to_owned(), runtime.path().display().to_string()]);
        all.extend(["--envoy".to_owned(), envoy::find()?.display().to_string()]);
        all.extend(arguments.iter().map(ToString::to_string));
        let process = spawn(binary, &all)?;
        Ok(Self { binary: binary.to_owned(), arguments: all, process, admin: Endpoint::http1(admin), runtime })
    }

    /// The id of the process.
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// What it has written since it was started last.
    pub fn log(&self) -> String {
        self.process.log()
    }

    /// Ends it at once, as SIGKILL does: its Envoys go on.
    ///
    /// # Errors
    /// When it has ended by itself.
    pub fn kill(&mut self) -> anyhow::Result<()> {
        if let Some(status) = self.process.exited()? {
            anyhow::bail!("portolan had ended with {status}:\n{}", self.log());
        }
        self.process.kill()
    }

    /// Starts it again as it was started before.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start_again(&mut self) -> anyhow::Result<()> {
        self.process = spawn(&self.binary, &self.arguments)?;
        Ok(())
    }

    /// Waits until every Gateway is programmed.
    ///
    /// # Errors
    /// When that takes longer than `limit` or it ends before.
    pub async fn ready(&mut self, limit: Duration) -> anyhow::Result<()> {
        let end = Instant::now() + limit;
        loop {
            if let Some(status) = self.process.exited()? {
                anyhow::bail!("portolan ended with {status}:\n{}", self.log());
            }
            if let Ok(exchange) = get(&self.admin, "http://localhost/readyz").await
                && exchange.status == StatusCode::OK
            {
                return Ok(());
            }
            anyhow::ensure!(Instant::now() < end, "portolan is not ready after {limit:?}:\n{}", self.log());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// What its admin endpoint answers to `GET path`.
    ///
    /// # Errors
    /// When it does not answer, or with another status than 200.
    pub async fn admin(&self, path: &str) -> anyhow::Result<String> {
        let exchange =
            get(&self.admin, &format!("http://localhost{path}")).await.with_context(|| format!("admin {path}"))?;
        let body = String::from_utf8_lossy(&exchange.body).into_owned();
        anyhow::ensure!(exchange.status == StatusCode::OK, "admin {path}: {} {body}", exchange.status);
        Ok(body)
    }

    /// An object as Kubernetes would show it: `Gateway/default/web`.
    ///
    /// # Errors
    /// When there is none.
    pub async fn object(&self, path: &str) -> anyhow::Result<Value> {
        Ok(serde_json::from_str(&self.admin(&format!("/objects/{path}")).await?)?)
    }

    /// Its metrics.
    ///
    /// # Errors
    /// When it does not answer.
    pub async fn metrics(&self) -> anyhow::Result<Metrics> {
        Ok(Metrics::read(&self.admin("/metrics").await?))
    }

    /// Asks it to end and waits.
    ///
    /// # Errors
    /// When it takes longer than `limit`.
    pub async fn stop(mut self, limit: Duration) -> anyhow::Result<(ExitStatus, String)> {
        let status = self.process.terminate(limit).await?;
        Ok((status, self.log()))
    }

    /// The processes that were given a path below the runtime directory: Portolan itself and its Envoys.
    fn processes(&self) -> Vec<String> {
        let path = self.runtime.path().as_os_str().as_encoded_bytes();
        let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
        let mentions = |pid: &String| {
            let command = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            command.windows(path.len()).any(|window| window == path)
        };
        let pids = entries.filter_map(|entry| entry.file_name().into_string().ok());
        pids.filter(|name| name.bytes().all(|byte| byte.is_ascii_digit())).filter(mentions).collect()
    }
}

impl Drop for Portolan {
    fn drop(&mut self) {
        for pid in self.processes() {
            // It may have ended by now.
            let _ = Command::new("kill").args(["-KILL", &pid]).stderr(Stdio::null()).status();
        }
    }
}

fn spawn(binary: &Path, arguments: &[String]) -> anyhow::Result<Process> {
    let mut command = Command::new(binary);
    command.args(arguments).env("NO_COLOR", "1");
    Process::start(command)
}

/// Values of metrics at one moment.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Metrics {
    /// By name and labels as they are written
    values: BTreeMap<String, f64>,
}

impl Metrics {
    /// Reads the text format.
    pub fn read(text: &str) -> Self {
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        let pair = |line: &str| {
            let (name, value) = line.rsplit_once(' ')?;
            Some((name.to_owned(), value.parse().ok()?))
        };
        Self { values: lines.filter_map(pair).collect() }
    }

    /// The sum over all labels of the metric that include these, `type="cluster"`.
    pub fn sum(&self, name: &str, labels: &[&str]) -> f64 {
        let of_name = self.values.iter().filter(|(key, _)| key.split('{').next() == Some(name));
        let values = of_name.filter(|(key, _)| labels.iter().all(|label| key.contains(label))).map(|(_, value)| value);
        // The sum of no floating-point numbers is -0, which is no number of anything.
        values.sum::<f64>() + 0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_add_up_over_labels() {
        let text = "# HELP a A.\na_total{f=\"x\",type=\"b\"} 2\na_total{f=\"y\",type=\"b\"} 3\na_total{f=\"y\",type=\"c\"} 4\nab 1\n";
        let metrics = Metrics::read(text);
        assert!((metrics.sum("a_total", &[]) - 9.0).abs() < f64::EPSILON);
        assert!((metrics.sum("a_total", &["type=\"b\""]) - 5.0).abs() < f64::EPSILON);
        assert!((metrics.sum("a_total", &["type=\"b\"", "f=\"y\""]) - 3.0).abs() < f64::EPSILON);
        assert_eq!(metrics.sum("a", &[]).to_string(), "0");
    }
}
