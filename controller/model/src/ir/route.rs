//! Routes: where they attach, and what their rules do.

use std::cmp::Reverse;
use std::sync::Arc;
use std::time::Duration;

use super::{BackendId, ClusterKey, ListenerId};
use crate::objects::{Cors, Fraction, HeaderModifier, Meta, ValueMatch};
use crate::{Condition, ConditionType, Name, NamespacedName, ObjectKey};

/// An HTTPRoute or GRPCRoute, resolved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteView {
    pub key: ObjectKey,
    pub meta: Meta,
    /// One entry per parentRef that names a Gateway (or ListenerSet of one) that Portolan serves, in the order of the spec
    pub parents: Vec<ParentOutcome>,
    pub rules: Arc<[Arc<ResolvedRule>]>,
    /// The Services and Backends that the rules name, usable or not. Sorted, without duplicates
    pub targets: Vec<ObjectKey>,
}

/// What one parentRef led to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParentOutcome {
    /// Index in `spec.parentRefs`
    pub index: usize,
    pub gateway: NamespacedName,
    pub conditions: Vec<Condition>,
    /// Where the route stands. Also with `Accepted=False` if that is for what its rules say: they answer 500, since a request that an
    /// invalid rule would have protected must not fall through to another. Only accepted ones count in `attachedRoutes`.
    pub attachments: Vec<Attachment>,
}

impl ParentOutcome {
    /// Whether the parent accepts the route.
    #[must_use]
    pub fn accepted(&self) -> bool {
        self.conditions.iter().any(|condition| condition.kind == ConditionType::Accepted && condition.status)
    }
}

/// A listener that takes the route, and the hostnames that are left of both.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attachment {
    pub listener: ListenerId,
    /// Intersections of the route's hostnames with the listener's, lower-case; `*` for every hostname. Sorted, without duplicates,
    /// never empty.
    pub hostnames: Vec<Name>,
}

/// A rule with everything looked up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResolvedRule {
    /// Index in `spec.rules`
    pub index: usize,
    pub name: Option<Name>,
    /// The valid matches with their index in `matches`; a rule without one is not programmed
    pub matches: Vec<(usize, RequestMatch)>,
    pub action: RuleAction,
    pub filters: RuleFilters,
}

/// One match in the form that both kinds of routes share.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RequestMatch {
    pub path: PathSpec,
    pub method: Option<Name>,
    /// Names lower-case, each once
    pub headers: Vec<ValueMatch>,
    /// Names as written, each once
    pub query: Vec<ValueMatch>,
    /// Only gRPC requests (by content-type)
    pub grpc: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum PathSpec {
    Exact(Name),
    /// By path segments, without a trailing slash; empty: every path
    SegmentPrefix(Name),
    /// Any continuation: `/service/` of a GRPCRoute that names no method
    RawPrefix(Name),
    /// RE2 over the whole path, checked
    Regex(Name),
}

/// Precedence of a match within a hostname; the smaller goes first. HTTPRouteRule.matches and GRPCRouteRule.matches define the
/// order up to the number of conditions; then the oldest route, then `namespace/name`, then the order of rules and of matches.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rank {
    /// HTTPRoute: 0 exact, 1 regular expression, 2 prefix. GRPCRoute: 0 service and method, 1 service, 2 the rest
    pub path_kind: u8,
    pub path_length: Reverse<usize>,
    /// 0 with a method, 1 without
    pub method: u8,
    pub headers: Reverse<usize>,
    pub query: Reverse<usize>,
    /// Creation time, then `namespace/name`
    pub route: Meta,
    /// HTTPRoute before GRPCRoute where all else is equal
    pub kind: crate::Kind,
    pub rule: usize,
    pub matched: usize,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum RuleAction {
    Forward(Forward),
    Redirect(RedirectPlan),
    /// A fixed answer: 500 where nothing valid is left to forward to, or where a filter is invalid
    Respond(u16),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Forward {
    /// Weights above 0; invalid backends keep their share, which is answered 500. Never empty.
    pub backends: Vec<WeightedBackend>,
    pub host_rewrite: Option<Name>,
    pub path_rewrite: Option<PathRewrite>,
    /// `None`: no limit
    pub timeout: Option<Duration>,
    pub backend_timeout: Option<Duration>,
    pub mirrors: Vec<MirrorPlan>,
    /// A backend speaks websocket (`appProtocol: kubernetes.io/ws`) or plain HTTP/1.1: upgrades are let through
    pub websocket: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct WeightedBackend {
    pub weight: u32,
    pub target: WeightedTarget,
    /// Index in `backendRefs`
    pub index: usize,
    pub request_headers: HeaderModifier,
    pub response_headers: HeaderModifier,
    /// Rewrites that apply only when this backend is chosen
    pub host_rewrite: Option<Name>,
    pub path_rewrite: Option<PathRewrite>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum WeightedTarget {
    Cluster(ClusterKey),
    /// This share answers 500
    Invalid,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct MirrorPlan {
    pub cluster: ClusterKey,
    pub fraction: Fraction,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum PathRewrite {
    Full(Name),
    /// Replaces the prefix that the match named; only together with prefix matches
    Prefix(Name),
}

/// `RequestRedirect`. What the specification derives from the listener (port, scheme) is filled in by translation, which knows
/// the listener.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RedirectPlan {
    pub scheme: Option<Name>,
    pub hostname: Option<Name>,
    pub port: Option<u16>,
    pub path: Option<PathRewrite>,
    pub status: u16,
}

/// Filters that apply to the rule as a whole.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct RuleFilters {
    pub request_headers: HeaderModifier,
    pub response_headers: HeaderModifier,
    /// Boxed: rarely there, and large
    pub cors: Option<Box<Cors>>,
}

impl RouteView {
    /// Every cluster that the rules use, sorted, without duplicates.
    #[must_use]
    pub fn clusters(&self) -> Vec<ClusterKey> {
        let mut clusters: Vec<ClusterKey> = self.rules.iter().flat_map(|rule| rule.clusters()).cloned().collect();
        clusters.sort_unstable();
        clusters.dedup();
        clusters
    }
}

impl ResolvedRule {
    /// The clusters of the rule's backends and mirrors.
    pub fn clusters(&self) -> impl Iterator<Item = &ClusterKey> {
        let forward = match &self.action {
            RuleAction::Forward(forward) => Some(forward),
            RuleAction::Redirect(_) | RuleAction::Respond(_) => None,
        };
        forward.into_iter().flat_map(|forward| {
            let backends = forward.backends.iter().filter_map(|backend| match &backend.target {
                WeightedTarget::Cluster(cluster) => Some(cluster),
                WeightedTarget::Invalid => None,
            });
            backends.chain(forward.mirrors.iter().map(|mirror| &mirror.cluster))
        })
    }

    /// The backends of [`ResolvedRule::clusters`].
    pub fn backends(&self) -> impl Iterator<Item = &BackendId> {
        self.clusters().map(|cluster| &cluster.backend)
    }
}
