//! Portolan's own Backend.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use super::super::document::Node;
use super::super::schema::{Choice, Fields, Reader, Text};
use super::forms::PRECISE_HOSTNAME;
use crate::Name;
use crate::objects::{Backend, BackendEndpoint, Meta};

static TYPE: Choice = Choice::of(&["Endpoints"]);
/// Bytes of a socket's address (unix(7): 108 with the end). Envoy refuses endpoints with a longer path.
const SOCKET_PATH: usize = 107;

pub(super) fn read(fields: &mut Fields<'_>, meta: Meta) -> Backend {
    fields.choice("type", &TYPE);
    Backend {
        meta,
        endpoints: fields.required_list("endpoints", 1..=256, endpoint),
        app_protocols: fields.list("appProtocols", 0..=16, |reader, node| {
            // A group before the name, as Services and Envoy Gateway's Backend write it
            let text = Text::ANY.read(reader, node);
            let name = text.rsplit('/').next().unwrap_or_default();
            if !matches!(name, "h2c" | "ws") {
                reader.refuse(node.at, "", format!("unknown value `{text}`, must be h2c or ws"));
            }
            Arc::from(name)
        }),
    }
}

fn endpoint(reader: &mut Reader, node: &Node) -> BackendEndpoint {
    reader.object(node, |fields| {
        let ip = fields.optional("ip", |reader, node| {
            reader.object(node, |fields| BackendEndpoint::Ip {
                address: fields.required("address", address),
                port: fields.required_port("port"),
            })
        });
        let fqdn = fields.optional("fqdn", |reader, node| {
            reader.object(node, |fields| BackendEndpoint::Fqdn {
                hostname: fields.required_text("hostname", &PRECISE_HOSTNAME),
                port: fields.required_port("port"),
            })
        });
        let unix = fields.optional("unix", |reader, node| {
            reader.object(node, |fields| BackendEndpoint::Unix { path: fields.required("path", socket_path) })
        });
        let mut given = [ip, fqdn, unix].into_iter().flatten();
        match (given.next(), given.next()) {
            (Some(endpoint), None) => endpoint,
            _ => {
                fields.refuse("", "must have one of ip, fqdn and unix");
                fields.incomplete();
                BackendEndpoint::Ip { address: IpAddr::V4(Ipv4Addr::UNSPECIFIED), port: 0 }
            }
        }
    })
}

fn socket_path(reader: &mut Reader, node: &Node) -> Name {
    let path = Text::sized(1, usize::MAX).read(reader, node);
    if path.len() > SOCKET_PATH {
        reader.refuse(node.at, "", format!("must have at most {SOCKET_PATH} bytes, has {}", path.len()));
    }
    if path.contains('\0') {
        reader.refuse(node.at, "", "must not hold the character NUL; an abstract socket begins with `@`");
    }
    path
}

fn address(reader: &mut Reader, node: &Node) -> IpAddr {
    let text = Text::ANY.read(reader, node);
    text.parse().unwrap_or_else(|_| {
        reader.incomplete = true;
        reader.refuse(node.at, "", format!("`{text}` is no IP address; a name belongs in fqdn"));
        IpAddr::V4(Ipv4Addr::UNSPECIFIED)
    })
}
