//! RequestRedirect.

use portolan_model::Name;
use portolan_model::ir::{RedirectPlan, RequestMatch};
use portolan_proto::envoy::route::redirect_action::{
    PathRewriteSpecifier, RedirectResponseCode, SchemeRewriteSpecifier,
};
use portolan_proto::envoy::route::{RedirectAction, route::Action};

use super::rewrite::{self, Rewritten};
use crate::TableContext;

/// `at` is the hostname that the route stands under, and its listener.
pub fn action(plan: &RedirectPlan, request: &RequestMatch, at: Option<(&Name, TableContext)>) -> Action {
    let mut action = RedirectAction {
        host_redirect: plan.hostname.as_deref().unwrap_or_default().into(),
        response_code: response_code(plan.status).into(),
        scheme_rewrite_specifier: plan
            .scheme
            .as_deref()
            .map(|scheme| SchemeRewriteSpecifier::SchemeRedirect(scheme.into())),
        path_rewrite_specifier: plan
            .path
            .as_ref()
            .and_then(|path| rewrite::path(&request.path, path))
            .map(path_rewrite),
        ..Default::default()
    };
    if let Some((host, context)) = at {
        set_port(&mut action, plan, host, context);
    }
    Action::Redirect(action)
}

/// HTTPRequestRedirectFilter.port: without a port, that of the scheme if the filter names one, else the listener's; and a port that
/// is the scheme's own SHOULD be left out.
///
/// Left alone, Envoy keeps the port of the `Host` header. That is right when clients have no reason to write one, so only behind a
/// listener on its scheme's own port; elsewhere the hostname is written out without port, and where it is not known (a wildcard),
/// the port is: RedirectAction can replace the port of the `Host` header but not take it away, and no header formatter gives the name
/// alone (`%REQUESTED_SERVER_NAME(HOST_FIRST:HOST)%` keeps the port).
fn set_port(action: &mut RedirectAction, plan: &RedirectPlan, host: &Name, context: TableContext) {
    let own_scheme = if context.tls { "https" } else { "http" };
    let scheme = plan.scheme.as_deref().unwrap_or(own_scheme);
    let port = plan.port.or_else(|| plan.scheme.as_deref().and_then(well_known)).unwrap_or(context.port);
    if well_known(scheme) != Some(port) {
        action.port_redirect = port.into();
    } else if plan.hostname.is_none() && well_known(own_scheme) != Some(context.port) {
        if host.starts_with('*') {
            action.port_redirect = port.into();
        } else {
            action.host_redirect = host.to_string();
        }
    }
}

fn well_known(scheme: &str) -> Option<u16> {
    match scheme {
        "http" => Some(80),
        "https" => Some(443),
        _ => None,
    }
}

fn path_rewrite(rewritten: Rewritten) -> PathRewriteSpecifier {
    match rewritten {
        Rewritten::Full(path) => PathRewriteSpecifier::PathRedirect(path),
        Rewritten::Prefix(prefix) => PathRewriteSpecifier::PrefixRewrite(prefix),
        Rewritten::Pattern { regex, substitution } => {
            PathRewriteSpecifier::RegexRewrite(rewrite::substitute(&regex, &substitution))
        }
    }
}

fn response_code(status: u16) -> RedirectResponseCode {
    match status {
        301 => RedirectResponseCode::MovedPermanently,
        303 => RedirectResponseCode::SeeOther,
        307 => RedirectResponseCode::TemporaryRedirect,
        308 => RedirectResponseCode::PermanentRedirect,
        _ => RedirectResponseCode::Found,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use portolan_model::ir::PathSpec;

    fn redirect(scheme: Option<&str>, port: Option<u16>, host: &str, tls: bool, listener: u16) -> (u32, String) {
        let plan = RedirectPlan { scheme: scheme.map(Name::from), hostname: None, port, path: None, status: 302 };
        let request = RequestMatch {
            path: PathSpec::SegmentPrefix("".into()),
            method: None,
            headers: Vec::new(),
            query: Vec::new(),
            grpc: false,
        };
        let context = TableContext { tls, port: listener };
        let Action::Redirect(action) = action(&plan, &request, Some((&host.into(), context))) else {
            panic!("no redirect")
        };
        (action.port_redirect, action.host_redirect)
    }

    /// HTTPRouteRedirectPortAndScheme of the conformance suite
    #[test]
    fn ports_follow_scheme_and_listener() {
        let none = String::new();
        assert_eq!(redirect(None, None, "a.test", false, 80), (0, none.clone()));
        assert_eq!(redirect(Some("https"), None, "a.test", false, 80), (0, none.clone()));
        assert_eq!(redirect(Some("https"), Some(443), "a.test", false, 80), (0, none.clone()));
        assert_eq!(redirect(Some("https"), Some(8443), "a.test", false, 80), (8443, none.clone()));
        assert_eq!(redirect(None, Some(8083), "a.test", false, 80), (8083, none.clone()));
        // On a port of its own the listener's port is kept …
        assert_eq!(redirect(None, None, "a.test", false, 8080), (8080, none.clone()));
        // … and must not stay when the scheme changes.
        assert_eq!(redirect(Some("https"), None, "a.test", false, 8080), (0, "a.test".into()));
        assert_eq!(redirect(Some("https"), None, "*.test", false, 8080), (443, none.clone()));
        assert_eq!(redirect(Some("http"), None, "a.test", true, 443), (0, none.clone()));
        assert_eq!(redirect(None, None, "a.test", true, 443), (0, none.clone()));
        assert_eq!(redirect(None, None, "a.test", true, 8443), (8443, none));
    }
}
