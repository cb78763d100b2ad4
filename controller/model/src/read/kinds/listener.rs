//! Listeners of Gateways and ListenerSets.

use std::sync::Arc;

use super::super::document::Node;
use super::super::schema::{Choice, Fields, Pattern, Reader, Text};
use super::forms::{GROUP, HOSTNAME, KIND, LONG_VALUE, SECTION_NAME};
use super::{label_selector, references};
use crate::GATEWAY_GROUP;
use crate::objects::{AllowedRoutes, FromNamespaces, ListenerSpec, ListenerTls, Protocol, RouteGroupKind, TlsMode};

/// The second alternative is not bound to the beginning.
pub(super) static PROTOCOL: Pattern = Pattern::new(
    r"^[a-zA-Z0-9]([-a-zA-Z0-9]*[a-zA-Z0-9])?$|[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*\/[A-Za-z0-9]+$",
    "a protocol: HTTP, HTTPS, TLS, TCP, UDP, or a domain, a slash and a name",
);
static PROTOCOL_TEXT: Text = Text::formed(1, 255, &PROTOCOL);
static TLS_MODE: Choice = Choice::of(&["Terminate", "Passthrough"]);
static FROM: Choice = Choice::of(&["All", "Selector", "Same"]);

/// `listeners`, with the rules between their fields and between them.
pub(super) fn listeners(fields: &mut Fields<'_>) -> Vec<ListenerSpec> {
    let listeners = fields.required_list("listeners", 1..=64, listener);
    fields.distinct("listeners", Some("name"));
    for (index, one) in listeners.iter().enumerate() {
        let same = |other: &&ListenerSpec| {
            other.port == one.port && other.protocol == one.protocol && other.hostname == one.hostname
        };
        if let Some(other) = listeners.iter().take(index).find(same) {
            let message = format!("has the same port, protocol and hostname as the listener `{}`", other.name);
            fields.refuse(&format!("listeners[{index}]"), message);
        }
    }
    listeners
}

fn listener(reader: &mut Reader, node: &Node) -> ListenerSpec {
    reader.object(node, |fields| {
        let protocol = fields.required("protocol", protocol);
        let hostname = fields.text("hostname", &HOSTNAME);
        let tls = fields.optional("tls", tls);
        match (&protocol, &tls) {
            (Protocol::Http | Protocol::Tcp | Protocol::Udp, Some(_)) => {
                fields.refuse("tls", "must not be given with protocol HTTP, TCP or UDP; use HTTPS or TLS");
            }
            (Protocol::Https, Some(tls)) if tls.mode != TlsMode::Terminate => {
                fields.refuse("tls", "mode must be Terminate with protocol HTTPS; use TLS for Passthrough");
            }
            (Protocol::Tls, None) => fields.refuse("tls", "is required with protocol TLS, with its mode"),
            _ => {}
        }
        if matches!(protocol, Protocol::Tcp | Protocol::Udp) && hostname.is_some() {
            fields.refuse("hostname", "must not be given with protocol TCP or UDP: they carry no hostname");
        }
        ListenerSpec {
            name: fields.required_text("name", &SECTION_NAME),
            hostname,
            port: fields.required_port("port"),
            protocol,
            tls,
            allowed_routes: fields
                .optional("allowedRoutes", allowed_routes)
                .unwrap_or(AllowedRoutes { from: FromNamespaces::Same, kinds: Vec::new() }),
        }
    })
}

fn protocol(reader: &mut Reader, node: &Node) -> Protocol {
    let text = PROTOCOL_TEXT.read(reader, node);
    match &*text {
        "HTTP" => Protocol::Http,
        "HTTPS" => Protocol::Https,
        "TLS" => Protocol::Tls,
        "TCP" => Protocol::Tcp,
        "UDP" => Protocol::Udp,
        _ => Protocol::Other(text),
    }
}

fn tls(reader: &mut Reader, node: &Node) -> ListenerTls {
    reader.object(node, |fields| {
        let mode = match fields.choice("mode", &TLS_MODE).as_deref() {
            None | Some("Terminate") => TlsMode::Terminate,
            Some("Passthrough") => TlsMode::Passthrough,
            Some(other) => TlsMode::Unknown(Arc::from(other)),
        };
        let certificate_refs = fields.list("certificateRefs", 0..=64, references::secret);
        let options = fields.text_map("options", 16, &LONG_VALUE);
        if mode == TlsMode::Terminate && certificate_refs.is_empty() && options.is_empty() {
            fields.refuse("", "needs certificateRefs (or options) to terminate TLS");
        }
        ListenerTls { mode, certificate_refs, options }
    })
}

fn allowed_routes(reader: &mut Reader, node: &Node) -> AllowedRoutes {
    reader.object(node, |fields| {
        let from = |fields: &mut Fields<'_>| label_selector::from_namespaces(fields, &FROM, FromNamespaces::Same);
        let from = fields.optional("namespaces", |reader, node| reader.object(node, from));
        AllowedRoutes {
            from: from.unwrap_or(FromNamespaces::Same),
            kinds: fields.list("kinds", 0..=8, |reader, node| {
                reader.object(node, |fields| RouteGroupKind {
                    group: fields.text("group", &GROUP).unwrap_or_else(|| Arc::from(GATEWAY_GROUP)),
                    kind: fields.required_text("kind", &KIND),
                })
            }),
        }
    })
}
