//! Delta discovery responses that share the bytes of their resources.
//!
//! The generated `DeltaDiscoveryResponse` owns a `Vec<u8>` per resource, so sending one resource to 200 proxies would copy it 200
//! times, and keep the copies as long as the responses wait. Here a resource is its name, its version and its message as shared
//! [`Bytes`]; `discovery.v3.Resource` and the `Any` in it are written around them on the way into the connection's buffer.

use std::sync::Arc;

use bytes::{BufMut, Bytes};
use prost::encoding::{WireType, encode_key, encode_varint, encoded_len_varint, key_len};

/// What is sent of one resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeltaResource {
    /// Unique within the type
    pub name: Arc<str>,
    /// As it stands on the wire and comes back in `initial_resource_versions`
    pub version: String,
    /// The encoded message of the response's type
    pub message: Bytes,
}

/// `envoy.service.discovery.v3.DeltaDiscoveryResponse`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeltaResponse {
    /// Of the resources, and of the names in `removed`
    pub type_url: &'static str,
    /// What the answer to this response will name
    pub nonce: String,
    /// New and changed
    pub resources: Vec<DeltaResource>,
    /// Names that are gone, or that do not exist
    pub removed: Vec<Arc<str>>,
}

/// Field numbers of `DeltaDiscoveryResponse`.
mod response_field {
    pub(super) const RESOURCES: u32 = 2;
    pub(super) const TYPE_URL: u32 = 4;
    pub(super) const NONCE: u32 = 5;
    pub(super) const REMOVED_RESOURCES: u32 = 6;
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

impl DeltaResponse {
    /// Length in bytes of the encoded message.
    #[must_use]
    pub fn encoded_len(&self) -> usize {
        let resources: usize = self
            .resources
            .iter()
            .map(|resource| field_len(response_field::RESOURCES, resource.encoded_len(self.type_url)))
            .sum();
        let removed: usize =
            self.removed.iter().map(|name| field_len(response_field::REMOVED_RESOURCES, name.len())).sum();
        resources
            + field_len(response_field::TYPE_URL, self.type_url.len())
            + field_len(response_field::NONCE, self.nonce.len())
            + removed
    }

    /// Writes the encoded message.
    pub fn encode(&self, buffer: &mut impl BufMut) {
        for resource in &self.resources {
            put_key(response_field::RESOURCES, resource.encoded_len(self.type_url), buffer);
            resource.encode(self.type_url, buffer);
        }
        put_field(response_field::TYPE_URL, self.type_url.as_bytes(), buffer);
        put_field(response_field::NONCE, self.nonce.as_bytes(), buffer);
        for name in &self.removed {
            put_field(response_field::REMOVED_RESOURCES, name.as_bytes(), buffer);
        }
    }
}

impl DeltaResource {
    fn any_len(&self, type_url: &str) -> usize {
        field_len(any_field::TYPE_URL, type_url.len()) + field_len(any_field::VALUE, self.message.len())
    }

    fn encoded_len(&self, type_url: &str) -> usize {
        field_len(resource_field::VERSION, self.version.len())
            + field_len(resource_field::RESOURCE, self.any_len(type_url))
            + field_len(resource_field::NAME, self.name.len())
    }

    fn encode(&self, type_url: &str, buffer: &mut impl BufMut) {
        put_field(resource_field::VERSION, self.version.as_bytes(), buffer);
        put_key(resource_field::RESOURCE, self.any_len(type_url), buffer);
        put_field(any_field::TYPE_URL, type_url.as_bytes(), buffer);
        put_field(any_field::VALUE, &self.message, buffer);
        put_field(resource_field::NAME, self.name.as_bytes(), buffer);
    }
}

fn field_len(field: u32, length: usize) -> usize {
    key_len(field) + encoded_len_varint(length as u64) + length
}

fn put_key(field: u32, length: usize, buffer: &mut impl BufMut) {
    encode_key(field, WireType::LengthDelimited, buffer);
    encode_varint(length as u64, buffer);
}

fn put_field(field: u32, value: &[u8], buffer: &mut impl BufMut) {
    put_key(field, value.len(), buffer);
    buffer.put_slice(value);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::envoy::discovery;
    use prost::Message;

    #[test]
    fn generated_types_read_what_is_written() {
        let message = Bytes::from(vec![7_u8; 300]);
        let response = DeltaResponse {
            type_url: "type.googleapis.com/x",
            nonce: "3".into(),
            resources: vec![DeltaResource { name: "a".into(), version: "v1".into(), message: message.clone() }],
            removed: vec!["b".into()],
        };
        let mut bytes = Vec::new();
        response.encode(&mut bytes);
        assert_eq!(bytes.len(), response.encoded_len());
        let read = discovery::DeltaDiscoveryResponse::decode(bytes.as_slice()).unwrap();
        assert_eq!((read.type_url.as_str(), read.nonce.as_str()), ("type.googleapis.com/x", "3"));
        assert_eq!(read.removed_resources, ["b"]);
        let resource = &read.resources[0];
        assert_eq!((resource.name.as_str(), resource.version.as_str()), ("a", "v1"));
        let any = resource.resource.as_ref().unwrap();
        assert_eq!((any.type_url.as_str(), any.value.as_slice()), ("type.googleapis.com/x", &message[..]));
    }
}
