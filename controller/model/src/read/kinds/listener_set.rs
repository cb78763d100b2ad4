//! ListenerSet (GEP-1713).

use super::super::schema::Fields;
use super::{listener, references};
use crate::objects::{ListenerSet, Meta};

pub(super) fn read(fields: &mut Fields<'_>, meta: Meta) -> ListenerSet {
    ListenerSet {
        meta,
        parent: fields.required("parentRef", |reader, node| reader.object(node, references::parent)),
        listeners: listener::listeners(fields),
    }
}
