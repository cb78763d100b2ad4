//! One hostname of a route table.

use std::sync::Arc;

use super::{Rank, RequestMatch, ResolvedRule, TableId};
use crate::{Name, ObjectKey};

/// A route's presence under a hostname of a table.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HostEntry {
    pub table: TableId,
    /// Exact hostname, `*.suffix` or `*`
    pub host: Name,
    pub route: ObjectKey,
}

/// The host of an HTTPS table that answers for all names of the port's other listeners. No hostname holds a `/`.
pub const MISDIRECTED: &str = "portolan/misdirected";

/// A virtual host: what a request for `host` meets, first match first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostPlan {
    pub table: TableId,
    /// A hostname, or [`MISDIRECTED`]
    pub host: Name,
    /// The hostnames that lead here; empty: `host`
    pub domains: Vec<Name>,
    /// The hostname's own rules by precedence, then (the tail) those of the wildcard hostnames that cover it, the longest first,
    /// as the Gateway API falls through to them
    pub routes: Vec<PlannedRoute>,
    /// Answer where nothing matches: 404, or 421 under a name that another listener of the port serves
    pub otherwise: u16,
}

/// One match of one rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedRoute {
    pub route: ObjectKey,
    pub rule: Arc<ResolvedRule>,
    /// Index in the rule's `matches` as written
    pub matched: usize,
    pub request: RequestMatch,
    pub rank: Rank,
    /// The hostname that the route is attached under: differs from the plan's in the tail
    pub via: Name,
}
