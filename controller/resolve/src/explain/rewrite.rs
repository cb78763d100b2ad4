//! What becomes of path and host.

use portolan_model::ir::{HostPlan, PathRewrite, PathSpec, PlannedRoute, RedirectPlan};

use super::Request;

/// The rewritten path, with the query.
pub(super) fn path(target: &str, matched: &PathSpec, rewrite: Option<&PathRewrite>) -> String {
    let (path, query) = target.split_at(target.find('?').unwrap_or(target.len()));
    match (rewrite, matched) {
        (Some(PathRewrite::Full(full)), _) => format!("{full}{query}"),
        (Some(PathRewrite::Prefix(new)), PathSpec::SegmentPrefix(old)) => {
            let rest = path.strip_prefix(&**old).unwrap_or(path);
            if new.is_empty() {
                format!("/{}{query}", rest.trim_start_matches('/'))
            } else {
                format!("{new}{rest}{query}")
            }
        }
        _ => target.into(),
    }
}

/// The target of a redirect (HTTPRequestRedirectFilter): what the filter does not state comes from the request, the port from the
/// listener, as clients see it. A port that is the scheme's own is left out.
pub(super) fn location(
    redirect: &RedirectPlan,
    route: &PlannedRoute,
    (host, listener_port): (&HostPlan, u16),
    request: &Request,
    target: &str,
) -> String {
    let own_scheme = if request.tls { "https" } else { "http" };
    let scheme = redirect.scheme.as_deref().unwrap_or(own_scheme);
    let port = redirect.port.or_else(|| redirect.scheme.as_deref().and_then(well_known)).unwrap_or(listener_port);
    let (name, written_port) = split_port(&request.authority);
    let explicit = well_known(scheme) != Some(port);
    let keeps_host = redirect.hostname.is_none() && !explicit && well_known(own_scheme) == Some(listener_port);
    let authority = if keeps_host {
        // Envoy leaves the header's port, unless it belongs to the scheme that is left.
        match written_port {
            Some(written) if scheme == own_scheme || well_known(own_scheme) != written.parse().ok() => {
                request.authority.clone()
            }
            _ => name.to_owned(),
        }
    } else if let Some(hostname) = &redirect.hostname {
        if explicit { format!("{hostname}:{port}") } else { hostname.to_string() }
    } else if explicit || host.host.starts_with('*') {
        format!("{name}:{port}")
    } else {
        host.host.to_string()
    };
    let path = match &redirect.path {
        // A query in the filter's path replaces that of the request.
        Some(PathRewrite::Full(full)) if full.contains('?') => full.to_string(),
        rewrite => path(target, &route.request.path, rewrite.as_ref()),
    };
    format!("{scheme}://{authority}{path}")
}

fn split_port(authority: &str) -> (&str, Option<&str>) {
    match authority.rsplit_once(':') {
        Some((name, port)) if !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()) => (name, Some(port)),
        _ => (authority, None),
    }
}

fn well_known(scheme: &str) -> Option<u16> {
    match scheme {
        "http" => Some(80),
        "https" => Some(443),
        _ => None,
    }
}
