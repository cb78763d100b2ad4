//! Any Envoy message as JSON, and back.
//!
//! `envoy-types` has no JSON form, so messages are read through their descriptors: a part of the descriptor set that `envoy-types`
//! ships, compressed into this crate by `examples/trim-descriptors.rs` and unpacked on first use.
//!
//! The form is proto3's canonical JSON with the field names of the `.proto` files, as Envoy's documentation writes them; nested `Any`
//! are expanded under `@type`; keys are sorted, so equal messages print equally although protobuf maps have no order.

use std::io::Read;
use std::sync::OnceLock;

use prost::Message;
use prost_reflect::{
    DescriptorPool, DynamicMessage, ExtensionDescriptor, FieldDescriptor, MessageDescriptor, ReflectMessage,
    SerializeOptions, Value,
};

/// Whether key material is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Secrets {
    /// Replaced by `[redacted]`, wherever Envoy's own config dump does so
    Redact,
    /// Printed as they are
    Show,
}

/// Why a message has no JSON form, or JSON no message.
#[derive(Debug, thiserror::Error)]
pub enum JsonError {
    /// The type, or that of a nested `Any`, is not among the embedded descriptors
    #[error("no descriptor for {0}: add its package to proto/examples/trim-descriptors.rs and run it")]
    UnknownType(String),
    /// The bytes are no such message
    #[error("the bytes are no {type_url}: {source}")]
    Decode {
        /// Of the message asked for
        type_url: String,
        /// From the reader
        source: prost::DecodeError,
    },
    /// The JSON does not fit the type, or the message holds what JSON cannot say
    #[error("{type_url} does not convert: {source}")]
    Convert {
        /// Of the message asked for
        type_url: String,
        /// From the converter
        source: serde_json::Error,
    },
    /// A defect of this crate's build
    #[error("the embedded descriptors cannot be read: {0}")]
    Descriptors(String),
}

/// The message of type `type_url` in `bytes` as JSON with sorted keys.
///
/// # Errors
/// When the type, or the type of a nested `Any`, has no descriptor here, or the bytes are no such message.
pub fn to_json(type_url: &str, bytes: &[u8], secrets: Secrets) -> Result<serde_json::Value, JsonError> {
    let descriptors = descriptors()?;
    let mut message = DynamicMessage::decode(descriptors.message(type_url)?, bytes)
        .map_err(|source| JsonError::Decode { type_url: type_url.into(), source })?;
    if secrets == Secrets::Redact {
        descriptors.redact(&mut message, false);
    }
    let options = SerializeOptions::new().use_proto_field_name(true);
    let mut value = message
        .serialize_with_options(serde_json::value::Serializer, &options)
        .map_err(|source| JsonError::Convert { type_url: type_url.into(), source })?;
    value.sort_all_objects();
    Ok(value)
}

/// The encoded message of type `type_url` that `json` describes. Both spellings of field names are read; unknown fields are errors.
///
/// # Errors
/// When the type has no descriptor here, or the JSON does not fit it.
pub fn from_json(type_url: &str, json: &serde_json::Value) -> Result<Vec<u8>, JsonError> {
    let message = DynamicMessage::deserialize(descriptors()?.message(type_url)?, json)
        .map_err(|source| JsonError::Convert { type_url: type_url.into(), source })?;
    Ok(message.encode_to_vec())
}

/// The trimmed `FileDescriptorSet`, deflated.
static DESCRIPTORS: &[u8] = include_bytes!("../descriptors/envoy.bin.gz");
/// Envoy marks what its config dump hides with this option (`api/udpa/annotations/sensitive.proto`).
const SENSITIVE: &str = "udpa.annotations.sensitive";
const REDACTED: &str = "[redacted]";

struct Descriptors {
    pool: DescriptorPool,
    sensitive: ExtensionDescriptor,
}

fn descriptors() -> Result<&'static Descriptors, JsonError> {
    static READ: OnceLock<Result<Descriptors, String>> = OnceLock::new();
    READ.get_or_init(Descriptors::read).as_ref().map_err(|reason| JsonError::Descriptors(reason.clone()))
}

impl Descriptors {
    fn read() -> Result<Self, String> {
        let mut bytes = Vec::new();
        flate2::read::GzDecoder::new(DESCRIPTORS).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
        let pool = DescriptorPool::decode(bytes.as_slice()).map_err(|error| error.to_string())?;
        let sensitive = pool.get_extension_by_name(SENSITIVE).ok_or_else(|| format!("{SENSITIVE} is missing"))?;
        Ok(Self { pool, sensitive })
    }

    fn message(&self, type_url: &str) -> Result<MessageDescriptor, JsonError> {
        let name = type_url.rsplit('/').next().unwrap_or(type_url);
        self.pool.get_message_by_name(name).ok_or_else(|| JsonError::UnknownType(type_url.into()))
    }

    fn is_sensitive(&self, field: &FieldDescriptor) -> bool {
        field.options().get_extension(&self.sensitive).as_bool().unwrap_or(false)
    }

    /// Overwrites strings and bytes of sensitive fields, and everything below them (`all`).
    fn redact(&self, message: &mut DynamicMessage, all: bool) {
        if message.descriptor().full_name() == "google.protobuf.Any" {
            return self.redact_any(message, all);
        }
        for (field, value) in message.fields_mut() {
            self.redact_value(value, all || self.is_sensitive(&field));
        }
    }

