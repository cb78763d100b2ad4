//! Encoding epochs: how a new build says that it encodes the same plans differently.
//!
//! A version is a hash of a plan and of its type's epoch, so builds agree on versions as long as they agree on epochs. The number of
//! a type moves when the bytes for the same plan do, and only then: proxies then get each resource of that type once more after an
//! upgrade, which for listeners and clusters is no small thing.
//!
//! `testdata/epochs.txt` holds the digest of every golden at every epoch. A test fails when a golden's bytes have moved without the
//! epoch, or the epoch without any golden.

use portolan_proto::ResourceType;

/// The epoch of a type of resources.
#[must_use]
pub const fn epoch(kind: ResourceType) -> u32 {
    match kind {
        ResourceType::Cluster => 1,
        ResourceType::Endpoints => 1,
        ResourceType::Secret => 1,
        ResourceType::Scope => 1,
        ResourceType::Route => 1,
        ResourceType::Extension => 1,
        ResourceType::Listener => 1,
    }
}
