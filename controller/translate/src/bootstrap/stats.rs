//! Which statistics a proxy keeps.

use portolan_proto::envoy::matcher::{ListStringMatcher, StringMatcher, string_matcher::MatchPattern};
use portolan_proto::envoy::metrics::{StatsConfig, StatsMatcher, stats_matcher};

/// Kept as a whole: what readiness and draining read, and what is told per listener and per proxy.
const PREFIXES: [&str; 10] = [
    "cluster_manager.",
    "control_plane.",
    "http.",
    "listener.",
    "listener_manager.",
    "overload.",
    "runtime.",
    "sds.",
    "server.",
    "tcp.",
];

/// Kept of each cluster. The other hundred or so per cluster are what makes thousands of clusters slow to create.
const CLUSTER_SUFFIXES: [&str; 17] = [
    ".membership_healthy",
    ".membership_total",
    ".update_success",
    ".upstream_cx_active",
    ".upstream_cx_connect_fail",
    ".upstream_cx_connect_timeout",
    ".upstream_cx_total",
    ".upstream_rq_2xx",
    ".upstream_rq_3xx",
    ".upstream_rq_4xx",
    ".upstream_rq_5xx",
    ".upstream_rq_active",
    ".upstream_rq_pending_overflow",
    ".upstream_rq_retry",
    ".upstream_rq_time",
    ".upstream_rq_timeout",
    ".upstream_rq_total",
];

pub fn config() -> StatsConfig {
    let prefixes = PREFIXES.into_iter().map(|prefix| MatchPattern::Prefix(prefix.into()));
    let suffixes = CLUSTER_SUFFIXES.into_iter().map(|suffix| MatchPattern::Suffix(suffix.into()));
    let patterns = prefixes
        .chain(suffixes)
        .map(|pattern| StringMatcher { match_pattern: Some(pattern), ..Default::default() })
        .collect();
    StatsConfig {
        stats_matcher: Some(StatsMatcher {
            stats_matcher: Some(stats_matcher::StatsMatcher::InclusionList(ListStringMatcher { patterns })),
        }),
        ..Default::default()
    }
}
