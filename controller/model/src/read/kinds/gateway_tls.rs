//! `tls` of a Gateway: client certificates at the front (GEP-91), Envoy's own towards backends (GEP-3155).

use std::sync::Arc;

use super::super::document::Node;
use super::super::schema::{Choice, Fields, Reader};
use super::references;
use crate::objects::{ClientValidation, GatewayTls, ValidationMode};

static MODE: Choice = Choice::of(&["AllowValidOnly", "AllowInsecureFallback"]);

pub(super) fn read(reader: &mut Reader, node: &Node) -> GatewayTls {
    reader.object(node, |fields| {
        let backend = fields.optional("backend", |reader, node| {
            reader.object(node, |fields| fields.optional("clientCertificateRef", references::secret))
        });
        let frontend = fields.optional("frontend", |reader, node| {
            reader.object(node, |fields| {
                let default = fields.required("default", validation);
                let per_port = fields.list("perPort", 0..=64, per_port);
                fields.distinct("perPort", Some("port"));
                (default, per_port)
            })
        });
        let (frontend_default, frontend_per_port) = frontend.unwrap_or_default();
        GatewayTls { backend_client_certificate: backend.flatten(), frontend_default, frontend_per_port }
    })
}

fn per_port(reader: &mut Reader, node: &Node) -> (u16, Option<ClientValidation>) {
    reader.object(node, |fields| (fields.required_port("port"), fields.required("tls", validation)))
}

/// An object whose only field is `validation`.
fn validation(reader: &mut Reader, node: &Node) -> Option<ClientValidation> {
    reader.object(node, |fields: &mut Fields<'_>| {
        fields.optional("validation", |reader, node| {
            reader.object(node, |fields| ClientValidation {
                ca_certificate_refs: fields.required_list("caCertificateRefs", 1..=16, references::object),
                mode: match fields.choice("mode", &MODE).as_deref() {
                    None | Some("AllowValidOnly") => ValidationMode::AllowValidOnly,
                    Some("AllowInsecureFallback") => ValidationMode::AllowInsecureFallback,
                    Some(other) => ValidationMode::Unknown(Arc::from(other)),
                },
            })
        })
    })
}
