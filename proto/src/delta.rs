//! Delta discovery responses that share the bytes of their resources.
//!
//! The generated `DeltaDiscoveryResponse` owns a `Vec<u8>` per resource, so sending one resource to 200 proxies would copy it 200
//! times, and keep the copies as long as the responses wait. Here a resource is its name, its version and its message as shared
//! [`Bytes`]; `discovery.v3.Resource` and the `Any` in it are written around them on the way to the connection.

use std::sync::Arc;
use std::vec;

use bytes::{BufMut, Bytes, BytesMut};
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

    /// The encoded message in pieces, made as they are asked for: a large resource is its own shared bytes, all else is gathered.
    #[must_use]
    pub fn into_pieces(self) -> Pieces {
        let Self { type_url, nonce, resources, removed } = self;
        Pieces { type_url, resources: resources.into_iter(), shared: None, rest: Some((nonce, removed)) }
    }
}

/// See [`DeltaResponse::into_pieces`].
#[derive(Debug)]
pub struct Pieces {
    type_url: &'static str,
    resources: vec::IntoIter<DeltaResource>,
    /// The bytes that come next
    shared: Option<Bytes>,
    /// Nonce and removed names, until written
    rest: Option<(String, Vec<Arc<str>>)>,
}

/// From this length on a resource is not copied.
const SHARED: usize = 4 << 10;
/// A gathered piece ends with the resource that makes it this long.
const PIECE: usize = 64 << 10;

impl Iterator for Pieces {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        if let Some(shared) = self.shared.take() {
            return Some(shared);
        }
        let mut buffer = BytesMut::new();
        for resource in self.resources.by_ref() {
            put_key(response_field::RESOURCES, resource.encoded_len(self.type_url), &mut buffer);
            resource.encode_head(self.type_url, &mut buffer);
            if resource.message.len() >= SHARED {
                self.shared = Some(resource.message);
                return Some(buffer.freeze());
            }
            buffer.put_slice(&resource.message);
            if buffer.len() >= PIECE {
                return Some(buffer.freeze());
            }
        }
        if let Some((nonce, removed)) = self.rest.take() {
            put_field(response_field::TYPE_URL, self.type_url.as_bytes(), &mut buffer);
            put_field(response_field::NONCE, nonce.as_bytes(), &mut buffer);
            for name in &removed {
                put_field(response_field::REMOVED_RESOURCES, name.as_bytes(), &mut buffer);
            }
        }
        (!buffer.is_empty()).then(|| buffer.freeze())
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

    /// Everything before the bytes of the message, which end the resource: fields may come in any order.
    fn encode_head(&self, type_url: &str, buffer: &mut impl BufMut) {
        put_field(resource_field::NAME, self.name.as_bytes(), buffer);
        put_field(resource_field::VERSION, self.version.as_bytes(), buffer);
        put_key(resource_field::RESOURCE, self.any_len(type_url), buffer);
        put_field(any_field::TYPE_URL, type_url.as_bytes(), buffer);
        put_key(any_field::VALUE, self.message.len(), buffer);
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
        let resource = |name: &str, length: usize| DeltaResource {
            name: name.into(),
            version: "v1".into(),
            message: vec![7_u8; length].into(),
        };
        let lengths = [300, SHARED, 0, PIECE, 5, SHARED - 1];
        let resources: Vec<_> =
            lengths.iter().zip('a'..).map(|(length, name)| resource(&name.to_string(), *length)).collect();
        let large = resources[3].message.clone();
        let response = DeltaResponse {
            type_url: "type.googleapis.com/x",
            nonce: "3".into(),
            resources,
            removed: vec!["z".into()],
        };
        let length = response.encoded_len();
        let pieces: Vec<Bytes> = response.into_pieces().collect();
        assert!(pieces.iter().any(|piece| piece.as_ptr() == large.as_ptr()), "the large one is not copied");
        let bytes = pieces.concat();
        assert_eq!(bytes.len(), length);
        let read = discovery::DeltaDiscoveryResponse::decode(bytes.as_slice()).unwrap();
        assert_eq!((read.type_url.as_str(), read.nonce.as_str()), ("type.googleapis.com/x", "3"));
        assert_eq!(read.removed_resources, ["z"]);
        assert_eq!(read.resources.len(), lengths.len());
        for ((resource, length), name) in read.resources.iter().zip(lengths).zip('a'..) {
            assert_eq!((resource.name.clone(), resource.version.as_str()), (name.to_string(), "v1"));
            let any = resource.resource.as_ref().unwrap();
            assert_eq!((any.type_url.as_str(), any.value.len()), ("type.googleapis.com/x", length));
        }
    }

    #[test]
    fn many_small_resources_are_gathered_into_bounded_pieces() {
        let resource = |number: usize| DeltaResource {
            name: number.to_string().into(),
            version: String::new(),
            message: vec![1; 100].into(),
        };
        let response = DeltaResponse {
            type_url: "t",
            nonce: String::new(),
            resources: (0..4000).map(resource).collect(),
            removed: Vec::new(),
        };
        let pieces: Vec<Bytes> = response.into_pieces().collect();
        assert!(pieces.len() >= 6 && pieces.iter().all(|piece| piece.len() < PIECE + SHARED), "{}", pieces.len());
    }
}
