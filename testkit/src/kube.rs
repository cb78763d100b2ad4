//! A real API server on loopback: etcd and kube-apiserver, and on request kube-controller-manager, from the one program `kube` that the
//! test cluster's build makes (`make kube`). No node: pods are objects that nobody runs.
//!
//! ```text
//! Kube ──stdin──▶ sh ─┬─ kube etcd              the shell ends its program when the pipe closes: with the value, and also when
//!        ──stdin──▶ sh ─┬─ kube kube-apiserver    the test process is killed or holds the value in a static
//! ```

use std::fs;
use std::io::Write as _;
use std::net::SocketAddr;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use bytes::Bytes;
use http::StatusCode;

use crate::certs::Authority;
use crate::client::{Endpoint, get, send};
use crate::ports;

/// The version of the Gateway API whose CRDs are installed by default; `conformance/go.mod` names the same one (a test says so).
pub const GATEWAY_API: &str = "v1.6.3";

/// How long a program may take to become ready on a busy machine.
const PATIENCE: Duration = Duration::from_secs(90);

/// A channel of the Gateway API.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Channel {
    /// What is stable.
    Standard,
    /// All of it.
    Experimental,
}

/// What to start, and what to install.
#[derive(Debug, Clone)]
pub struct KubeOptions {
    /// Which CRDs of the Gateway API: a version that `conformance/cluster/cluster build` unpacks, and a channel.
    pub crds: Option<(String, Channel)>,
    /// Whether kube-controller-manager runs too: garbage collection by owner references, the end of namespaces, EndpointSlices.
    pub controller_manager: bool,
}

impl Default for KubeOptions {
    fn default() -> Self {
        Self { crds: Some((GATEWAY_API.to_owned(), Channel::Experimental)), controller_manager: false }
    }
}

/// A running API server.
pub struct Kube {
    program: PathBuf,
    dir: PathBuf,
    address: SocketAddr,
    etcd: SocketAddr,
    token: String,
    health: Endpoint,
    api_server: Option<Guarded>,
    /// etcd, whose shell removes the directory when it ends, and perhaps kube-controller-manager.
    others: Vec<Guarded>,
}

