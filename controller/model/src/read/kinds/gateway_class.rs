//! GatewayClass.

use super::super::schema::{Fields, Text};
use super::forms::{CONTROLLER_NAME_PATTERN, GROUP, KIND, NAMESPACE, OBJECT_NAME};
use crate::objects::{GatewayClass, Meta, ParametersRef};

static CONTROLLER_NAME: Text = Text::formed(1, 253, &CONTROLLER_NAME_PATTERN);
static DESCRIPTION: Text = Text::sized(0, 64);

pub(super) fn read(fields: &mut Fields<'_>, meta: Meta) -> GatewayClass {
    fields.text("description", &DESCRIPTION);
    GatewayClass {
        meta,
        controller_name: fields.required_text("controllerName", &CONTROLLER_NAME),
        parameters_ref: fields.optional("parametersRef", |reader, node| {
            reader.object(node, |fields| ParametersRef {
                group: fields.required_text("group", &GROUP),
                kind: fields.required_text("kind", &KIND),
                namespace: fields.text("namespace", &NAMESPACE),
                name: fields.required_text("name", &OBJECT_NAME),
            })
        }),
    }
}
