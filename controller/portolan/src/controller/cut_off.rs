//! Whether this replica knows what is going on (design invariant 17): looked at all the time, told to the pilot, shown in metrics.

use std::fmt;
use std::time::{Duration, Instant};

use portolan_kubernetes::watch::Freshness;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _};
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Unit;

const LOOK: Duration = Duration::from_secs(1);
/// Watches that are back say one after the other what has happened meanwhile, and a deletion may be held for a second until it is confirmed.
/// Only then the world is whole.
const SETTLE: Duration = Duration::from_secs(3);

/// Tells whenever it changes whether this replica is cut off, until nobody listens. What the watches have said before is on its way to the
/// same listener by then.
pub async fn look(freshness: Freshness, tell: impl Fn(bool) -> bool) {
    let mut judge = Judge::default();
    loop {
        let stale = freshness.stale(Instant::now());
        if let Some(is_cut_off) = judge.look(!stale.is_empty(), Instant::now()) {
            if is_cut_off {
                let kinds: Vec<_> = stale.keys().map(ToString::to_string).collect();
                let kinds = kinds.join(", ");
                tracing::warn!(kinds, "what is going on in the cluster is not known; proxies keep what they have");
            } else {
                tracing::info!("what is going on in the cluster is known again");
            }
            if !tell(is_cut_off) {
                return;
            }
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// When a replica counts as cut off: at once, and until everything has been well for a while.
#[derive(Default)]
struct Judge {
    is_cut_off: bool,
    well_since: Option<Instant>,
}

impl Judge {
    /// The news, where there is some.
    fn look(&mut self, is_stale: bool, now: Instant) -> Option<bool> {
        let well_since = if is_stale { None } else { Some(*self.well_since.get_or_insert(now)) };
        self.well_since = well_since;
        let has_settled = well_since.is_some_and(|since| now.saturating_duration_since(since) >= SETTLE);
        let is_cut_off = is_stale || self.is_cut_off && !has_settled;
        let is_news = std::mem::replace(&mut self.is_cut_off, is_cut_off) != is_cut_off;
        is_news.then_some(is_cut_off)
    }
}

/// How long ago the watches have said something: a gauge of the moment, per kind.
#[derive(Debug)]
pub struct Ages(pub Freshness);

impl Collector for Ages {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), fmt::Error> {
        let help =
            "Time since the watch of a kind that was silent for longest has said something; once a minute each does";
        let kind = ConstGauge::new(0.0).metric_type();
        let mut family = encoder.encode_descriptor("portolan_watch_age", help, Some(&Unit::Seconds), kind)?;
        for (followed, age) in self.0.ages(Instant::now()) {
            let labels = [("kind", followed.to_string())];
            ConstGauge::new(age.as_secs_f64()).encode(family.encode_family(&labels)?)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replica_is_cut_off_at_once_and_back_when_all_has_been_well_for_a_while() {
        let (mut judge, start) = (Judge::default(), Instant::now());
        assert_eq!(judge.look(false, start), None, "not from the start");
        assert_eq!(judge.look(true, start + LOOK), Some(true));
        let back = start + 2 * LOOK;
        assert_eq!(judge.look(false, back), None, "perhaps not all has been heard");
        assert_eq!(judge.look(true, back + LOOK), None);
        let back = back + 2 * LOOK;
        assert_eq!(judge.look(false, back), None, "counted from the last time");
        assert_eq!(judge.look(false, back + SETTLE.saturating_sub(LOOK)), None);
        assert_eq!(judge.look(false, back + SETTLE), Some(false));
        assert_eq!(judge.look(false, back + 2 * SETTLE), None, "once");
        assert_eq!(judge.look(true, back + 3 * SETTLE), Some(true));
    }
}
