//! ReferenceGrant.

use super::super::schema::Fields;
use super::forms::{GROUP, KIND, NAMESPACE, OBJECT_NAME};
use crate::objects::{GrantFrom, GrantTo, Meta, ReferenceGrant};

pub(super) fn read(fields: &mut Fields<'_>, meta: Meta) -> ReferenceGrant {
    ReferenceGrant {
        meta,
        from: fields.required_list("from", 1..=16, |reader, node| {
            reader.object(node, |fields| GrantFrom {
                group: fields.required_text("group", &GROUP),
                kind: fields.required_text("kind", &KIND),
                namespace: fields.required_text("namespace", &NAMESPACE),
            })
        }),
        to: fields.required_list("to", 1..=16, |reader, node| {
            reader.object(node, |fields| GrantTo {
                group: fields.required_text("group", &GROUP),
                kind: fields.required_text("kind", &KIND),
                name: fields.text("name", &OBJECT_NAME),
            })
        }),
    }
}
