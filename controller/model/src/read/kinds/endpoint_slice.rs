//! EndpointSlice.

use std::collections::BTreeMap;
use std::net::IpAddr;

use super::super::document::Node;
use super::super::schema::{Choice, Fields, Reader, Text};
use super::service::protocol;
use crate::objects::{AddressType, Endpoint, EndpointPort, EndpointSlice, Meta};
use crate::{Name, NamespacedName};

static ADDRESS_TYPE: Choice = Choice::of(&["IPv4", "IPv6", "FQDN"]);

pub(super) fn read(fields: &mut Fields<'_>, meta: Meta, labels: &BTreeMap<Name, Name>) -> EndpointSlice {
    let address_type = match &*fields.required_choice("addressType", &ADDRESS_TYPE) {
        "IPv4" => AddressType::V4,
        "IPv6" => AddressType::V6,
        "FQDN" => AddressType::Fqdn,
        _ => {
            fields.incomplete();
            AddressType::V4
        }
    };
    let ports = fields.list("ports", 0..=100, port);
    let endpoints = fields.list("endpoints", 0..=1000, |reader, node| endpoint(reader, node, &address_type));
    let service = labels.get("kubernetes.io/service-name");
    EndpointSlice {
        service: service.map(|name| NamespacedName::new(meta.name.namespace.clone(), name.clone())),
        meta,
        address_type,
        ports,
        endpoints,
    }
}

fn port(reader: &mut Reader, node: &Node) -> EndpointPort {
    reader.part_of_object(node, |fields| EndpointPort {
        name: fields.text("name", &Text::ANY).unwrap_or_default(),
        port: fields.port("port"),
        protocol: protocol(fields),
    })
}

fn endpoint(reader: &mut Reader, node: &Node, address_type: &AddressType) -> Endpoint {
    reader.part_of_object(node, |fields| {
        let addresses = fields.required_list("addresses", 1..=100, |reader, node| address(reader, node, address_type));
        let conditions = fields.optional("conditions", |reader, node| {
            reader.part_of_object(node, |fields| ["ready", "serving", "terminating"].map(|name| fields.boolean(name)))
        });
        let [ready, serving, terminating] = conditions.unwrap_or_default();
        let ready = ready.unwrap_or(true);
        Endpoint {
            addresses: addresses.into_iter().flatten().collect(),
            ready,
            serving: serving.unwrap_or(ready),
            terminating: terminating.unwrap_or(false),
            zone: fields.text("zone", &Text::ANY),
        }
    })
}

fn address(reader: &mut Reader, node: &Node, address_type: &AddressType) -> Option<IpAddr> {
    let text = Text::ANY.read(reader, node);
    let (address, family) = match address_type {
        AddressType::V4 => (text.parse().ok().map(IpAddr::V4), "IPv4"),
        AddressType::V6 => (text.parse().ok().map(IpAddr::V6), "IPv6"),
        AddressType::Fqdn => return None,
    };
    if address.is_none() {
        reader.refuse(node.at, "", format!("`{text}` is no {family} address"));
    }
    address
}
