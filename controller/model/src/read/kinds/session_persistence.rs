//! `sessionPersistence` of a rule, of the experimental channel (GEP-1619).

use std::collections::BTreeMap;
use std::sync::Arc;

use super::super::document::Node;
use super::super::schema::{Choice, Fields, Reader, Text, duration};
use crate::Name;
use crate::objects::SessionPersistence;

static TYPE: Choice = Choice::of(&["Cookie", "Header"]);
static LIFETIME: Choice = Choice::of(&["Permanent", "Session"]);
static SESSION_NAME: Text = Text::sized(0, 128);

/// The forms of 1.6 (`sessionName`, `cookieConfig`), of 1.7 (`cookie`, `header`), and 1.5's `idleTimeout`.
pub(super) fn read(fields: &mut Fields<'_>) -> Option<SessionPersistence> {
    fields.experimental(|fields| fields.optional("sessionPersistence", session_persistence))
}

fn session_persistence(reader: &mut Reader, node: &Node) -> SessionPersistence {
    reader.object(node, |fields| {
        let kind = fields.choice("type", &TYPE);
        let session_name = fields.text("sessionName", &SESSION_NAME);
        let absolute_timeout = fields.optional("absoluteTimeout", duration);
        let idle_timeout = fields.text("idleTimeout", &Text::ANY);
        let lifetime = |fields: &mut Fields<'_>| fields.choice("lifetimeType", &LIFETIME);
        let config = fields.optional("cookieConfig", |reader, node| reader.object(node, lifetime));
        let cookie = fields.optional("cookie", |reader, node| {
            reader.object(node, |fields| {
                (
                    fields.text("name", &SESSION_NAME),
                    fields.choice("lifetimeType", &LIFETIME),
                    fields.text("path", &Text::ANY),
                )
            })
        });
        let header =
            fields.optional("header", |reader, node| reader.object(node, |fields| fields.text("name", &SESSION_NAME)));
        let kind = kind.unwrap_or_else(|| {
            Arc::from(if header.is_some() && cookie.is_none() && config.is_none() { "Header" } else { "Cookie" })
        });
        let is_permanent = |lifetime: &Option<Name>| lifetime.as_deref() == Some("Permanent");
        if let Some(lifetime) = &config {
            if is_permanent(lifetime) && absolute_timeout.is_none() {
                fields.refuse("absoluteTimeout", "is required when cookieConfig.lifetimeType is Permanent");
            }
            if &*kind != "Cookie" {
                fields.refuse("cookieConfig", "must not be given unless type is Cookie");
            }
        }
        let (cookie_name, cookie_lifetime, cookie_path) = cookie.unwrap_or_default();
        let other = idle_timeout.map(|timeout| (Arc::from("idleTimeout"), timeout));
        SessionPersistence {
            kind,
            session_name: session_name.or(cookie_name).or(header.flatten()),
            absolute_timeout,
            cookie_lifetime: config.flatten().or(cookie_lifetime),
            cookie_path,
            other: BTreeMap::from_iter(other),
        }
    })
}
