//! The filter RequestMirror.

use super::super::document::Node;
use super::super::schema::Reader;
use super::references::backend_object;
use crate::objects::{Fraction, Mirror};

pub(super) fn read(reader: &mut Reader, node: &Node) -> Mirror {
    reader.object(node, |fields| {
        let (backend, port) = fields.required("backendRef", |reader, node| reader.object(node, backend_object));
        let percent = fields.unsigned("percent", 0..=100);
        let fraction = fields.optional("fraction", fraction);
        if percent.is_some() && fraction.is_some() {
            fields.refuse("", "must have percent or fraction, not both");
        }
        let percent = percent.map(|numerator| Fraction { numerator, denominator: 100 });
        Mirror { backend, port, fraction: percent.or(fraction).unwrap_or(Fraction { numerator: 1, denominator: 1 }) }
    })
}

fn fraction(reader: &mut Reader, node: &Node) -> Fraction {
    reader.object(node, |fields| {
        let numerator = fields.required("numerator", |reader, node| reader.integer(node, 0..=i64::from(i32::MAX)));
        let denominator = fields.unsigned("denominator", 1..=i64::from(i32::MAX)).unwrap_or(100);
        let numerator = u32::try_from(numerator).unwrap_or_else(|_| {
            fields.incomplete();
            0
        });
        if numerator > denominator {
            fields.refuse("", "numerator must not be greater than denominator");
        }
        if denominator == 0 {
            fields.incomplete();
        }
        Fraction { numerator, denominator }
    })
}
