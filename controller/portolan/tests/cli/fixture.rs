//! The program under test.

use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use portolan_testkit::client::{Endpoint, get};
use portolan_testkit::{Dir, Process, envoy, ports};
use serde_json::Value;

/// Long enough for anything that is going to happen, on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// `portolan` with these arguments, in a directory.
pub fn portolan(directory: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_portolan"))
        .args(arguments)
        .current_dir(directory)
        .env("NO_COLOR", "1")
        .env_remove("PORTOLAN_ENVOY")
        .output()
        .unwrap()
}

pub fn out(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

pub fn err(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// A running `portolan run`. It ends in order with the value, or its Envoys would outlive it.
pub struct Portolan {
    process: Option<Process>,
    admin: std::net::SocketAddr,
    runtime: tempfile::TempDir,
    arguments: Vec<String>,
    directory: std::path::PathBuf,
}

impl Portolan {
    pub fn start(dir: &Dir, arguments: &[&str]) -> Self {
        let mut portolan = Self {
            process: None,
            admin: ports::address().unwrap(),
            runtime: tempfile::tempdir().unwrap(),
            arguments: arguments.iter().map(ToString::to_string).collect(),
            directory: dir.path(),
        };
        portolan.again();
        portolan
    }

    /// Starts it (again) on the same directory.
    pub fn again(&mut self) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_portolan"));
        command.arg("run").arg(&self.directory).env("NO_COLOR", "1").env("PORTOLAN_ENVOY", envoy::find().unwrap());
        command.arg("--admin").arg(self.admin.to_string()).arg("--runtime-dir").arg(self.runtime.path().join("p"));
        command.args(["--drain-limit", "1", "--envoy-concurrency", "1"]).args(&self.arguments);
        self.process = Some(Process::start(command).unwrap());
    }

    pub fn process(&mut self) -> &mut Process {
        self.process.as_mut().unwrap()
    }

    pub fn log(&self) -> String {
        self.process.as_ref().unwrap().log()
    }

    pub async fn ready(&mut self) {
        self.process().wait_for_log("\nready", PATIENCE).await.unwrap();
    }

    /// Waits for a line with all these words, after the first `from` bytes of the log.
    pub async fn line(&mut self, from: usize, words: &[&str]) -> String {
        let end = Instant::now() + PATIENCE;
        loop {
            let log = self.log();
            let found = log[from..].lines().find(|line| words.iter().all(|word| line.contains(word)));
            if let Some(line) = found {
                return line.to_owned();
            }
            assert!(Instant::now() < end, "no line with {words:?} in\n{}", &log[from..]);
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    pub async fn admin(&self, path: &str) -> (u16, String) {
        let answer = get(&Endpoint::http1(self.admin), &format!("http://localhost{path}")).await.unwrap();
        (answer.status.as_u16(), String::from_utf8(answer.body.to_vec()).unwrap())
    }

    /// Asks while the test goes on.
    pub fn admin_task(&self, path: &str) -> tokio::task::JoinHandle<()> {
        let (endpoint, url) = (Endpoint::http1(self.admin), format!("http://localhost{path}"));
        tokio::spawn(async move { assert_eq!(get(&endpoint, &url).await.unwrap().status.as_u16(), 200) })
    }

    pub async fn json(&self, path: &str) -> Value {
        let (status, text) = self.admin(path).await;
        assert_eq!(status, 200, "{text}");
        serde_json::from_str(&text).unwrap()
    }

    pub fn runtime_dir(&self) -> std::path::PathBuf {
        self.runtime.path().join("p")
    }

    /// Where the files of each Gateway's Envoy are.
    pub fn gateway_directories(&self) -> Vec<std::path::PathBuf> {
        let runs = std::fs::read_dir(self.runtime_dir()).unwrap().flatten();
        let entries = runs.flat_map(|run| std::fs::read_dir(run.path()).unwrap().flatten());
        entries.map(|entry| entry.path()).filter(|path| path.is_dir()).collect()
    }

    /// The process ids of its Envoys.
    pub fn envoys(&self) -> Vec<u32> {
        let states = self.gateway_directories().into_iter().map(|gateway| gateway.join("state.json"));
        let states = states.filter_map(|path| serde_json::from_slice::<Value>(&std::fs::read(path).ok()?).ok());
        let mut pids: Vec<u32> =
            states.map(|state| u32::try_from(state["process"]["pid"].as_u64().unwrap()).unwrap()).collect();
        pids.sort_unstable();
        pids
    }

    /// Asks it to end, and waits for it.
    pub async fn stop(&mut self) {
        let status = self.process().terminate(PATIENCE).await.unwrap();
        assert!(status.success(), "{status}: {}", self.log());
    }
}

impl Drop for Portolan {
    fn drop(&mut self) {
        let Some(process) = &mut self.process else { return };
        for _signal in 0..2 {
            let end = Instant::now() + Duration::from_secs(5);
            if process.signal("TERM").is_err() {
                return;
            }
            while Instant::now() < end {
                if process.exited().unwrap().is_some() {
                    return;
                }
                std::thread::sleep(Duration::from_millis(20));
            }
        }
    }
}

/// A GatewayClass and a Gateway `web` with one HTTP listener.
pub fn gateway(port: u16) -> String {
    format!(
        "apiVersion: gateway.networking.k8s.io/v1\nkind: GatewayClass\nmetadata:\n  name: portolan\nspec:\n  controllerName: portolan.dev/gateway-controller\n---\n\
         apiVersion: gateway.networking.k8s.io/v1\nkind: Gateway\nmetadata:\n  name: web\nspec:\n  gatewayClassName: portolan\n  listeners:\n  - name: http\n    port: {port}\n    protocol: HTTP\n"
    )
}

/// An HTTPRoute to a Backend of the same name.
pub fn route(name: &str, host: &str, backend: std::net::SocketAddr) -> String {
    format!(
        "apiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\nmetadata:\n  name: {name}\nspec:\n  parentRefs:\n  - name: web\n  hostnames:\n  - {host}\n  rules:\n  - backendRefs:\n    - group: portolan.dev\n      kind: Backend\n      name: {name}\n---\n\
         apiVersion: portolan.dev/v1alpha1\nkind: Backend\nmetadata:\n  name: {name}\nspec:\n  endpoints:\n  - ip:\n      address: {}\n      port: {}\n",
        backend.ip(),
        backend.port()
    )
}
