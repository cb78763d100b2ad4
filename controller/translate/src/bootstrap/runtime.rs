//! Envoy's runtime settings.

use std::collections::HashMap;

use portolan_proto::envoy::bootstrap::{LayeredRuntime, RuntimeLayer, runtime_layer::LayerSpecifier};
use portolan_proto::envoy::{Struct, Value, value::Kind};

/// Largest program of a regular expression, in RE2's instructions. Envoy's default of 100 refuses expressions that are common in
/// routes, and whatever RE2 compiles it matches in linear time. Resolution, which refuses expressions long before this size, is the one
/// judge.
const RE2_PROGRAM_SIZE: f64 = 1_000_000.0;

/// One static layer with one entry: the order of several would differ from run to run.
pub fn runtime() -> LayeredRuntime {
    let limit = ("re2.max_program_size.error_level".into(), Value { kind: Some(Kind::NumberValue(RE2_PROGRAM_SIZE)) });
    LayeredRuntime {
        layers: vec![RuntimeLayer {
            name: "portolan".into(),
            layer_specifier: Some(LayerSpecifier::StaticLayer(Struct { fields: HashMap::from([limit]) })),
        }],
    }
}
