//! RequestRedirect.

use portolan_model::Reason;
use portolan_model::ir::RedirectPlan;
use portolan_model::objects::Redirect;

use super::{Finding, rewrite};

/// The statuses of HTTPRequestRedirectFilter.
const STATUSES: [u16; 5] = [301, 302, 303, 307, 308];

pub(super) fn plan(redirect: &Redirect, field: &str, prefix_only: bool) -> Result<RedirectPlan, Finding> {
    let unsupported = |name: &str, value: &str| {
        let message = format!("{field}.requestRedirect.{name} has the value {value}, which is not supported");
        Finding::new(Reason::UnsupportedValue, message)
    };
    if let Some(scheme) = redirect.scheme.as_ref().filter(|scheme| !matches!(&***scheme, "http" | "https")) {
        return Err(unsupported("scheme", scheme));
    }
    if !STATUSES.contains(&redirect.status) {
        return Err(unsupported("statusCode", &redirect.status.to_string()));
    }
    if let Some(hostname) = redirect.hostname.as_ref().filter(|hostname| !rewrite::is_hostname(hostname)) {
        return Err(unsupported("hostname", hostname));
    }
    Ok(RedirectPlan {
        scheme: redirect.scheme.clone(),
        hostname: redirect.hostname.clone(),
        port: redirect.port,
        path: rewrite::path(redirect.path.as_ref(), field, prefix_only)?,
        status: redirect.status,
    })
}
