//! An echo backend as a program, for demonstrations and for trying things by hand.

use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::Context as _;
use clap::Parser;
use portolan_testkit::certs::Pair;
use portolan_testkit::{Echo, EchoOptions};

/// Answers every request with what arrived and who received it: HTTP/1.1, HTTP/2, websocket and gRPC on one port.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    /// Where to listen.
    #[arg(long, default_value = "127.0.0.1:3000", value_name = "ADDRESS:PORT")]
    listen: SocketAddr,
    /// What it calls itself.
    #[arg(long, default_value = "echo")]
    name: String,
    /// The namespace it claims to be in.
    #[arg(long, default_value = "default")]
    namespace: String,
    /// The pod it claims to be; its name if not given.
    #[arg(long)]
    pod: Option<String>,
    /// A certificate (PEM): then it speaks TLS.
    #[arg(long, requires = "key", value_name = "FILE")]
    cert: Option<PathBuf>,
    /// The certificate's key (PEM).
    #[arg(long, requires = "cert", value_name = "FILE")]
    key: Option<PathBuf>,
}

#[tokio::main]
#[expect(clippy::print_stdout, reason = "the one line of this program")]
async fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    let read = |path: &PathBuf| std::fs::read_to_string(path).with_context(|| path.display().to_string());
    let tls = match (&arguments.cert, &arguments.key) {
        (Some(certificate), Some(key)) => {
            Some(Pair { certificate: read(certificate)?, key: read(key)? }.server_config()?)
        }
        _ => None,
    };
    let options = EchoOptions {
        pod: arguments.pod.unwrap_or_else(|| arguments.name.clone()),
        name: arguments.name,
        namespace: arguments.namespace,
        listen: arguments.listen,
        tls,
        alter: None,
    };
    let echo = Echo::start(options).await.with_context(|| format!("listening on {}", arguments.listen))?;
    println!("listening on {}", echo.address());
    tokio::signal::ctrl_c().await?;
    echo.drain().await;
    Ok(())
}
