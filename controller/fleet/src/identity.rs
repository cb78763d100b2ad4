//! Certificates that say who somebody is: fleets to Portolan, replicas of Portolan to proxies.

use portolan_model::NamespacedName;
use rcgen::{CertificateParams, DnType, ExtendedKeyUsagePurpose, SanType};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject as _;
use x509_parser::extensions::GeneralName;

use crate::authority::{Authorities, CredentialError, Lifetimes, NewKey, SKEW, instant, seconds};

/// The trust domain of SPIFFE names.
pub const TRUST_DOMAIN: &str = "portolan.dev";

/// Who a proxy is: one identity for all proxies of a Gateway, and another one for the next Gateway of its name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Identity {
    pub gateway: NamespacedName,
    /// Of the Gateway. Whoever lets a proxy in has to compare it with that of the Gateway that is there
    pub uid: String,
}

impl Identity {
    /// `spiffe://portolan.dev/ns/NS/fleet/NAME/UID`
    #[must_use]
    pub fn uri(&self) -> String {
        let Self { gateway, uid } = self;
        format!("spiffe://{TRUST_DOMAIN}/ns/{}/fleet/{}/{uid}", gateway.namespace, gateway.name)
    }

    /// Reads what [`Identity::uri`] writes, and nothing else.
    #[must_use]
    pub fn of_uri(uri: &str) -> Option<Self> {
        let path = uri.strip_prefix("spiffe://")?.strip_prefix(TRUST_DOMAIN)?;
        let parts: Vec<&str> = path.split('/').collect();
        let ["", "ns", namespace, "fleet", name, uid] = parts[..] else { return None };
        let complete = !namespace.is_empty() && !name.is_empty() && !uid.is_empty();
        complete.then(|| Self { gateway: NamespacedName::new(namespace, name), uid: uid.to_owned() })
    }

    /// Whose certificate it is that a peer has shown (DER), its chain and dates checked by TLS before: the one URI among its names must be
    /// a fleet's (SPIFFE X.509-SVID 2: "exactly one URI SAN"). The name of the server in Portolan's own certificates is no URI, so
    /// a replica is never taken for a proxy.
    #[must_use]
    pub fn of_certificate(der: &[u8]) -> Option<Self> {
        let (_, certificate) = x509_parser::parse_x509_certificate(der).ok()?;
        let names = certificate.subject_alternative_name().ok()??;
        let mut uris = names.value.general_names.iter().filter_map(|name| match name {
            GeneralName::URI(uri) => Some(*uri),
            _ => None,
        });
        match (uris.next(), uris.next()) {
            (Some(uri), None) => Self::of_uri(uri),
            _ => None,
        }
    }
}

/// A certificate with its key, PEM.
#[derive(Clone, PartialEq, Eq)]
pub struct Leaf {
    pub certificate: String,
    pub key: String,
    /// The last second of its validity
    pub not_after: i64,
    /// When to make the next one: half of its life is over
    pub renew_at: i64,
}

impl std::fmt::Debug for Leaf {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Leaf").field("not_after", &self.not_after).finish_non_exhaustive()
    }
}

impl Authorities {
    /// A certificate for a replica of Portolan under these DNS names. To be made anew when [`Leaf::renew_at`] has come.
    ///
    /// # Errors
    /// When a name is none, or the machine has no randomness.
    pub fn server(
        &self,
        names: &[String],
        now: i64,
        lifetimes: Lifetimes,
        new_key: NewKey<'_>,
    ) -> Result<Leaf, CredentialError> {
        let mut params = CertificateParams::new(names.to_vec())?;
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        self.leaf(params, "portolan", now, lifetimes, new_key)
    }

    /// A certificate for the proxies of a fleet.
    ///
    /// # Errors
    /// As [`Authorities::server`].
    pub fn client(
        &self,
        identity: &Identity,
        now: i64,
        lifetimes: Lifetimes,
        new_key: NewKey<'_>,
    ) -> Result<Leaf, CredentialError> {
        let mut params = CertificateParams::default();
        params.subject_alt_names = vec![SanType::URI(identity.uri().try_into()?)];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        self.leaf(params, "portolan-proxy", now, lifetimes, new_key)
    }

    fn leaf(
        &self,
        mut params: CertificateParams,
        common_name: &str,
        now: i64,
        lifetimes: Lifetimes,
        new_key: NewKey<'_>,
    ) -> Result<Leaf, CredentialError> {
        let (issuer, _, issuer_ends) = self.issuer(now, lifetimes)?;
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, common_name);
        params.use_authority_key_identifier_extension = true;
        let not_after = (now + seconds(lifetimes.leaf)).min(issuer_ends);
        params.not_before = instant(now - SKEW).into();
        params.not_after = instant(not_after).into();
        let key = new_key()?;
        let certificate = params.signed_by(&key, &issuer)?;
        let renew_at = half(now, not_after);
        Ok(Leaf { certificate: certificate.pem(), key: key.serialize_pem(), not_after, renew_at })
    }

    /// Whether a fleet's certificate (PEM) is still good: that of this identity, from the authority that signs now, not yet half
    /// through, and no longer than those that are made now (clocks apart).
    #[must_use]
    pub fn is_current(&self, certificate: &[u8], identity: &Identity, now: i64, lifetimes: Lifetimes) -> bool {
        let Ok(der) = CertificateDer::from_pem_slice(certificate) else { return false };
        let Ok((_, parsed)) = x509_parser::parse_x509_certificate(&der) else { return false };
        let Ok((_, signer, _)) = self.issuer(now, lifetimes) else { return false };
        let issuer = parsed.issuer().iter_common_name().next().and_then(|name| name.as_str().ok());
        let validity = parsed.validity();
        let (issued, not_after) = (validity.not_before.timestamp() + SKEW, validity.not_after.timestamp());
        let lasts = now < half(issued, not_after) && not_after <= now + seconds(lifetimes.leaf) + SKEW;
        issuer == Some(signer) && lasts && Identity::of_certificate(&der).as_ref() == Some(identity)
    }
}

const fn half(issued: i64, not_after: i64) -> i64 {
    issued + (not_after - issued) / 2
}
