//! Certificates as SDS delivers them.

use portolan_model::NamespacedName;
use portolan_model::ir::{SecretPlan, SecretState};
use portolan_model::objects::Secret;

use crate::{World, certificate};

/// The certificate under this name. One that cannot be used is held: proxies keep what they have (design invariant 6).
pub fn plan(world: &dyn World, name: &NamespacedName) -> SecretPlan {
    let usable = |secret: &Secret| {
        let certificate = certificate::read(secret)?;
        certificate.validity.check(world)?;
        Ok::<_, String>(certificate)
    };
    let state = match world.secret(name).map(|secret| usable(&secret)) {
        Some(Ok(certificate)) => {
            SecretState::Usable { certificate_chain: certificate.chain, private_key: certificate.private_key }
        }
        Some(Err(_)) | None => SecretState::Held,
    };
    SecretPlan { name: name.clone(), state }
}
