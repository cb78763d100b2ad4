//! Forwarding to backends: weights, invalid shares, rewrites, timeouts, mirrors, upgrades.

use portolan_model::Name;
use portolan_model::ir::{Forward, PathRewrite, RequestMatch, RuleFilters, WeightedBackend, WeightedTarget};
use portolan_model::objects::HeaderModifier;
use portolan_proto::envoy::core::RuntimeFractionalPercent;
use portolan_proto::envoy::route::route_action::{
    ClusterNotFoundResponseCode, ClusterSpecifier, HostRewriteSpecifier, UpgradeConfig,
};
use portolan_proto::envoy::route::weighted_cluster::{ClusterWeight, cluster_weight};
use portolan_proto::envoy::route::{RetryPolicy, RouteAction, WeightedCluster, route::Action};
use portolan_proto::envoy::{BoolValue, Duration, UInt32Value};

use super::headers;
use super::mirror::{self, MILLION};
use super::rewrite::{self, Rewritten};
use crate::INVALID_CLUSTER;
use crate::http_connection::STREAM_IDLE_SECONDS;

/// One backend's part of a rule's requests, where each backend needs a route of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Share {
    /// In [`Forward::backends`]
    pub position: usize,
    /// Requests whose number is below this (of a million) are taken, as far as earlier shares have left them
    below: u32,
}

impl Share {
    /// `None`: everything that is left.
    pub fn fraction(self) -> Option<RuntimeFractionalPercent> {
        (self.below < MILLION).then(|| mirror::fraction(self.below))
    }
}

/// Whether backends rewrite the path differently. Weighted clusters rewrite the host per backend, but not the path.
pub fn needs_shares(plan: &Forward) -> bool {
    let mut rewrites = plan
        .backends
        .iter()
        .filter(|backend| matches!(backend.target, WeightedTarget::Cluster(_)))
        .map(|backend| path_rewrite(plan, backend));
    rewrites.next().is_some_and(|first| rewrites.any(|other| other != first))
}

/// A share per backend. Envoy draws one number per request and compares it with the fraction of one route after the other, so the
/// fractions add up; for the same reason a share never holds several weighted clusters, which would be drawn by the same number.
pub fn shares(plan: &Forward) -> Vec<Share> {
    let total: u64 = plan.backends.iter().map(|backend| u64::from(backend.weight)).sum();
    let mut taken = 0;
    let share = |(position, backend): (usize, &WeightedBackend)| {
        taken += u64::from(backend.weight);
        let below = (taken * u64::from(MILLION)).checked_div(total).unwrap_or(0);
        Share { position, below: u32::try_from(below).unwrap_or(MILLION) }
    };
    plan.backends.iter().enumerate().map(share).collect()
}

/// The action of one share.
pub fn share_action(plan: &Forward, request: &RequestMatch, filters: &RuleFilters, share: Share) -> Action {
    let backends: Vec<&WeightedBackend> = plan.backends.get(share.position).into_iter().collect();
    to_backends(plan, &backends, request, filters)
}

/// The action of a whole rule.
pub fn action(plan: &Forward, request: &RequestMatch, filters: &RuleFilters) -> Action {
    to_backends(plan, &plan.backends.iter().collect::<Vec<_>>(), request, filters)
}

/// Whether a backend has header filters of its own.
pub fn has_own_headers(plan: &Forward) -> bool {
    let nothing = HeaderModifier::default();
    plan.backends.iter().any(|backend| backend.request_headers != nothing || backend.response_headers != nothing)
}

fn to_backends(plan: &Forward, backends: &[&WeightedBackend], request: &RequestMatch, filters: &RuleFilters) -> Action {
    let valid = || backends.iter().filter(|backend| matches!(backend.target, WeightedTarget::Cluster(_)));
    let Some(first) = valid().next() else {
        return super::respond(500);
    };
    let mut action = RouteAction {
        cluster_specifier: Some(clusters(plan, backends, filters)),
        timeout: Some(duration(plan.timeout)),
        idle_timeout: idle_timeout(plan),
        retry_policy: plan.backend_timeout.map(|limit| RetryPolicy {
            // No retries. Envoy takes the limit of one attempt from here and applies it to the only one.
            num_retries: Some(UInt32Value { value: 0 }),
            per_try_timeout: Some(duration(Some(limit))),
            ..Default::default()
        }),
        host_rewrite_specifier: plan
            .host_rewrite
            .as_deref()
            .map(|host| HostRewriteSpecifier::HostRewriteLiteral(host.into())),
        request_mirror_policies: plan.mirrors.iter().map(mirror::policy).collect(),
        upgrade_configs: if plan.websocket { Vec::new() } else { vec![no_websocket()] },
        ..Default::default()
    };
    if valid().count() < backends.len() {
        action.cluster_not_found_response_code = ClusterNotFoundResponseCode::InternalServerError.into();
    }
    match path_rewrite(plan, first).and_then(|rewrite| rewrite::path(&request.path, rewrite)) {
        None => {}
        Some(Rewritten::Full(path)) => action.regex_rewrite = Some(rewrite::whole(&path)),
        Some(Rewritten::Prefix(prefix)) => action.prefix_rewrite = prefix,
        Some(Rewritten::Pattern { regex, substitution }) => {
            action.regex_rewrite = Some(rewrite::substitute(&regex, &substitution));
        }
    }
    Action::Route(action)
}

