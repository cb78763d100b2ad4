//! A version as it stands on the wire: `HASH`, or `HASH+gN` for the Nth forced re-send on a stream.
//!
//! Only HASH says what the content is (design invariant 6), so only HASH is compared when a proxy reports what it has. The suffix keeps
//! a forced re-send from looking like something that the proxy holds already.

use portolan_proto::Version;

/// The wire form of `version`; `generation` is given for a forced re-send.
pub(crate) fn write(version: Version, generation: Option<u32>) -> String {
    match generation {
        Some(generation) => format!("{version}+g{generation}"),
        None => version.to_string(),
    }
}

/// The hash in a wire version. `None` when another control plane, or another release, wrote it.
pub(crate) fn read(text: &str) -> Option<Version> {
    let hash = text.split('+').next()?;
    let is_ours = hash.len() == 32 && hash.bytes().all(|byte| byte.is_ascii_hexdigit());
    if is_ours { u128::from_str_radix(hash, 16).ok().map(Version) } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_hash_is_compared() {
        let version = Version(0xabc);
        assert_eq!(read(&write(version, None)), Some(version));
        assert_eq!(read(&write(version, Some(7))), Some(version));
        assert_eq!(read("1"), None);
        assert_eq!(read("+00000000000000000000000000000abc"), None);
    }
}
