//! CORS (GEP-1767).

use portolan_model::objects::Cors;
use portolan_model::{Name, Reason};

use super::Finding;
use crate::headers;

/// Checks what ends up in response headers: Envoy joins the lists with commas.
pub(super) fn check(cors: &Cors, field: &str) -> Result<Cors, Finding> {
    let find = |name: &str, values: &[Name], is_valid: fn(&str) -> bool| match values.iter().find(|it| !is_valid(it)) {
        None => Ok(()),
        Some(bad) => {
            let message = format!("{field}.cors.{name} holds {bad:?}, which is not valid");
            Err(Finding::new(Reason::UnsupportedValue, message))
        }
    };
    find("allowOrigins", &cors.allow_origins, is_origin)?;
    find("allowMethods", &cors.allow_methods, headers::is_name)?;
    find("allowHeaders", &cors.allow_headers, headers::is_name)?;
    find("exposeHeaders", &cors.expose_headers, headers::is_name)?;
    Ok(cors.clone())
}

/// `*` or `<scheme>://<host>(:<port>)`, the host with wildcards.
fn is_origin(origin: &str) -> bool {
    let valid = |byte: u8| byte.is_ascii_alphanumeric() || b".-_:*[]".contains(&byte);
    origin == "*"
        || origin
            .split_once("://")
            .is_some_and(|(scheme, host)| !scheme.is_empty() && !host.is_empty() && host.bytes().all(valid))
}
