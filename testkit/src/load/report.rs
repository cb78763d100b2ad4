//! What a load has seen.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use crate::client::{Cause, Failure};

/// How many failures of one cause are kept in words.
const EXAMPLES: usize = 3;

/// Failures of one cause.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Failures {
    /// How many.
    pub count: u64,
    /// The first of them, in words, with the time since the start.
    pub examples: Vec<String>,
}

impl Failures {
    fn absorb(&mut self, other: Self) {
        self.count += other.count;
        let room = EXAMPLES.saturating_sub(self.examples.len());
        self.examples.extend(other.examples.into_iter().take(room));
    }
}

/// What one worker, or all of one name, has seen.
#[derive(Debug, Clone, Default)]
pub struct Tally {
    /// Requests sent, failed ones included.
    pub sent: u64,
    /// Failures by cause.
    pub failures: BTreeMap<Cause, Failures>,
    /// Connections that were opened.
    pub connections: u64,
    /// Requests that were sent again, as the protocol allows.
    pub again: u64,
    /// Microseconds from when a request was due to its complete answer, of those that succeeded.
    latencies: Vec<u32>,
}

impl Tally {
    pub(super) fn succeeded(&mut self, latency: Duration) {
        self.sent += 1;
        self.latencies.push(u32::try_from(latency.as_micros()).unwrap_or(u32::MAX));
    }

    pub(super) fn failed(&mut self, since_start: Duration, failure: &Failure) {
        self.sent += 1;
        let failures = self.failures.entry(failure.cause).or_default();
        failures.count += 1;
        if failures.examples.len() < EXAMPLES {
            failures.examples.push(format!("{:.3} s: {}", since_start.as_secs_f64(), failure.detail));
        }
    }

    /// How many failed.
    pub fn failed_count(&self) -> u64 {
        self.failures.values().map(|failures| failures.count).sum()
    }

    /// A quantile of the latencies: 0.5 is the median, 1.0 the maximum. Zero when nothing succeeded.
    pub fn latency(&self, quantile: f64) -> Duration {
        let mut sorted = self.latencies.clone();
        sorted.sort_unstable();
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a rank between 0 and the number of latencies"
        )]
        let rank = (quantile * sorted.len() as f64).ceil() as usize;
        Duration::from_micros(sorted.get(rank.saturating_sub(1)).copied().unwrap_or_default().into())
    }

    fn absorb(&mut self, other: Self) {
        self.sent += other.sent;
        self.connections += other.connections;
        self.again += other.again;
        for (cause, failures) in other.failures {
            self.failures.entry(cause).or_default().absorb(failures);
        }
        self.latencies.extend(other.latencies);
    }
}

/// What a load has seen, by the names of its workers.
#[derive(Debug, Clone)]
pub struct Report {
    /// How long the load ran.
    pub elapsed: Duration,
    /// By name of worker.
    pub workers: BTreeMap<&'static str, Tally>,
}

impl Report {
    pub(super) fn new(elapsed: Duration) -> Self {
        Self { elapsed, workers: BTreeMap::new() }
    }

    pub(super) fn add(&mut self, name: &'static str, tally: Tally) {
        self.workers.entry(name).or_default().absorb(tally);
    }

    /// All workers together.
    pub fn total(&self) -> Tally {
        let mut total = Tally::default();
        for tally in self.workers.values() {
            total.absorb(tally.clone());
        }
        total
    }

    /// Requests sent.
    pub fn sent(&self) -> u64 {
        self.workers.values().map(|tally| tally.sent).sum()
    }

    /// Requests failed.
    pub fn failed(&self) -> u64 {
        self.workers.values().map(Tally::failed_count).sum()
    }

    /// Requests failed for one cause.
    pub fn failed_by(&self, cause: Cause) -> u64 {
        self.workers.values().filter_map(|tally| tally.failures.get(&cause)).map(|failures| failures.count).sum()
    }

    /// Requests per second, on average.
    pub fn rate(&self) -> f64 {
        self.sent() as f64 / self.elapsed.as_secs_f64().max(f64::MIN_POSITIVE)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            formatter,
            "{:<16} {:>8} {:>7} {:>6} {:>6} {:>9} {:>9} {:>9}",
            "load", "sent", "failed", "conns", "again", "p50", "p99", "max"
        )?;
        let milliseconds = |duration: Duration| format!("{:.1}ms", duration.as_secs_f64() * 1000.0);
        let mut line = |name: &str, tally: &Tally| {
            writeln!(
                formatter,
                "{name:<16} {:>8} {:>7} {:>6} {:>6} {:>9} {:>9} {:>9}",
                tally.sent,
                tally.failed_count(),
                tally.connections,
                tally.again,
                milliseconds(tally.latency(0.5)),
                milliseconds(tally.latency(0.99)),
                milliseconds(tally.latency(1.0)),
            )
        };
        for (name, tally) in &self.workers {
            line(name, tally)?;
        }
        line("total", &self.total())?;
        writeln!(formatter, "{:.0} requests a second for {:.1} s", self.rate(), self.elapsed.as_secs_f64())?;
        for (name, tally) in &self.workers {
            for (cause, failures) in &tally.failures {
                writeln!(formatter, "{name}: {} failed by {cause}, such as", failures.count)?;
                for example in &failures.examples {
                    writeln!(formatter, "    {example}")?;
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles() {
        let mut tally = Tally::default();
        for milliseconds in 1..=100 {
            tally.succeeded(Duration::from_millis(milliseconds));
        }
        assert_eq!(tally.latency(0.5), Duration::from_millis(50));
        assert_eq!(tally.latency(0.99), Duration::from_millis(99));
        assert_eq!(tally.latency(1.0), Duration::from_millis(100));
        assert_eq!(Tally::default().latency(0.5), Duration::ZERO);
    }

    #[test]
    fn workers_of_one_name_add_up_and_the_first_examples_stay() {
        let mut report = Report::new(Duration::from_secs(2));
        for _ in 0..2 {
            let mut tally = Tally::default();
            for serial in 0..5 {
                tally.failed(Duration::ZERO, &Failure::new(Cause::Broken, format!("number {serial}")));
            }
            tally.succeeded(Duration::from_millis(1));
            report.add("a", tally);
        }
        assert_eq!((report.sent(), report.failed(), report.failed_by(Cause::Broken)), (12, 10, 10));
        assert_eq!(report.failed_by(Cause::Status), 0);
        assert_eq!(report.workers["a"].failures[&Cause::Broken].examples.len(), EXAMPLES);
        assert!((report.rate() - 6.0).abs() < 1e-9);
        assert!(report.to_string().contains("10 failed by broken"));
    }
}
