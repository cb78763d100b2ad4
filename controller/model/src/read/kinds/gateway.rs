//! Gateway.

use std::net::IpAddr;
use std::sync::Arc;

use super::super::document::Node;
use super::super::schema::{Choice, Fields, Pattern, Reader, Text};
use super::forms::{HOSTNAME_PATTERN, OBJECT_NAME};
use super::{gateway_tls, infrastructure, label_selector, listener};
use crate::objects::{AllowedListeners, FromNamespaces, Gateway, GatewayAddress, Meta};

/// Experimental (GEP-3793)
pub(super) static DEFAULT_SCOPE: Choice = Choice::of(&["All", "None"]);
static FROM: Choice = Choice::of(&["All", "Selector", "Same", "None"]);

/// The alternatives bind as regular expressions do, not as was meant: whatever begins with `Hostname` or contains `IPAddress` will do.
pub(super) static ADDRESS_TYPE: Pattern = Pattern::new(
    r"^Hostname|IPAddress|NamedAddress|[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*\/[A-Za-z0-9\/\-._~%!$&'()*+,;=:]+$",
    "an address type: IPAddress, Hostname, or a domain and a path",
);
static ADDRESS_TYPE_TEXT: Text = Text::formed(1, 253, &ADDRESS_TYPE);
static ADDRESS_VALUE: Text = Text::sized(0, 253);

pub(super) fn read(fields: &mut Fields<'_>, meta: Meta) -> Gateway {
    let addresses = fields.list("addresses", 0..=16, address);
    for (index, address) in addresses.iter().enumerate() {
        let is_unique = matches!(&*address.kind, "IPAddress" | "Hostname") && address.value.is_some();
        if is_unique && addresses.iter().take(index).any(|other| other == address) {
            fields.refuse(&format!("addresses[{index}]"), format!("the {} is given twice; remove one", address.kind));
        }
    }
    Gateway {
        meta,
        class: fields.required_text("gatewayClassName", &OBJECT_NAME),
        listeners: listener::listeners(fields),
        addresses,
        infrastructure: fields.optional("infrastructure", infrastructure::read),
        allowed_listeners: AllowedListeners {
            from: fields.optional("allowedListeners", allowed_listeners).unwrap_or(FromNamespaces::None),
        },
        tls: fields.optional("tls", gateway_tls::read),
        default_scope: fields.experimental(|fields| fields.choice("defaultScope", &DEFAULT_SCOPE)),
    }
}

fn allowed_listeners(reader: &mut Reader, node: &Node) -> FromNamespaces {
    let from = |fields: &mut Fields<'_>| label_selector::from_namespaces(fields, &FROM, FromNamespaces::None);
    let namespaces =
        reader.object(node, |fields| fields.optional("namespaces", |reader, node| reader.object(node, from)));
    namespaces.unwrap_or(FromNamespaces::None)
}

fn address(reader: &mut Reader, node: &Node) -> GatewayAddress {
    reader.object(node, |fields| {
        let kind = fields.text("type", &ADDRESS_TYPE_TEXT).unwrap_or_else(|| Arc::from("IPAddress"));
        let value = fields.text("value", &ADDRESS_VALUE);
        match (&*kind, &value) {
            ("IPAddress", Some(value)) if value.parse::<IpAddr>().is_err() => {
                fields.refuse("value", format!("`{value}` is no IP address"));
            }
            ("Hostname", Some(value)) if !HOSTNAME_PATTERN.is_match(value) => {
                fields.refuse("value", format!("`{value}` is not {}", HOSTNAME_PATTERN.means));
            }
            _ => {}
        }
        GatewayAddress { kind, value: value.filter(|value| !value.is_empty()) }
    })
}
