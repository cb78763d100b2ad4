//! Service.

use std::sync::Arc;

use super::super::document::Node;
use super::super::schema::{Choice, Fields, Reader, Text};
use crate::Name;
use crate::objects::{IpFamily, Meta, Service, ServicePort, TransportProtocol};

static TYPE: Choice = Choice::of(&["ClusterIP", "NodePort", "LoadBalancer", "ExternalName"]);
static IP_FAMILY: Choice = Choice::of(&["IPv4", "IPv6"]);
static PROTOCOL: Choice = Choice::of(&["TCP", "UDP", "SCTP"]);

pub(super) fn read(fields: &mut Fields<'_>, meta: Meta) -> Service {
    fields.required("spec", |reader, node| {
        reader.part_of_object(node, |fields| {
            let kind = fields.choice("type", &TYPE);
            let external_name = fields.text("externalName", &Text::ANY);
            let is_external = kind.as_deref() == Some("ExternalName");
            if is_external && external_name.as_ref().is_none_or(|name| name.is_empty()) {
                fields.refuse("externalName", "is required when type is ExternalName");
            }
            let ports = fields.list("ports", 0..=usize::MAX, port);
            if ports.len() > 1 && ports.iter().any(|port| port.name.is_empty()) {
                fields.refuse("ports", "each port needs a name when there are several");
            }
            Service {
                meta,
                external_name: external_name.filter(|_| is_external).map(|name| Arc::from(name.to_lowercase())),
                ip_families: fields.list("ipFamilies", 0..=2, ip_family),
                ports,
            }
        })
    })
}

fn ip_family(reader: &mut Reader, node: &Node) -> IpFamily {
    match &*IP_FAMILY.read(reader, node) {
        "IPv4" => IpFamily::V4,
        "IPv6" => IpFamily::V6,
        _ => {
            reader.incomplete = true;
            IpFamily::V4
        }
    }
}

fn port(reader: &mut Reader, node: &Node) -> ServicePort {
    reader.part_of_object(node, |fields| ServicePort {
        name: fields.text("name", &Text::ANY).unwrap_or_default(),
        port: fields.required_port("port"),
        protocol: protocol(fields),
        app_protocol: fields.text("appProtocol", &Text::ANY),
    })
}

/// `protocol` of a port: TCP by default.
pub(super) fn protocol(fields: &mut Fields<'_>) -> TransportProtocol {
    let protocol: Option<Name> = fields.choice("protocol", &PROTOCOL);
    match protocol.as_deref() {
        None | Some("TCP") => TransportProtocol::Tcp,
        Some("UDP") => TransportProtocol::Udp,
        Some("SCTP") => TransportProtocol::Sctp,
        Some(_) => {
            fields.incomplete();
            TransportProtocol::Tcp
        }
    }
}
