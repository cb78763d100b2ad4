//! The authority behind the certificates of proxies and replicas, and its rotation.
//!
//! ```text
//! time ──▶        introduced      signs            dropped
//! old  ═══════════════╪═════════════╪─ ─ ─ ─ ─ ─ ─ ─ ┤        ═ signs   ─ is trusted only
//! new                 ├─ ─ ─ ─ ─ ─ ─╪═══════════════════
//!                     ◀─ a lifetime ─▶◀─ a lifetime ─▶         of a leaf
//! ```
//!
//! Nothing but the certificates' own dates says which of several signs and which are trusted, so that all replicas agree and no step can
//! be missed. Everybody has one lifetime of a leaf to learn of a new authority before it signs, and one more for the leaves of the old
//! one to run out.

use std::time::{Duration, UNIX_EPOCH};

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject as _;

/// How long things are valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lifetimes {
    /// Of an authority, at least eight leaves. A new one is introduced when half of it is over
    pub authority: Duration,
    /// Of a proxy's or replica's certificate; renewed when half of it is over. At least ten minutes: kubelet takes up to two to bring a
    /// changed Secret to a pod
    pub leaf: Duration,
}

/// The shortest lifetime of a leaf.
pub const SHORTEST_LEAF: Duration = Duration::from_mins(10);
/// An authority lives as long as so many leaves at least.
pub const LEAVES: u32 = 8;

impl Default for Lifetimes {
    fn default() -> Self {
        Self { authority: Duration::from_hours(2 * 365 * 24), leaf: Duration::from_hours(24) }
    }
}

impl Lifetimes {
    /// Bounded so that rotation can work: leaves of at least [`SHORTEST_LEAF`], authorities of at least [`LEAVES`] leaves.
    #[must_use]
    pub fn bounded(self) -> Self {
        let leaf = self.leaf.max(SHORTEST_LEAF);
        Self { leaf, authority: self.authority.max(leaf * LEAVES) }
    }

    fn leaf_seconds(self) -> i64 {
        seconds(self.leaf)
    }
}

/// Clocks of a cluster's nodes differ by this much at most; certificates begin to be valid so much earlier.
pub(crate) const SKEW: i64 = 300;

/// Why credentials could not be made or read.
#[derive(Debug, thiserror::Error)]
pub enum CredentialError {
    /// Of what the Secret holds
    #[error("the Secret with the authority cannot be used: {0}; delete it, and a new authority is made")]
    Stored(String),
    /// Of making a certificate
    #[error("a certificate cannot be made: {0}")]
    Making(#[from] rcgen::Error),
}

/// Makes a key: the one source of randomness.
pub type NewKey<'a> = &'a mut dyn FnMut() -> Result<KeyPair, rcgen::Error>;

/// One authority with its key.
struct Authority {
    certificate: String,
    key: KeyPair,
    common_name: String,
    /// When it was introduced, in seconds since the epoch
    introduced: i64,
    not_after: i64,
}

/// All authorities that count, the oldest first.
pub struct Authorities {
    all: Vec<Authority>,
}

impl std::fmt::Debug for Authorities {
    /// Without keys.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.all.iter().map(|authority| &authority.common_name)).finish()
    }
}

impl Authorities {
    /// A first authority.
    ///
    /// # Errors
    /// When the machine has no randomness.
    pub fn first(now: i64, lifetimes: Lifetimes, new_key: NewKey<'_>) -> Result<Self, CredentialError> {
        Ok(Self { all: vec![Authority::new(now, lifetimes, new_key()?)?] })
    }

    /// What [`Authorities::certificates`] and [`Authorities::keys`] gave: certificates and keys as PEM, in the same order.
    ///
    /// # Errors
    /// When they are not that.
    pub fn read(certificates: &[u8], keys: &[u8]) -> Result<Self, CredentialError> {
        let stored = |text: &str| CredentialError::Stored(text.to_owned());
        let keys = pem_blocks(keys).ok_or_else(|| stored("ca.key is no PEM"))?;
        let certificates = pem_blocks(certificates).ok_or_else(|| stored("ca.crt is no PEM"))?;
        if keys.len() != certificates.len() || keys.is_empty() {
            return Err(stored("ca.crt and ca.key must hold one key for each certificate"));
        }
        let all: Result<Vec<Authority>, CredentialError> =
            certificates.into_iter().zip(keys).map(|(certificate, key)| Authority::read(certificate, &key)).collect();
        let mut all = all?;
        all.sort_by_key(|authority| authority.introduced);
        Ok(Self { all })
    }

