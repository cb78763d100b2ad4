//! Delta discovery responses that carry resources already encoded.
//!
//! The generated `DeltaDiscoveryResponse` holds `Vec<Resource>` with `Any.value: Vec<u8>`, so sending it to 200 proxies copies every
//! resource 200 times. Here a resource is a [`Bytes`]: encoded once, shared by all streams. The wire form is the same, since a
//! repeated message and a repeated byte string are both length-delimited.

use bytes::{BufMut, Bytes, BytesMut};
use prost::encoding::{WireType, encode_key, encode_varint, encoded_len_varint, key_len};

/// `envoy.service.discovery.v3.DeltaDiscoveryResponse` with pre-encoded resources.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct RawDeltaResponse {
    /// For people who debug; no proxy acts on it
    #[prost(string, tag = "1")]
    pub system_version_info: String,
    /// Each an encoded `discovery.v3.Resource`, see [`encode_resource`]
    #[prost(bytes = "bytes", repeated, tag = "2")]
    pub resources: Vec<Bytes>,
    #[prost(string, tag = "4")]
    pub type_url: String,
    #[prost(string, tag = "5")]
    pub nonce: String,
    #[prost(string, repeated, tag = "6")]
    pub removed_resources: Vec<String>,
}

/// Field numbers of `discovery.v3.Resource`.
mod resource_field {
    pub(super) const VERSION: u32 = 1;
    pub(super) const RESOURCE: u32 = 2;
    pub(super) const NAME: u32 = 3;
}
/// Field numbers of `google.protobuf.Any`.
mod any_field {
    pub(super) const TYPE_URL: u32 = 1;
    pub(super) const VALUE: u32 = 2;
}

/// The encoded `discovery.v3.Resource { name, version, resource: Any { type_url, value: message } }`.
#[must_use]
pub fn encode_resource(name: &str, version: &str, type_url: &str, message: &[u8]) -> Bytes {
    let any = field_len(any_field::TYPE_URL, type_url.len()) + field_len(any_field::VALUE, message.len());
    let length = field_len(resource_field::VERSION, version.len())
        + field_len(resource_field::RESOURCE, any)
        + field_len(resource_field::NAME, name.len());
    let mut buffer = BytesMut::with_capacity(length);
    put_field(resource_field::VERSION, version.as_bytes(), &mut buffer);
    encode_key(resource_field::RESOURCE, WireType::LengthDelimited, &mut buffer);
    encode_varint(any as u64, &mut buffer);
    put_field(any_field::TYPE_URL, type_url.as_bytes(), &mut buffer);
    put_field(any_field::VALUE, message, &mut buffer);
    put_field(resource_field::NAME, name.as_bytes(), &mut buffer);
    buffer.freeze()
}

fn field_len(field: u32, length: usize) -> usize {
    key_len(field) + encoded_len_varint(length as u64) + length
}

fn put_field(field: u32, value: &[u8], buffer: &mut impl BufMut) {
    encode_key(field, WireType::LengthDelimited, buffer);
    encode_varint(value.len() as u64, buffer);
    buffer.put_slice(value);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::envoy::discovery;
    use prost::Message;

    #[test]
    fn generated_types_read_what_the_raw_ones_write() {
        let message = vec![7_u8; 300];
        let raw = RawDeltaResponse {
            resources: vec![encode_resource("a", "v1", "type.googleapis.com/x", &message)],
            type_url: "type.googleapis.com/x".into(),
            nonce: "3".into(),
            removed_resources: vec!["b".into()],
            ..RawDeltaResponse::default()
        };
        let read = discovery::DeltaDiscoveryResponse::decode(raw.encode_to_vec().as_slice()).unwrap();
        assert_eq!((read.type_url.as_str(), read.nonce.as_str()), ("type.googleapis.com/x", "3"));
        assert_eq!(read.removed_resources, ["b"]);
        let resource = &read.resources[0];
        assert_eq!((resource.name.as_str(), resource.version.as_str()), ("a", "v1"));
        let any = resource.resource.as_ref().unwrap();
        assert_eq!((any.type_url.as_str(), &any.value), ("type.googleapis.com/x", &message));
    }
}
