//! The command line of Portolan.

mod cli;
mod command;
mod controller;
mod door;
mod failure;
mod load;
mod proxy;
mod run;
mod shell;
mod yaml;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use tracing_subscriber::EnvFilter;

use cli::{Cli, Command};
use failure::{Failure, Verdict};
use run::Environment;
use shell::{Shell, Style};

/// The C library's allocator keeps what a moment with many new proxies took, for good; this one gives it back
/// (`.cargo/config.toml` has its settings).
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    let cli = Cli::parse();
    let no_color = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let shell = Shell::new(cli.color, no_color);
    // PORTOLAN_LOG=debug shows what goes on inside.
    let filter = EnvFilter::try_from_env("PORTOLAN_LOG").unwrap_or_else(|_| EnvFilter::new("error"));
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(false).init();
    match carry_out(&cli.command, shell) {
        Ok(verdict) => verdict.into(),
        Err(failure) => {
            shell.err(format_args!("{}: {failure}", shell.on_err(Style::Error, "error")));
            ExitCode::from(failure.code())
        }
    }
}

fn carry_out(command: &Command, shell: Shell) -> Result<Verdict, Failure> {
    match command {
        Command::Run(options) => run::run(options, environment(), shell),
        Command::Controller(options) => controller::controller(options),
        Command::Check(options) => command::check(options, shell),
        Command::Translate(options) => command::translate(options, shell),
        Command::Explain(options) => command::explain(options, shell),
        Command::Bootstrap(arguments) => command::bootstrap(arguments, shell),
        Command::Proxy(options) => proxy::proxy(options, shell),
        Command::Crds => {
            command::crds(shell);
            Ok(Verdict::Good)
        }
        Command::Version { output } => {
            command::version(*output, shell);
            Ok(Verdict::Good)
        }
    }
}

fn environment() -> Environment {
    let directory = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let cache = directory("XDG_CACHE_HOME").or_else(|| directory("HOME").map(|home| home.join(".cache")));
    let runtime = directory("XDG_RUNTIME_DIR").map(|runtime| runtime.join("portolan"));
    let user = || std::env::temp_dir().join(format!("portolan-{}", portolan_standalone::envoy::user()));
    Environment { path: std::env::var_os("PATH"), cache, runtime: runtime.unwrap_or_else(user) }
}
