//! `retry` (GEP-1731) and `timeouts` (GEP-1742) of a rule.

use super::super::document::Node;
use super::super::schema::{Fields, Reader, duration};
use crate::objects::{Retry, Timeouts};

/// Of the experimental channel in 1.6; 1.7 has codes and attempts in both.
pub(super) fn read(fields: &mut Fields<'_>) -> Option<Retry> {
    fields.experimental(|fields| fields.optional("retry", retry))
}

fn retry(reader: &mut Reader, node: &Node) -> Retry {
    reader.object(node, |fields| {
        let codes = fields.list("codes", 0..=usize::MAX, |reader, node| {
            u16::try_from(reader.integer(node, 400..=599)).unwrap_or_else(|_| {
                reader.incomplete = true;
                400
            })
        });
        fields.distinct("codes", None);
        Retry {
            codes,
            attempts: fields
                .integer("attempts", 1..=i64::MAX)
                .map(|attempts| u32::try_from(attempts).unwrap_or(u32::MAX)),
            backoff: fields.optional("backoff", duration),
        }
    })
}

pub(super) fn timeouts(reader: &mut Reader, node: &Node) -> Timeouts {
    reader.object(node, |fields| {
        let request = fields.optional("request", duration);
        let backend_request = fields.optional("backendRequest", duration);
        if let (Some(request), Some(backend_request)) = (request, backend_request)
            && !request.is_zero()
            && backend_request > request
        {
            fields.refuse("backendRequest", "must not be longer than the request timeout");
        }
        Timeouts { request, backend_request }
    })
}
