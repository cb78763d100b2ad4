//! `make bench`: what the project promises about time and memory, measured.
//!
//! ```text
//! engine ──────── in this process: time and bytes of one change
//! cold, streams ─ in processes of their own (this program again), so that memory is theirs alone
//! propagation ─── `portolan run` and the real Envoy
//! ```
#![allow(clippy::print_stdout, reason = "a program of development whose output is its purpose")]

mod client;
mod cold;
mod engine;
mod measure;
mod propagation;
mod scene;
mod streams;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, ValueEnum};

use measure::Row;

/// That of `portolan`.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

#[derive(Parser)]
#[command(about = "Measures what the project promises. Exit code 1: a bar is missed.")]
struct Arguments {
    /// `table`: Markdown
    #[arg(short, long, value_enum, default_value_t = Format::Table)]
    output: Format,
    /// Exit code 0 also when a bar is missed
    #[arg(long)]
    report_only: bool,
    /// Only these parts
    #[arg(long, value_enum, value_delimiter = ',')]
    only: Vec<Part>,
    /// The program to measure; else `portolan` beside this one
    #[arg(long)]
    portolan: Option<PathBuf>,
    #[arg(long, hide = true, value_enum)]
    child: Option<Child>,
    /// Where a child serves
    #[arg(long, hide = true)]
    socket: Option<PathBuf>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    Table,
    Json,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Part {
    Engine,
    Cold,
    Streams,
    Propagation,
}

#[derive(Clone, Copy, ValueEnum)]
enum Child {
    Cold,
    Streams,
}

fn main() -> anyhow::Result<ExitCode> {
    let arguments = Arguments::parse();
    match arguments.child {
        Some(Child::Cold) => cold::child(),
        Some(Child::Streams) => streams::child(&arguments.socket.unwrap_or_default())?,
        None => return parent(&arguments),
    }
    Ok(ExitCode::SUCCESS)
}

fn parent(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let wants = |part| arguments.only.is_empty() || arguments.only.contains(&part);
    let mut rows: Vec<Row> = Vec::new();
    if wants(Part::Engine) {
        rows.extend(engine::rows());
    }
    if wants(Part::Cold) {
        rows.extend(cold::rows()?);
    }
    if wants(Part::Streams) {
        rows.extend(streams::rows()?);
    }
    if wants(Part::Propagation) {
        rows.extend(propagation::rows(arguments.portolan.clone())?);
    }
    match arguments.output {
        Format::Table => measure::print(&rows),
        Format::Json => println!("{:#}", measure::json(&rows)),
    }
    let missed = rows.iter().any(|row| row.kept == Some(false));
    Ok(if missed && !arguments.report_only { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}
