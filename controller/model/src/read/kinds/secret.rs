//! Secret.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::super::document::Node;
use super::super::schema::{Fields, Reader, Text};
use crate::objects::{Meta, Secret};

pub(super) fn read(fields: &mut Fields<'_>, meta: Meta) -> Secret {
    let kind = fields.text("type", &Text::ANY).filter(|kind| !kind.is_empty());
    let mut data = fields.map("data", usize::MAX, base64);
    // "stringData … overwrites existing values" (Secret, core/v1)
    for (key, text) in fields.text_map("stringData", usize::MAX, &Text::ANY) {
        data.insert(key, Arc::from(text.as_bytes()));
    }
    Secret { meta, kind: kind.unwrap_or_else(|| Arc::from("Opaque")), data }
}

/// A value that is written in base64. The message shows nothing of it.
pub(super) fn base64(reader: &mut Reader, node: &Node) -> Arc<[u8]> {
    let text = Text::ANY.read(reader, node);
    // As Go's decoder, which passes over line ends
    let text: String = text.chars().filter(|char| !matches!(char, '\n' | '\r')).collect();
    STANDARD.decode(text).map_or_else(
        |_| {
            reader.incomplete = true;
            reader.refuse(
                node.at,
                "",
                "is not base64; plain text belongs in stringData of a Secret, in data of a ConfigMap",
            );
            Arc::from([].as_slice())
        },
        Arc::from,
    )
}