    /// Takes the step that is due, if any: drops who is no longer needed, introduces a new one where the newest is half through or where
    /// `rotate` asks for it. True: something changed, and the Secret has to be written.
    ///
    /// # Errors
    /// When the machine has no randomness.
    pub fn advance(
        &mut self,
        now: i64,
        lifetimes: Lifetimes,
        rotate: bool,
        new_key: NewKey<'_>,
    ) -> Result<bool, CredentialError> {
        let leaf = lifetimes.leaf_seconds();
        let before = self.all.len();
        // Everything that the one before it signed has run out.
        let kept = self.all.iter().rposition(|authority| authority.introduced + 2 * leaf <= now).unwrap_or(0);
        self.all.drain(..kept);
        let due = self.all.last().is_none_or(|newest| {
            let half = newest.introduced + (newest.not_after - newest.introduced) / 2;
            // Half of the shortest: where leaves are longer than they were, the next one is needed earlier.
            let needed = newest.not_after - leaf * i64::from(LEAVES / 2);
            rotate || half.min(needed) <= now
        });
        if due {
            self.all.push(Authority::new(now, lifetimes, new_key()?)?);
        }
        Ok(due || self.all.len() != before)
    }

    /// The certificates that are trusted, PEM, the oldest first: what proxies and replicas get.
    #[must_use]
    pub fn certificates(&self) -> String {
        self.all.iter().map(|authority| authority.certificate.as_str()).collect()
    }

    /// Their keys, in the same order.
    #[must_use]
    pub fn keys(&self) -> String {
        self.all.iter().map(|authority| authority.key.serialize_pem()).collect()
    }

    /// The newest one that everybody has had time to learn of; while there is none, the oldest that a shortest leaf does not outlive.
    fn signer(&self, now: i64, lifetimes: Lifetimes) -> Option<&Authority> {
        let known = |authority: &&Authority| authority.introduced + lifetimes.leaf_seconds() <= now;
        let lasts = |authority: &&Authority| now + seconds(SHORTEST_LEAF) <= authority.not_after;
        self.all.iter().rev().find(known).or_else(|| self.all.iter().find(lasts)).or_else(|| self.all.last())
    }

    /// The issuer of certificates that are made now, its name, and when it ends.
    pub(crate) fn issuer(
        &self,
        now: i64,
        lifetimes: Lifetimes,
    ) -> Result<(Issuer<'_, &KeyPair>, &str, i64), CredentialError> {
        let signer = self.signer(now, lifetimes).ok_or_else(|| CredentialError::Stored("it is empty".to_owned()))?;
        let params = parameters(&signer.common_name, signer.introduced, signer.not_after);
        Ok((Issuer::new(params, &signer.key), &signer.common_name, signer.not_after))
    }
}

impl Authority {
    fn new(now: i64, lifetimes: Lifetimes, key: KeyPair) -> Result<Self, CredentialError> {
        let not_after = now + seconds(lifetimes.authority);
        // Names differ, so that no verifier takes one authority for another.
        let common_name = format!("portolan {now}");
        let certificate = parameters(&common_name, now, not_after).self_signed(&key)?;
        Ok(Self { certificate: certificate.pem(), key, common_name, introduced: now, not_after })
    }

    fn read(certificate: String, key: &str) -> Result<Self, CredentialError> {
        let stored = |text: String| CredentialError::Stored(text);
        let key = KeyPair::from_pem(key).map_err(|error| stored(format!("ca.key: {error}")))?;
        let der = CertificateDer::from_pem_slice(certificate.as_bytes())
            .map_err(|error| stored(format!("ca.crt: {error}")))?;
        let (_, parsed) =
            x509_parser::parse_x509_certificate(&der).map_err(|error| stored(format!("ca.crt: {error}")))?;
        if parsed.public_key().subject_public_key.data != key.public_key_raw() {
            return Err(stored("a key in ca.key is not that of its certificate in ca.crt".to_owned()));
        }
        let common_name = parsed.subject().iter_common_name().next().and_then(|name| name.as_str().ok());
        let common_name = common_name.ok_or_else(|| stored("a certificate has no common name".to_owned()))?.to_owned();
        let validity = parsed.validity();
        let (introduced, not_after) = (validity.not_before.timestamp() + SKEW, validity.not_after.timestamp());
        Ok(Self { certificate, key, common_name, introduced, not_after })
    }
}

fn parameters(common_name: &str, introduced: i64, not_after: i64) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, common_name);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params.not_before = instant(introduced - SKEW).into();
    params.not_after = instant(not_after).into();
    params
}

pub(crate) fn instant(seconds: i64) -> std::time::SystemTime {
    UNIX_EPOCH + Duration::from_secs(seconds.try_into().unwrap_or(0))
}

pub(crate) fn seconds(duration: Duration) -> i64 {
    duration.as_secs().try_into().unwrap_or(i64::MAX / 4)
}

/// The blocks of a PEM text, each with its markers.
fn pem_blocks(text: &[u8]) -> Option<Vec<String>> {
    let text = std::str::from_utf8(text).ok()?;
    let end = "-----END ";
    let mut blocks = Vec::new();
    let mut block = String::new();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        block.push_str(line);
        block.push('\n');
        if line.starts_with(end) {
            blocks.push(std::mem::take(&mut block));
        }
    }
    block.is_empty().then_some(blocks)
}
