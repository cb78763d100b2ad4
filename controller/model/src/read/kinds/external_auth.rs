//! The filter ExternalAuth, of the experimental channel (GEP-1494).

use super::super::document::Node;
use super::super::schema::{Choice, Fields, Reader, Text};
use super::forms::PATH_PATTERN;
use super::references::backend_object;
use crate::Name;
use crate::objects::ExternalAuth;

static PROTOCOL: Choice = Choice::of(&["HTTP", "GRPC"]);
static PATH: Text = Text::formed(0, 1024, &PATH_PATTERN);

pub(super) fn read(reader: &mut Reader, node: &Node) -> ExternalAuth {
    reader.object(node, |fields| {
        let protocol = fields.required_choice("protocol", &PROTOCOL);
        let (backend, port) = fields.required("backendRef", |reader, node| reader.object(node, backend_object));
        let grpc =
            fields.optional("grpc", |reader, node| reader.object(node, |fields| headers(fields, "allowedHeaders")));
        let http = fields.optional("http", |reader, node| {
            reader.object(node, |fields| {
                let path = fields.text("path", &PATH);
                (path, headers(fields, "allowedHeaders"), headers(fields, "allowedResponseHeaders"))
            })
        });
        for (field, given, its_protocol) in [("grpc", grpc.is_some(), "GRPC"), ("http", http.is_some(), "HTTP")] {
            match (given, *protocol == *its_protocol) {
                (false, true) => fields.refuse(field, format!("is required when protocol is {its_protocol}")),
                (true, false) => fields.refuse(field, format!("must not be given unless protocol is {its_protocol}")),
                _ => {}
            }
        }
        // The CRD sets no bounds: uint16 in the types of 1.6, int32 in those of 1.7.
        let max_size = fields.optional("forwardBody", |reader, node| {
            reader.object(node, |fields| fields.integer("maxSize", i64::MIN..=i64::MAX))
        });
        let (path, http_headers, allowed_response_headers) = http.unwrap_or_default();
        ExternalAuth {
            protocol,
            backend,
            port,
            path,
            allowed_headers: grpc.unwrap_or(http_headers),
            allowed_response_headers,
            forward_body_max_size: max_size.flatten().and_then(|size| u32::try_from(size).ok()),
        }
    })
}

fn headers(fields: &mut Fields<'_>, name: &'static str) -> Vec<Name> {
    let headers = fields.texts(name, 0..=64, &Text::ANY);
    fields.distinct(name, None);
    headers
}
