//! TLSRoute, TCPRoute and UDPRoute.

use std::net::IpAddr;

use super::super::document::Node;
use super::super::schema::{Fields, Reader};
use super::forms::{HOSTNAME, SECTION_NAME};
use super::references;
use crate::objects::{L4Route, L4Rule, Meta};
use crate::{Kind, Name};

pub(super) fn read(fields: &mut Fields<'_>, meta: Meta, kind: Kind, version: &str) -> L4Route {
    // v1 takes a single rule.
    let several = version == "v1alpha2";
    let hostnames = if kind == Kind::TLSRoute { hostnames(fields, version) } else { Vec::new() };
    let rules = fields.required_list("rules", 1..=if several { 16 } else { 1 }, rule);
    if several {
        references::rule_names(fields, None, rules.iter().map(|rule| rule.name.as_ref()));
    }
    L4Route {
        kind,
        meta,
        parents: references::parents(fields),
        use_default_gateways: references::use_default_gateways(fields),
        hostnames,
        rules,
    }
}

/// Required since v1alpha3, and then no IP address.
fn hostnames(fields: &mut Fields<'_>, version: &str) -> Vec<Name> {
    let hostname = |reader: &mut Reader, node: &Node| HOSTNAME.read(reader, node);
    if version == "v1alpha2" {
        return fields.list("hostnames", 0..=1024, hostname);
    }
    let hostnames = fields.required_list("hostnames", 1..=1024, hostname);
    for (index, hostname) in hostnames.iter().enumerate() {
        if hostname.parse::<IpAddr>().is_ok() {
            fields.refuse(
                &format!("hostnames[{index}]"),
                "must be a name, not an IP address: TLS carries no address as server name",
            );
        }
    }
    hostnames
}

fn rule(reader: &mut Reader, node: &Node) -> L4Rule {
    reader.object(node, |fields| L4Rule {
        name: fields.text("name", &SECTION_NAME),
        backends: fields
            .required_list("backendRefs", 1..=16, |reader, node| references::backend(reader, node, |_| Vec::new())),
    })
}
