//! The backends of a rule and their weights.

use portolan_model::ir::{BackendId, BackendView, ClusterKey, UpstreamProtocol, WeightedBackend, WeightedTarget};
use portolan_model::objects::{BackendRef, HttpFilter, ObjectRef, Target};
use portolan_model::{Kind, Reason};

use super::report::Report;
use super::rule::Rule;
use super::{Context, Finding, filters};
use crate::refs;

/// The backends that have a share of the requests.
#[derive(Default)]
pub(super) struct Backends {
    pub weighted: Vec<WeightedBackend>,
    pub any_valid: bool,
    /// One speaks HTTP/1.1, over which a request can be upgraded
    pub websocket: bool,
}

/// "If multiple backends are specified, and some are invalid, the proportion of requests that would otherwise have been routed to an
/// invalid backend MUST receive a 500 status code" (HTTPRouteRule.backendRefs).
pub(super) fn resolve(context: &Context<'_>, rule: &Rule<'_>, report: &mut Report) -> Backends {
    let mut backends = Backends::default();
    for (index, backend) in rule.backends.iter().enumerate() {
        let field = format!("{}.backendRefs[{index}]", rule.field());
        let cluster = look_up(context, &field, &backend.target, backend.port)
            .map_err(|finding| report.unresolved(rule.index, finding))
            .ok();
        let filters =
            backend_filters(rule, backend, &field).map_err(|finding| report.partly_invalid(rule.index, finding)).ok();
        if backend.weight == 0 {
            continue;
        }
        let filters::BackendFilters { request_headers, response_headers, host_rewrite, path_rewrite, target } =
            match (cluster, filters) {
                (Some(cluster), Some(filters)) => {
                    backends.any_valid = true;
                    backends.websocket |= cluster.protocol == UpstreamProtocol::Http1;
                    filters::BackendFilters { target: WeightedTarget::Cluster(cluster), ..filters }
                }
                _ => filters::BackendFilters::default(),
            };
        backends.weighted.push(WeightedBackend {
            weight: backend.weight,
            target,
            index,
            request_headers,
            response_headers,
            host_rewrite,
            path_rewrite,
        });
    }
    // A view lives as long as its route, and there are many: no room for more.
    backends.weighted.shrink_to_fit();
    backends
}

fn backend_filters(
    rule: &Rule<'_>,
    backend: &BackendRef<HttpFilter>,
    field: &str,
) -> Result<filters::BackendFilters, Finding> {
    filters::of_backend(&backend.filters, field, rule.is_prefix_only())
}

/// The cluster of a reference from a route of this kind.
pub(super) fn look_up(
    context: &Context<'_>,
    field: &str,
    target: &ObjectRef,
    port: Option<u16>,
) -> Result<ClusterKey, Finding> {
    let prefixed = |finding: Finding| Finding::new(finding.reason, format!("{field}: {}", finding.message));
    let backend = identify(context, target, port).map_err(prefixed)?;
    let view = context.world.backend_view(&backend);
    let (protocol, refused) = match &*view {
        BackendView::Found { protocol, refused } => (*protocol, refused),
        BackendView::NotFound(message) => return Err(prefixed(Finding::new(Reason::BackendNotFound, &**message))),
        BackendView::UnsupportedProtocol(message) => {
            return Err(prefixed(Finding::new(Reason::UnsupportedProtocol, &**message)));
        }
    };
    let protocol = match (context.route.kind, protocol) {
        (Kind::GRPCRoute, UpstreamProtocol::WebSocket) => {
            let message = format!(
                "{} {} speaks websocket, which a GRPCRoute cannot use; change the appProtocol, or use an HTTPRoute",
                backend.kind, backend.name
            );
            return Err(prefixed(Finding::new(Reason::UnsupportedProtocol, message)));
        }
        // "Implementations MAY infer the protocol from the Route type" (HTTPBackendRef): gRPC is HTTP/2.
        (Kind::GRPCRoute, _) | (_, UpstreamProtocol::Http2) => UpstreamProtocol::Http2,
        _ => UpstreamProtocol::Http1,
    };
    if let Some((_, text)) = refused.iter().find(|(other, _)| *other == protocol) {
        let message = format!("Envoy refused the cluster of {} {}: {text}", backend.kind, backend.name);
        return Err(prefixed(Finding::new(Reason::UnsupportedValue, message)));
    }
    Ok(ClusterKey { backend, protocol })
}

/// Whether a reference leads to something, whatever it speaks.
pub(super) fn exists(context: &Context<'_>, target: &ObjectRef, port: Option<u16>) -> Result<(), Finding> {
    let backend = identify(context, target, port)?;
    match &*context.world.backend_view(&backend) {
        BackendView::NotFound(message) => Err(Finding::new(Reason::BackendNotFound, &**message)),
        BackendView::Found { .. } | BackendView::UnsupportedProtocol(_) => Ok(()),
    }
}

/// What a reference names, if the route may refer to it. Permission comes before existence: whether an object exists in another
/// namespace is nobody's business.
fn identify(context: &Context<'_>, target: &ObjectRef, port: Option<u16>) -> Result<BackendId, Finding> {
    let Target::Known(kind @ (Kind::Service | Kind::Backend)) = target.target() else {
        let message = format!("the kind {} is not a backend; use a Service or a Backend", refs::kind_of(target));
        return Err(Finding::new(Reason::InvalidKind, message));
    };
    let namespace = &context.route.name.namespace;
    let name = target.resolve(namespace);
    if !refs::granted(context.world, context.route.kind, namespace, kind, &name) {
        let message = refs::not_granted(context.route.kind, namespace, kind, &name);
        return Err(Finding::new(Reason::RefNotPermitted, message));
    }
    let port = match (kind, port) {
        (Kind::Service, Some(port)) => port,
        (Kind::Service, None) => {
            return Err(Finding::new(
                Reason::BackendNotFound,
                format!("the reference to Service {name} names no port; add it"),
            ));
        }
        _ => 0,
    };
    Ok(BackendId { kind, name, port })
}