    fn redact_value(&self, value: &mut Value, hide: bool) {
        match value {
            Value::String(text) if hide => REDACTED.clone_into(text),
            Value::Bytes(bytes) if hide => *bytes = bytes::Bytes::from_static(REDACTED.as_bytes()),
            Value::Message(message) => self.redact(message, hide),
            Value::List(values) => values.iter_mut().for_each(|value| self.redact_value(value, hide)),
            Value::Map(values) => values.values_mut().for_each(|value| self.redact_value(value, hide)),
            _ => {}
        }
    }

    /// An `Any` is bytes to the walk above: it is opened, redacted and packed again. What cannot be opened fails later, in printing.
    fn redact_any(&self, any: &mut DynamicMessage, all: bool) {
        let Ok(packed) = any.transcode_to::<crate::envoy::Any>() else { return };
        let Ok(descriptor) = self.message(&packed.type_url) else { return };
        let Ok(mut inner) = DynamicMessage::decode(descriptor, packed.value.as_slice()) else { return };
        self.redact(&mut inner, all);
        any.set_field_by_name("value", Value::Bytes(inner.encode_to_vec().into()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ResourceType;
    use crate::envoy::{core, hcm, listener, pack_any, protobuf, router, tls};

    fn data(text: &str) -> core::DataSource {
        core::DataSource {
            specifier: Some(core::data_source::Specifier::InlineString(text.into())),
            ..Default::default()
        }
    }

    #[test]
    fn nested_messages_are_expanded_and_come_back() {
        let manager = hcm::HttpConnectionManager {
            stat_prefix: "p".into(),
            http_filters: vec![hcm::HttpFilter {
                name: "router".into(),
                config_type: Some(hcm::http_filter::ConfigType::TypedConfig(pack_any(router::Router::default()))),
                ..Default::default()
            }],
            ..Default::default()
        };
        let message = listener::Listener {
            name: "l".into(),
            filter_chains: vec![listener::FilterChain {
                filters: vec![listener::Filter {
                    name: "h".into(),
                    config_type: Some(listener::filter::ConfigType::TypedConfig(pack_any(manager))),
                }],
                ..Default::default()
            }],
            ..Default::default()
        };
        let url = ResourceType::Listener.type_url();
        let json = to_json(url, &message.encode_to_vec(), Secrets::Redact).unwrap();
        let config = &json["filter_chains"][0]["filters"][0]["typed_config"];
        assert_eq!(config["stat_prefix"], "p");
        assert!(config["http_filters"][0]["typed_config"]["@type"].as_str().unwrap().ends_with("router.v3.Router"));
        let back = listener::Listener::decode(from_json(url, &json).unwrap().as_slice()).unwrap();
        assert_eq!(back, message);
    }

    #[test]
    fn keys_of_maps_are_sorted() {
        let fields: std::collections::HashMap<_, _> =
            ["z", "a", "m"].into_iter().map(|key| (key.to_string(), protobuf::Struct::default())).collect();
        let metadata = core::Metadata { filter_metadata: fields, ..Default::default() };
        let json = to_json("envoy.config.core.v3.Metadata", &metadata.encode_to_vec(), Secrets::Show).unwrap();
        assert_eq!(json["filter_metadata"].as_object().unwrap().keys().collect::<Vec<_>>(), ["a", "m", "z"]);
    }

    #[test]
    fn key_material_is_hidden_also_inside_any() {
        let certificate = tls::TlsCertificate {
            certificate_chain: Some(data("CHAIN")),
            private_key: Some(data("KEY")),
            ..Default::default()
        };
        let secret =
            tls::Secret { name: "s".into(), r#type: Some(tls::secret::Type::TlsCertificate(certificate.clone())) };
        let url = ResourceType::Secret.type_url();
        let text = to_json(url, &secret.encode_to_vec(), Secrets::Redact).unwrap().to_string();
        assert!(text.contains("CHAIN") && !text.contains("KEY") && text.contains("[redacted]"), "{text}");
        let shown = to_json(url, &secret.encode_to_vec(), Secrets::Show).unwrap().to_string();
        assert!(shown.contains("KEY"), "{shown}");

        let context = tls::DownstreamTlsContext {
            common_tls_context: Some(tls::CommonTlsContext {
                tls_certificates: vec![certificate],
                ..Default::default()
            }),
            ..Default::default()
        };
        let socket = core::TransportSocket {
            name: "tls".into(),
            config_type: Some(core::transport_socket::ConfigType::TypedConfig(pack_any(context))),
        };
        let text = to_json("envoy.config.core.v3.TransportSocket", &socket.encode_to_vec(), Secrets::Redact).unwrap();
        assert!(text.to_string().contains("CHAIN") && !text.to_string().contains("KEY"), "{text}");
    }

    #[test]
    fn every_served_type_has_descriptors() {
        for kind in ResourceType::ALL {
            assert!(to_json(kind.type_url(), b"", Secrets::Redact).is_ok(), "{kind:?}");
        }
        assert!(matches!(to_json("x/no.Such", b"", Secrets::Show), Err(JsonError::UnknownType(_))));
    }

    #[test]
    fn a_misspelt_field_is_an_error() {
        let error = from_json(ResourceType::Cluster.type_url(), &serde_json::json!({"nam": "x"})).unwrap_err();
        assert!(error.to_string().contains("nam"), "{error}");
    }
}
