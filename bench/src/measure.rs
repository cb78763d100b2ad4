//! Times, memory, and how they are shown.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// The median time of `runs` runs, and the largest.
pub fn median(runs: usize, mut run: impl FnMut(usize)) -> (Duration, Duration) {
    let times = (0..runs).map(|number| {
        let start = Instant::now();
        run(number);
        start.elapsed()
    });
    middle(times.collect())
}

/// The median, and the largest.
pub fn middle(mut times: Vec<Duration>) -> (Duration, Duration) {
    times.sort_unstable();
    (times.get(times.len() / 2).copied().unwrap_or_default(), times.last().copied().unwrap_or_default())
}

fn status_line(pid: u32, name: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
    line.trim_start_matches(':').trim().trim_end_matches(" kB").parse::<u64>().unwrap_or_default() * 1024
}

/// Resident memory of a process now, in bytes.
pub fn resident(pid: u32) -> u64 {
    status_line(pid, "VmRSS")
}

/// The most memory of a process that was ever resident, in bytes.
pub fn peak(pid: u32) -> u64 {
    status_line(pid, "VmHWM")
}

pub fn megabytes(bytes: u64) -> String {
    format!("{:.0} MB", bytes as f64 / 1e6)
}

pub fn milliseconds(time: Duration) -> String {
    format!("{:.3} ms", time.as_secs_f64() * 1e3)
}

/// One line of the table: what, bar, measured, and whether the bar is kept (`None`: only reported).
pub struct Row {
    pub what: &'static str,
    pub bar: &'static str,
    pub measured: String,
    pub kept: Option<bool>,
}

pub fn print(rows: &[Row]) {
    println!("| what | bar | measured | |");
    println!("|---|---|---|---|");
    for row in rows {
        let kept = match row.kept {
            Some(true) => "kept",
            Some(false) => "MISSED",
            None => "",
        };
        println!("| {} | {} | {} | {kept} |", row.what, row.bar, row.measured);
    }
}

pub fn json(rows: &[Row]) -> Value {
    let row = |row: &Row| json!({"what": row.what, "bar": row.bar, "measured": row.measured, "kept": row.kept});
    rows.iter().map(row).collect()
}