impl Kube {
    /// Starts it and waits until it answers and serves the CRDs: five to ten seconds. It may be held in a static and shared by tests.
    ///
    /// # Errors
    /// When the program is missing, or does not become ready; the message carries its log.
    pub async fn start(options: &KubeOptions) -> anyhow::Result<Self> {
        let program = find()?;
        let dir = tempfile::Builder::new().prefix("portolan-kube-").tempdir()?.keep();
        let (etcd, peers, address) = (ports::address()?, ports::address()?, ports::address()?);
        let authority = Authority::new("kubernetes")?;
        write_credentials(&dir, &authority)?;
        let token = format!("{:016x}", xxhash_rust::xxh3::xxh3_64(dir.as_os_str().as_encoded_bytes()));
        fs::write(dir.join("tokens.csv"), format!("{token},admin,admin,\"system:masters\"\n"))?;
        fs::write(dir.join("kubeconfig"), kubeconfig(address, &authority.pem(), &token))?;

        let (client, peer) = (format!("http://{etcd}"), format!("http://{peers}"));
        let mut command = Command::new(&program);
        command.args(["etcd", "--name", "test", "--unsafe-no-fsync", "--log-level", "warn", "--data-dir"]);
        command.arg(dir.join("etcd"));
        command.args(["--listen-client-urls", &client, "--advertise-client-urls", &client]);
        command.args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer]);
        command.args(["--initial-cluster", &format!("test={peer}")]);
        let storage = Guarded::start("etcd", &command, &dir, Some(&dir))?;
        let health = Endpoint::http1(address).tls(authority.client_config(&["http/1.1"])?, "127.0.0.1")?;
        let mut kube = Self { program, dir, address, etcd, token, health, api_server: None, others: vec![storage] };
        kube.until_etcd_is_healthy().await?;
        kube.start_api_server().await?;
        if options.controller_manager {
            kube.others.push(kube.start_controller_manager()?);
        }
        if let Some((version, channel)) = &options.crds {
            kube.install_crds(version, *channel)?;
        }
        Ok(kube)
    }

    /// A kubeconfig with all rights.
    pub fn kubeconfig(&self) -> PathBuf {
        self.dir.join("kubeconfig")
    }

    /// Where the API server listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What the API server has written.
    pub fn log(&self) -> String {
        fs::read_to_string(self.dir.join("kube-apiserver.log")).unwrap_or_default()
    }

    /// Runs kubectl with all rights and returns what it prints.
    ///
    /// # Errors
    /// When it fails; with its own words.
    pub fn kubectl(&self, arguments: &[&str]) -> anyhow::Result<String> {
        self.kubectl_with(arguments, "")
    }

    /// Applies manifests, as `kubectl apply --server-side` does.
    ///
    /// # Errors
    /// When the API server refuses one.
    pub fn apply(&self, manifests: &str) -> anyhow::Result<String> {
        self.kubectl_with(&["apply", "--server-side", "--force-conflicts", "-f", "-"], manifests)
    }

    /// Installs the CRDs of a version and channel of the Gateway API over those that are there, and waits until they are served.
    ///
    /// # Errors
    /// When the version has not been unpacked or the API server refuses them.
    pub fn install_crds(&self, version: &str, channel: Channel) -> anyhow::Result<()> {
        let channel = if channel == Channel::Standard { "standard" } else { "experimental" };
        // The program lies in bin/, the CRDs beside that folder.
        let cache = self.program.parent().and_then(Path::parent).unwrap_or(Path::new("/"));
        let crds = cache.join("crds").join(version).join(channel);
        anyhow::ensure!(
            crds.is_dir(),
            "no CRDs of the Gateway API {version} in {}: run `conformance/cluster/cluster build crds`",
            crds.display()
        );
        let path = crds.display().to_string();
        self.kubectl(&["apply", "--server-side", "--force-conflicts", "--validate=false", "-f", &path])?;
        self.kubectl(&["wait", "--for=condition=Established", "crd", "--all", "--timeout=60s"])?;
        Ok(())
    }

    /// Takes the API server away, at once and without a farewell. What it stored stays in etcd.
    pub fn stop_api_server(&mut self) {
        self.api_server = None;
    }

    /// Starts it, at its old address, and waits until it is ready.
    ///
    /// # Errors
    /// When it does not become ready; with the end of its log.
    pub async fn start_api_server(&mut self) -> anyhow::Result<()> {
        let pki = |name: &str| self.dir.join(name).display().to_string();
        let mut command = Command::new(&self.program);
        command.args(["kube-apiserver", "--etcd-servers", &format!("http://{}", self.etcd)]);
        command.args(["--bind-address", "127.0.0.1", "--secure-port", &self.address.port().to_string()]);
        // Loopback is no address that the Service `kubernetes` may point to.
        command.args(["--advertise-address", "127.0.0.1", "--endpoint-reconciler-type", "none"]);
        command.args(["--service-cluster-ip-range", "10.96.0.0/16", "--authorization-mode", "RBAC"]);
        command.args(["--tls-cert-file", &pki("apiserver.crt"), "--tls-private-key-file", &pki("apiserver.key")]);
        command.args(["--service-account-issuer", "https://kubernetes.default.svc"]);
        command.args(["--service-account-key-file", &pki("serviceaccounts.pub")]);
        command.args(["--service-account-signing-key-file", &pki("serviceaccounts.key")]);
        command.args(["--token-auth-file", &pki("tokens.csv"), "--cert-dir", &pki("certificates")]);
        // Pods may be created without the service account that a controller would have made.
        command.args(["--disable-admission-plugins", "ServiceAccount", "--allow-privileged"]);
        command.args(["--enable-priority-and-fairness=false", "--profiling=false", "--shutdown-delay-duration=0s"]);
        let mut server = Guarded::start("kube-apiserver", &command, &self.dir, None)?;

        let end = Instant::now() + PATIENCE;
        loop {
            server.check()?;
            self.check_others()?;
            let request = http::Request::get("https://127.0.0.1/readyz")
                .header("host", "127.0.0.1")
                .header("authorization", format!("Bearer {}", self.token))
                .body(Bytes::new())?;
            if let Ok(exchange) = send(&self.health, request).await
                && exchange.status == StatusCode::OK
            {
                break;
            }
            anyhow::ensure!(
                Instant::now() < end,
                "kube-apiserver is not ready after {PATIENCE:?}:\n{}",
                tail(&self.log())
            );
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        self.api_server = Some(server);
        Ok(())
    }

    async fn until_etcd_is_healthy(&mut self) -> anyhow::Result<()> {
        let end = Instant::now() + PATIENCE;
        let endpoint = Endpoint::http1(self.etcd);
        loop {
            self.check_others()?;
            if let Ok(exchange) = get(&endpoint, "http://127.0.0.1/health").await
                && exchange.status == StatusCode::OK
            {
                return Ok(());
            }
            anyhow::ensure!(Instant::now() < end, "etcd is not healthy after {PATIENCE:?}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    fn start_controller_manager(&self) -> anyhow::Result<Guarded> {
        let mut command = Command::new(&self.program);
        command.args(["kube-controller-manager", "--leader-elect=false", "--secure-port", "0", "--kubeconfig"]);
        command.arg(self.kubeconfig());
        command.arg("--service-account-private-key-file").arg(self.dir.join("serviceaccounts.key"));
        command.arg("--root-ca-file").arg(self.dir.join("ca.crt"));
        command.args(["--kube-api-qps", "200", "--kube-api-burst", "400", "--concurrent-namespace-syncs", "20"]);
        Guarded::start("kube-controller-manager", &command, &self.dir, None)
    }

    fn check_others(&mut self) -> anyhow::Result<()> {
        self.others.iter_mut().try_for_each(Guarded::check)
    }

    fn kubectl_with(&self, arguments: &[&str], input: &str) -> anyhow::Result<String> {
        let mut child = Command::new(&self.program)
            .arg("kubectl")
            .args(arguments)
            .env("KUBECONFIG", self.kubeconfig())
            // Where it keeps what it discovered about this one server.
            .env("KUBECACHEDIR", self.dir.join("kubectl"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        if let Some(mut stdin) = child.stdin.take() {
            stdin.write_all(input.as_bytes())?;
        }
        let output = child.wait_with_output()?;
        anyhow::ensure!(
            output.status.success(),
            "kubectl {}: {}",
            arguments.join(" "),
            String::from_utf8_lossy(&output.stderr).trim()
        );
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }
}

/// The program: `$PORTOLAN_KUBE`, else what `make kube` leaves in the user's cache.
///
/// # Errors
/// When it is not there; the message says how to get it.
pub fn find() -> anyhow::Result<PathBuf> {
    let program = match std::env::var_os("PORTOLAN_KUBE") {
        Some(given) => PathBuf::from(given),
        None => cache()?.join("portolan/cluster/bin/kube"),
    };
    anyhow::ensure!(
        program.is_file(),
        "{} is missing: run `make kube`, which builds Kubernetes' programs (cold: ten minutes), or set PORTOLAN_KUBE",
        program.display()
    );
    Ok(program)
}

fn cache() -> anyhow::Result<PathBuf> {
    let given = std::env::var_os("XDG_CACHE_HOME").filter(|path| !path.is_empty()).map(PathBuf::from);
    given
        .or_else(|| std::env::home_dir().map(|home| home.join(".cache")))
        .context("neither XDG_CACHE_HOME nor HOME is set")
}

fn write_credentials(dir: &Path, authority: &Authority) -> anyhow::Result<()> {
    let server = authority.server(&["127.0.0.1", "localhost", "kubernetes.default.svc"])?;
    fs::write(dir.join("ca.crt"), authority.pem())?;
    fs::write(dir.join("apiserver.crt"), server.certificate)?;
    fs::write(dir.join("apiserver.key"), server.key)?;
    // Tokens of service accounts are signed with this one.
    let tokens = rcgen::KeyPair::generate()?;
    fs::write(dir.join("serviceaccounts.key"), tokens.serialize_pem())?;
    fs::write(dir.join("serviceaccounts.pub"), tokens.public_key_pem())?;
    Ok(())
}

fn kubeconfig(address: SocketAddr, authority: &str, token: &str) -> String {
    use base64::Engine as _;
    let authority = base64::engine::general_purpose::STANDARD.encode(authority);
    format!(
        "apiVersion: v1
kind: Config
current-context: test
clusters:
- name: test
  cluster: {{server: 'https://{address}', certificate-authority-data: {authority}}}
users:
- name: admin
  user: {{token: {token}}}
contexts:
- name: test
  context: {{cluster: test, user: admin}}
"
    )
}

fn tail(log: &str) -> String {
    let lines: Vec<&str> = log.lines().collect();
    lines.get(lines.len().saturating_sub(30)..).unwrap_or_default().join("\n")
}

/// Ends the program when standard input closes, or itself when the program ends. `$0` is a directory to remove then, or empty.
const GUARD: &str = r#"
exec 3<&0
"$@" </dev/null &
program=$!
( read -r _ <&3; kill -KILL $program ) 2>/dev/null &
watcher=$!
wait $program
status=$?
kill $watcher 2>/dev/null
[ -z "$0" ] || rm -rf "$0"
exit $status
"#;

/// A program that does not outlive this process: a shell beside it waits for the end of a pipe that only this process holds. (The
/// parent-death signal of Linux goes by thread, and the thread of a test ends before the process does.)
struct Guarded {
    name: &'static str,
    shell: Child,
    log: PathBuf,
}

impl Guarded {
    /// Starts a program, with its log in a directory; `remove` is a directory that goes with it.
    fn start(name: &'static str, program: &Command, dir: &Path, remove: Option<&Path>) -> anyhow::Result<Self> {
        let log = dir.join(name).with_extension("log");
        let output = fs::File::options().create(true).append(true).open(&log)?;
        let shell = Command::new("sh")
            .args(["-c", GUARD])
            .arg(remove.unwrap_or(Path::new("")))
            .arg(program.get_program())
            .args(program.get_args())
            // A signal from the terminal is for the test, which then ends and closes the pipe.
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(output.try_clone()?)
            .stderr(output)
            .spawn()?;
        Ok(Self { name, shell, log })
    }

    /// An error when the program has ended.
    fn check(&mut self) -> anyhow::Result<()> {
        if let Some(status) = self.shell.try_wait()? {
            let log = fs::read_to_string(&self.log).unwrap_or_default();
            anyhow::bail!("{} ended with {status}:\n{}", self.name, tail(&log));
        }
        Ok(())
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        drop(self.shell.stdin.take());
        // Nobody to report to.
        let _ = self.shell.wait();
    }
}
