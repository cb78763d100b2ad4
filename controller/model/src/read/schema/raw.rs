//! Parts of Kubernetes' own API that are passed on as they are.

use serde_json::Value as Json;

use super::super::document::{Node, Value};
use super::super::written;
use super::{Pattern, Reader};

/// What is known of such a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::read) enum Shape {
    Object,
    /// Of objects
    List,
    Text,
    Texts,
    Boolean,
}

impl Reader {
    pub fn raw(&mut self, node: &Node, shape: Shape) -> Json {
        if let Some(sketch) = &mut self.sketch {
            sketch.raw(shape);
            return Json::Null;
        }
        let expected = match (shape, &node.value) {
            (Shape::Object, Value::Map(_))
            | (Shape::List | Shape::Texts, Value::List(_))
            | (Shape::Text, Value::Text(_))
            | (Shape::Boolean, Value::Bool(_)) => return written::json(node),
            (Shape::Object, _) => "an object",
            (Shape::List | Shape::Texts, _) => "a list",
            (Shape::Text, _) => "a string",
            (Shape::Boolean, _) => "true or false",
        };
        self.mistyped(node, expected);
        Json::Null
    }

    /// A number, or a text of the form: Kubernetes' int-or-string.
    pub fn quantity(&mut self, node: &Node, form: &Pattern) -> Json {
        if let Some(sketch) = &mut self.sketch {
            sketch.int_or_string();
            return Json::Null;
        }
        match &node.value {
            Value::Integer(integer) if *integer >= 0 => {}
            Value::Text(text) if form.is_match(text) => {}
            _ => {
                self.incomplete = true;
                self.refuse(node.at, "", format!("is not {}", form.means));
            }
        }
        written::json(node)
    }
}
