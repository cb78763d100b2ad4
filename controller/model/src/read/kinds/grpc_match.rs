//! Matches of a GRPCRoute's rule.

use super::super::document::Node;
use super::super::schema::{Choice, Fields, Pattern, Reader, Text};
use super::headers::{GRPC_HEADER_VALUE, header_matches, value_matcher};
use crate::objects::{GrpcMatch, GrpcMethodMatch};

static TYPE: Choice = Choice::of(&["Exact", "RegularExpression"]);
static NAME: Text = Text::sized(0, 1024);
pub(super) static SERVICE: Pattern = Pattern::new(
    r"^\.?[a-zA-Z_][a-zA-Z_0-9]*(\.[a-zA-Z_][a-zA-Z_0-9]*)*$",
    "a gRPC service: identifiers joined by dots, such as `package.Service`",
);
pub(super) static METHOD: Pattern = Pattern::new(r"^[A-Za-z_][A-Za-z_0-9]*$", "a gRPC method: an identifier");

pub(super) fn read(reader: &mut Reader, node: &Node) -> GrpcMatch {
    reader.object(node, |fields| GrpcMatch {
        method: fields.optional("method", |reader, node| reader.object(node, method)),
        headers: header_matches(fields, &GRPC_HEADER_VALUE),
    })
}

fn method(fields: &mut Fields<'_>) -> GrpcMethodMatch {
    let kind = fields.choice("type", &TYPE);
    let service = fields.text("service", &NAME);
    let method = fields.text("method", &NAME);
    if service.is_none() && method.is_none() {
        fields.refuse("", "needs service or method, or both");
    }
    if matches!(kind.as_deref(), None | Some("Exact")) {
        for (field, value, pattern) in [("service", &service, &SERVICE), ("method", &method, &METHOD)] {
            if let Some(value) = value
                && !pattern.is_match(value)
            {
                fields.refuse(field, format!("`{value}` is not {}", pattern.means));
            }
        }
    }
    GrpcMethodMatch {
        service: service.map(|service| value_matcher(kind.clone(), service)),
        method: method.map(|method| value_matcher(kind, method)),
    }
}
