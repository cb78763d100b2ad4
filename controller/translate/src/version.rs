//! Versions: one hash per value, the same on every machine.

use std::hash::{Hash, Hasher};

use portolan_proto::{ResourceType, Version};

use crate::epochs;

/// The version of a resource (or of a part of one) of type `kind` that is made from `content`.
///
/// `content` must hold everything that the bytes depend on: equal content, equal bytes. The bytes themselves are not hashed, because
/// protobuf maps have no order. `derive(Hash)` visits every field, so a field added to a plan enters the version by itself.
pub fn version(kind: ResourceType, content: &impl Hash) -> Version {
    let mut canonical = Canonical(Vec::with_capacity(512));
    epochs::epoch(kind).hash(&mut canonical);
    content.hash(&mut canonical);
    Version::of(&canonical.0)
}

/// Writes down what a `Hash` implementation visits, integers in little-endian whatever the machine.
struct Canonical(Vec<u8>);

impl Hasher for Canonical {
    fn write(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    fn write_u16(&mut self, value: u16) {
        self.write(&value.to_le_bytes());
    }

    fn write_u32(&mut self, value: u32) {
        self.write(&value.to_le_bytes());
    }

    fn write_u64(&mut self, value: u64) {
        self.write(&value.to_le_bytes());
    }

    fn write_u128(&mut self, value: u128) {
        self.write(&value.to_le_bytes());
    }

    fn write_usize(&mut self, value: usize) {
        self.write_u64(value as u64);
    }

    fn write_isize(&mut self, value: isize) {
        self.write_i64(value as i64);
    }

    fn write_i64(&mut self, value: i64) {
        self.write(&value.to_le_bytes());
    }

    /// Never asked for: the bytes are the result.
    fn finish(&self) -> u64 {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The standard library does not promise that `derive(Hash)` visits the same bytes in every release. Should this fail after a
    /// change of toolchain, all versions differ from those of older builds: proxies get every resource once more.
    #[test]
    fn hashing_is_stable() {
        #[derive(Hash)]
        enum Shape {
            _A,
            B(u16, Option<&'static str>, Vec<u64>),
        }
        let mut canonical = Canonical(Vec::new());
        Shape::B(258, Some("é"), vec![7]).hash(&mut canonical);
        let mut expected = vec![1, 0, 0, 0, 0, 0, 0, 0, 2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0xc3, 0xa9, 0xff];
        expected.extend([1, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(canonical.0, expected);
    }

    #[test]
    fn types_do_not_share_versions_of_parts() {
        let address: std::net::IpAddr = "2001:db8::1".parse().unwrap();
        let of = |address| version(ResourceType::Endpoints, &address);
        assert_ne!(of(address), of("2001:db8::2".parse().unwrap()));
        assert_eq!(of(address), of(address));
    }
}
