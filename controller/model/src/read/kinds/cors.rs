//! The filter CORS (GEP-1767).

use super::super::document::Node;
use super::super::schema::{Choice, Fields, Pattern, Reader, Text};
use super::forms::HEADER_NAME;
use crate::Name;
use crate::objects::Cors;

pub(super) static ORIGIN: Pattern = Pattern::new(
    r"(^\*$)|(^(http(s)?):\/\/(((\*\.)?([a-zA-Z0-9\-]+\.)*[a-zA-Z0-9-]+|\*)(:([0-9]{1,5}))?)$)",
    "an origin: `*`, or scheme, host (which may start with `*.`) and port, such as `https://*.example.net`",
);
static ORIGIN_TEXT: Text = Text::formed(1, 253, &ORIGIN);
static METHOD: Choice =
    Choice::of(&["GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH", "*"]);

pub(super) fn read(reader: &mut Reader, node: &Node) -> Cors {
    reader.object(node, |fields| {
        let allow_origins = fields.texts("allowOrigins", 0..=64, &ORIGIN_TEXT);
        let allow_methods = fields.list("allowMethods", 0..=9, |reader, node| METHOD.read(reader, node));
        let allow_headers = fields.texts("allowHeaders", 0..=64, &HEADER_NAME);
        let expose_headers = fields.texts("exposeHeaders", 0..=64, &HEADER_NAME);
        for name in ["allowOrigins", "allowMethods", "allowHeaders", "exposeHeaders"] {
            fields.distinct(name, None);
        }
        alone(fields, "allowOrigins", &allow_origins);
        alone(fields, "allowMethods", &allow_methods);
        alone(fields, "allowHeaders", &allow_headers);
        Cors {
            allow_origins,
            allow_credentials: fields.boolean("allowCredentials").unwrap_or_default(),
            allow_methods,
            allow_headers,
            expose_headers,
            max_age: fields.unsigned("maxAge", 1..=i64::from(i32::MAX)).unwrap_or(5),
        }
    })
}

/// `*` says everything already.
fn alone(fields: &mut Fields<'_>, name: &str, values: &[Name]) {
    if values.len() > 1 && values.iter().any(|value| &**value == "*") {
        fields.refuse(name, "`*` must be the only item");
    }
}
