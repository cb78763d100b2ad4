//! The real Envoy: found, asked whether it takes a configuration, run, and ended by its id.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use http::StatusCode;

use crate::Process;
use crate::client::{Address, Endpoint, get};

/// The binary: `$PORTOLAN_ENVOY`, else what `hack/envoy.sh` fetches and caches. The same for the whole process.
///
/// # Errors
/// With what the script says when it cannot provide one.
pub fn find() -> anyhow::Result<&'static Path> {
    static FOUND: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let found = FOUND.get_or_init(|| {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../hack/envoy.sh");
        // The script honours the variable, and says what is wrong with its value.
        let output = Command::new(&script).output().map_err(|error| format!("{}: {error}", script.display()))?;
        if !output.status.success() {
            return Err(String::from_utf8_lossy(&output.stderr).into_owned());
        }
        Ok(PathBuf::from(String::from_utf8_lossy(&output.stdout).trim()))
    });
    found.as_deref().map_err(|error| anyhow::anyhow!("{error}"))
}

/// Whether Envoy takes a bootstrap (JSON or YAML), by `envoy --mode validate`: about 0.1 s.
///
/// # Errors
/// With Envoy's own words when it refuses; or when there is no Envoy.
pub fn validate(config: &str) -> anyhow::Result<()> {
    let file = write(config)?;
    let output = Command::new(find()?).args(["--mode", "validate", "-l", "error", "-c"]).arg(file.path()).output()?;
    let text = String::from_utf8_lossy(&output.stderr);
    anyhow::ensure!(output.status.success(), "Envoy refuses the configuration: {}", text.trim());
    Ok(())
}

/// How to run an Envoy.
#[derive(Debug, Clone)]
pub struct EnvoyOptions {
    /// The bootstrap, JSON or YAML.
    pub config: String,
    /// Where the bootstrap puts the admin interface.
    pub admin: Address,
    /// Worker threads.
    pub concurrency: u32,
    /// Further arguments.
    pub arguments: Vec<String>,
}

impl EnvoyOptions {
    /// One worker thread and no further arguments.
    pub fn new(config: impl Into<String>, admin: impl Into<Address>) -> Self {
        Self { config: config.into(), admin: admin.into(), concurrency: 1, arguments: Vec::new() }
    }
}

/// A running Envoy; it is killed with the value.
pub struct Envoy {
    /// The process: its id, its log, signals.
    pub process: Process,
    admin: Endpoint,
    _config: tempfile::NamedTempFile,
}

impl Envoy {
    /// Starts it; [`Envoy::ready`] waits for it.
    ///
    /// # Errors
    /// When there is no Envoy.
    pub fn start(options: &EnvoyOptions) -> anyhow::Result<Self> {
        let config = write(&options.config)?;
        let mut command = Command::new(find()?);
        // Without hot restart, any number of them run side by side.
        command.arg("--disable-hot-restart").args([
            "-l",
            "info",
            "--concurrency",
            &options.concurrency.to_string(),
            "-c",
        ]);
        command.arg(config.path()).args(&options.arguments);
        let process = Process::start(command)?;
        Ok(Self { process, admin: Endpoint::http1(options.admin.clone()), _config: config })
    }

    /// Waits until `/ready` says LIVE.
    ///
    /// # Errors
    /// When it ends or the time is over first; the message carries its log.
    pub async fn ready(&mut self, limit: Duration) -> anyhow::Result<()> {
        let end = Instant::now() + limit;
        loop {
            if let Some(status) = self.process.exited()? {
                anyhow::bail!("Envoy ended with {status}:\n{}", self.process.log());
            }
            if let Ok(exchange) = get(&self.admin, "http://admin/ready").await
                && exchange.status == StatusCode::OK
            {
                return Ok(());
            }
            anyhow::ensure!(Instant::now() < end, "Envoy is not ready after {limit:?}:\n{}", self.process.log());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// `GET` of a path of the admin interface, such as `/config_dump`.
    ///
    /// # Errors
    /// When it does not answer, or not with 200.
    pub async fn admin(&self, path: &str) -> anyhow::Result<String> {
        let exchange = get(&self.admin, &format!("http://admin{path}"))
            .await
            .with_context(|| format!("Envoy's admin interface, {path}"))?;
        let body = String::from_utf8_lossy(&exchange.body).into_owned();
        anyhow::ensure!(
            exchange.status == StatusCode::OK,
            "Envoy's admin interface answers {} to {path}: {body}",
            exchange.status
        );
        Ok(body)
    }

    /// `POST` to a path of the admin interface, such as `/healthcheck/fail`.
    ///
    /// # Errors
    /// When it does not answer, or not with 200.
    pub async fn admin_post(&self, path: &str) -> anyhow::Result<String> {
        let request = http::Request::post(format!("http://admin{path}")).body(bytes::Bytes::new())?;
        let exchange = crate::client::send(&self.admin, request).await?;
        let body = String::from_utf8_lossy(&exchange.body).into_owned();
        anyhow::ensure!(
            exchange.status == StatusCode::OK,
            "Envoy's admin interface answers {} to {path}: {body}",
            exchange.status
        );
        Ok(body)
    }

    /// A counter or gauge by its full name; none while Envoy has no such statistic.
    ///
    /// # Errors
    /// When the admin interface does not answer.
    pub async fn stat(&self, name: &str) -> anyhow::Result<Option<u64>> {
        let text = self.admin("/stats").await?;
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
        Ok(line.and_then(|value| value.trim().parse().ok()))
    }
}

/// Envoy tells JSON from YAML by the suffix; every JSON text is also YAML.
fn write(config: &str) -> anyhow::Result<tempfile::NamedTempFile> {
    let file = tempfile::Builder::new().prefix("portolan-envoy-").suffix(".yaml").tempfile()?;
    std::fs::write(file.path(), config)?;
    Ok(file)
}
