//! `make demo`: starts Portolan on each example with a real Envoy, sends the requests that its README promises, and prints what answered
//! and which route sent it there.

use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;

use anyhow::Context as _;
use portolan_testkit::client::Exchange;
use portolan_testkit::echo::IDENTITY;
use portolan_testkit::examples::{self, Example, Promise};
use portolan_testkit::{Process, envoy, ports};
use serde_json::Value;

const PATIENCE: Duration = Duration::from_secs(30);

struct Row {
    request: String,
    answer: String,
    route: String,
    wrong: Option<String>,
}

#[tokio::main]
#[expect(clippy::print_stdout, clippy::print_stderr, reason = "this program is here to print")]
async fn main() -> ExitCode {
    let mut wrong = 0;
    let names: Vec<String> = std::env::args().skip(1).collect();
    let names = if names.is_empty() { examples::names() } else { Ok(names) };
    for name in names.unwrap_or_default() {
        match show(&name).await {
            Ok(rows) => {
                println!("{}", table(&rows));
                wrong += rows.iter().filter(|row| row.wrong.is_some()).count();
            }
            Err(error) => {
                eprintln!("{name}: {error:#}");
                wrong += 1;
            }
        }
    }
    if wrong == 0 {
        println!("All answers are as the READMEs of the examples promise. Portolan and its Envoys have ended.");
        return ExitCode::SUCCESS;
    }
    eprintln!("{wrong} answers are not as promised");
    ExitCode::FAILURE
}

/// Runs one example from start to end.
#[expect(clippy::print_stdout, reason = "this program is here to print")]
async fn show(name: &str) -> anyhow::Result<Vec<Row>> {
    let example = Example::copy(name)?;
    let backends = example.backends().await?;
    println!("examples/{name}: {} backends, portolan run, Envoy", backends.len());
    let portolan = portolan()?;
    let runtime = tempfile::tempdir()?;
    let mut command = Command::new(&portolan);
    command.arg("run").arg(example.dir.path()).env("PORTOLAN_ENVOY", envoy::find()?).env("NO_COLOR", "1");
    command.args(["--port-offset", &example.port_offset.to_string(), "--drain-limit", "1", "--envoy-concurrency", "1"]);
    command.args(["--admin", &ports::address()?.to_string()]).arg("--runtime-dir").arg(runtime.path().join("portolan"));
    let mut process = Process::start(command)?;
    let rows = ask(&example, &portolan, &mut process).await;
    // Whatever came of it: an Envoy would outlive a Portolan that does not end in order.
    let status = process.terminate(PATIENCE).await?;
    anyhow::ensure!(status.success(), "portolan ended with {status}:\n{}", process.log());
    rows
}

async fn ask(example: &Example, portolan: &Path, process: &mut Process) -> anyhow::Result<Vec<Row>> {
    process.wait_for_log("\nready\n", PATIENCE).await?;
    let mut rows = Vec::new();
    for promise in &example.requests {
        let answer = promise.send(IpAddr::V4(Ipv4Addr::LOCALHOST), example.port_offset).await?;
        let explanation = explain(portolan, promise, &example.dir.path())?;
        rows.push(row(promise, &answer, &explanation, example.port_offset));
    }
    Ok(rows)
}

fn row(promise: &Promise, answer: &Exchange, explanation: &Value, offset: u16) -> Row {
    let route = explanation.get("route").and_then(Value::as_str).map(ToOwned::to_owned);
    let from = answer.header(IDENTITY).map(|name| format!(" from {name}"));
    let to = answer.header("location").map(|location| format!(" to {location}"));
    let headers: Vec<String> = promise.headers.iter().map(|(name, value)| format!(" {name}: {value}")).collect();
    let other_route = || (route != promise.route).then(|| format!("by {:?} instead of {:?}", route, promise.route));
    Row {
        request: format!("{} {}{}", promise.method, promise.url, headers.concat()),
        answer: format!("{}{}", answer.status.as_u16(), from.or(to).unwrap_or_default()),
        wrong: promise.judge(answer, offset).or_else(other_route),
        route: route.unwrap_or_else(|| "(none)".into()),
    }
}

/// What `portolan explain` says about the request.
fn explain(portolan: &Path, promise: &Promise, directory: &Path) -> anyhow::Result<Value> {
    let mut command = Command::new(portolan);
    command.args([
        "explain",
        if promise.method == "GRPC" { "POST" } else { &promise.method },
        &promise.url,
        "-o",
        "json",
    ]);
    if promise.method == "GRPC" {
        command.args(["-H", "content-type: application/grpc"]);
    }
    for (name, value) in &promise.headers {
        command.args(["-H", &format!("{name}: {value}")]);
    }
    let output = command.arg("-d").arg(directory).output()?;
    serde_json::from_slice(&output.stdout)
        .with_context(|| format!("portolan explain said {}", String::from_utf8_lossy(&output.stderr)))
}

/// The program that was built beside this one.
fn portolan() -> anyhow::Result<PathBuf> {
    let path = std::env::current_exe()?.with_file_name("portolan");
    anyhow::ensure!(path.is_file(), "{} is not there: build it with `cargo build -p portolan`", path.display());
    Ok(path)
}

fn table(rows: &[Row]) -> String {
    let header = ["request", "answer", "route that gave it"].map(ToOwned::to_owned);
    let cells = rows.iter().map(|row| [row.request.clone(), row.answer.clone(), row.route.clone()]);
    let all: Vec<[String; 3]> = std::iter::once(header).chain(cells).collect();
    let width = |column: usize| {
        all.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let (first, second) = (width(0), width(1));
    let wrong = std::iter::once(None).chain(rows.iter().map(|row| row.wrong.as_deref()));
    let line = |([request, answer, route], wrong): (&[String; 3], Option<&str>)| {
        let wrong = wrong.map(|wrong| format!("   WRONG: {wrong}")).unwrap_or_default();
        format!("  {request:first$}   {answer:second$}   {route}{wrong}\n")
    };
    all.iter().zip(wrong).map(line).collect()
}