/// Forwarding for routes that only a filter answers: what the filter lets through (for CORS an empty `Origin`) is 404. A direct
/// response would not do, since the CORS filter works for forwarding routes alone.
pub fn nowhere() -> Action {
    Action::Route(RouteAction {
        cluster_specifier: Some(ClusterSpecifier::Cluster(INVALID_CLUSTER.into())),
        cluster_not_found_response_code: ClusterNotFoundResponseCode::NotFound.into(),
        ..Default::default()
    })
}

/// A backend's own rewrite goes before the rule's.
fn path_rewrite<'a>(plan: &'a Forward, backend: &'a WeightedBackend) -> Option<&'a PathRewrite> {
    backend.path_rewrite.as_ref().or(plan.path_rewrite.as_ref())
}

fn clusters(plan: &Forward, backends: &[&WeightedBackend], filters: &RuleFilters) -> ClusterSpecifier {
    let own_headers = has_own_headers(plan);
    if let [only] = backends
        && !own_headers
        && only.host_rewrite.is_none()
    {
        return ClusterSpecifier::Cluster(cluster_name(&only.target));
    }
    let weighted = |backend: &&WeightedBackend| {
        let host = |host: &Name| cluster_weight::HostRewriteSpecifier::HostRewriteLiteral(host.to_string());
        let plain = ClusterWeight {
            name: cluster_name(&backend.target),
            weight: Some(UInt32Value { value: backend.weight }),
            host_rewrite_specifier: backend.host_rewrite.as_ref().map(host),
            ..Default::default()
        };
        if own_headers { with_headers(plain, backend, filters) } else { plain }
    };
    ClusterSpecifier::WeightedClusters(WeightedCluster {
        clusters: backends.iter().map(weighted).collect(),
        ..Default::default()
    })
}

fn with_headers(cluster: ClusterWeight, backend: &WeightedBackend, filters: &RuleFilters) -> ClusterWeight {
    let request = headers::merged(&filters.request_headers, &backend.request_headers);
    let response = headers::merged(&filters.response_headers, &backend.response_headers);
    ClusterWeight {
        request_headers_to_add: headers::to_add(&request),
        request_headers_to_remove: headers::to_remove(&request),
        response_headers_to_add: headers::to_add(&response),
        response_headers_to_remove: headers::to_remove(&response),
        ..cluster
    }
}

fn cluster_name(target: &WeightedTarget) -> String {
    match target {
        WeightedTarget::Cluster(key) => key.resource_name(),
        WeightedTarget::Invalid => INVALID_CLUSTER.into(),
    }
}

/// Zero switches off Envoy's own 15 seconds: HTTPRouteTimeouts leaves requests without a limit unless it states one.
fn duration(limit: Option<std::time::Duration>) -> Duration {
    let limit = limit.unwrap_or_default();
    Duration {
        seconds: i64::try_from(limit.as_secs()).unwrap_or(i64::MAX),
        nanos: i32::try_from(limit.subsec_nanos()).unwrap_or(0),
    }
}

/// A route that may take longer than an idle stream lives must not be cut for silence before its time.
fn idle_timeout(plan: &Forward) -> Option<Duration> {
    let longest = plan.timeout.max(plan.backend_timeout)?;
    let beyond = longest.saturating_add(std::time::Duration::from_secs(1));
    (beyond.as_secs() > STREAM_IDLE_SECONDS.unsigned_abs()).then(|| duration(Some(beyond)))
}

fn no_websocket() -> UpgradeConfig {
    UpgradeConfig { upgrade_type: "websocket".into(), enabled: Some(BoolValue { value: false }), ..Default::default() }
}
