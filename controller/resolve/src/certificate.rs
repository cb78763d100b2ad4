//! Whether a Secret holds a certificate that Envoy can serve.
//!
//! Envoy takes a chain in PEM, RSA keys of 2,048 bits or more and ECDSA keys on P-256, P-384 and P-521, and refuses a key that is not
//! the certificate's; one refused Secret must not reach it (design invariant 6). Dates are judged apart, by [`Validity`]: they depend on the time as well.

use std::sync::Arc;

use portolan_model::Name;
use portolan_model::objects::Secret;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use x509_parser::prelude::{FromDer, GeneralName, X509Certificate};
use x509_parser::public_key::PublicKey;

use crate::validity::Validity;

/// The type of Secret that the Gateway API's `certificateRefs` mean.
const SECRET_TYPE: &str = "kubernetes.io/tls";
const CHAIN: &str = "tls.crt";
const KEY: &str = "tls.key";

/// Object identifiers of the curves that Envoy serves: P-256, P-384, P-521.
const CURVES: [&str; 3] = ["1.2.840.10045.3.1.7", "1.3.132.0.34", "1.3.132.0.35"];
const SMALLEST_RSA_BITS: usize = 2048;
const LARGEST_RSA_BITS_OF_RING: usize = 4096;

/// A certificate with its key, checked but for its dates.
pub(crate) struct Certificate {
    pub chain: Arc<[u8]>,
    pub private_key: Arc<[u8]>,
    /// Names of the leaf, lower-case, sorted
    pub dns_names: Vec<Name>,
    pub validity: Validity,
}

/// The certificate of a Secret, or what is wrong with it, as the end of a sentence about the Secret.
pub(crate) fn read(secret: &Secret) -> Result<Certificate, String> {
    if &*secret.kind != SECRET_TYPE {
        return Err(format!("is of type {}; it must be of type {SECRET_TYPE}", secret.kind));
    }
    let entry = |key: &str| secret.data.get(key).cloned().ok_or_else(|| format!("has no {key}"));
    let (chain, private_key) = (without_private_keys(entry(CHAIN)?), entry(KEY)?);
    let leaf = leaf(&chain)?;
    let (_, parsed) = X509Certificate::from_der(&leaf).map_err(|_| format!("has no valid certificate in {CHAIN}"))?;
    check_strength(&parsed)?;
    check_key(&parsed, &private_key)?;
    Ok(Certificate { chain, private_key, dns_names: dns_names(&parsed), validity: Validity::of(&parsed) })
}

/// Files that hold chain and key are widespread, and Envoy takes them as a chain; but a chain is no secret: it stands in Envoy's and
/// Portolan's configuration dumps.
fn without_private_keys(chain: Arc<[u8]>) -> Arc<[u8]> {
    let holds = |line: &[u8], text: &[u8]| line.windows(text.len()).any(|part| part == text);
    let mut within = false;
    let mut rest = Vec::with_capacity(chain.len());
    for line in chain.split_inclusive(|byte| matches!(byte, b'\n' | b'\r')) {
        within |= holds(line, b"-----BEGIN ") && holds(line, b"PRIVATE KEY");
        if !within {
            rest.extend_from_slice(line);
        }
        within &= !holds(line, b"-----END ");
    }
    if rest.len() == chain.len() { chain } else { rest.into() }
}

/// The first certificate of a chain of which every member must be readable.
fn leaf(chain: &[u8]) -> Result<CertificateDer<'static>, String> {
    let unreadable = |what: &str| format!("has a {CHAIN} that {what}; it must be a chain of certificates in PEM");
    let mut leaf = None;
    for certificate in CertificateDer::pem_slice_iter(chain) {
        let certificate = certificate.map_err(|_| unreadable("is not valid PEM"))?;
        if X509Certificate::from_der(&certificate).is_err() {
            return Err(unreadable("holds something other than certificates"));
        }
        leaf.get_or_insert(certificate);
    }
    leaf.ok_or_else(|| unreadable("holds no certificate"))
}

fn check_strength(leaf: &X509Certificate<'_>) -> Result<(), String> {
    let public_key = leaf.public_key();
    match public_key.parsed() {
        Ok(PublicKey::RSA(key)) if bits(key.modulus) < SMALLEST_RSA_BITS => Err(format!(
            "has a certificate with an RSA key of {} bits; at least {SMALLEST_RSA_BITS} are needed",
            bits(key.modulus)
        )),
        Ok(PublicKey::RSA(_)) => Ok(()),
        Ok(PublicKey::EC(_)) => {
            let curve = public_key.algorithm.parameters.as_ref().and_then(|parameters| parameters.as_oid().ok());
            let known = curve.is_some_and(|curve| CURVES.contains(&curve.to_id_string().as_str()));
            known.then_some(()).ok_or_else(|| "has a certificate on a curve other than P-256, P-384 and P-521".into())
        }
        _ => Err("has a certificate whose key is neither RSA nor ECDSA".into()),
    }
}

/// The length of a number in bits; the parser counts in whole bytes.
fn bits(number: &[u8]) -> usize {
    let mut significant = number.iter().skip_while(|byte| **byte == 0);
    let first = significant.next().map_or(0, |byte| u8::BITS - byte.leading_zeros());
    first as usize + significant.count() * 8
}

fn check_key(leaf: &X509Certificate<'_>, private_key: &[u8]) -> Result<(), String> {
    let key = PrivateKeyDer::from_pem_slice(private_key)
        .map_err(|_| format!("has a {KEY} without an unencrypted private key in PEM"))?;
    // What ring does not read (P-521, RSA above 4,096 bits) is left to Envoy.
    let Ok(key) = rustls::crypto::ring::sign::any_supported_type(&key) else {
        return if is_beyond_ring(leaf) { Ok(()) } else { Err(format!("has a {KEY} that is not a valid private key")) };
    };
    match key.public_key() {
        Some(public_key) if public_key.as_ref() != leaf.public_key().raw => {
            Err("has a private key that is not the certificate's".into())
        }
        _ => Ok(()),
    }
}

fn is_beyond_ring(leaf: &X509Certificate<'_>) -> bool {
    match leaf.public_key().parsed() {
        Ok(PublicKey::RSA(key)) => bits(key.modulus) > LARGEST_RSA_BITS_OF_RING,
        Ok(PublicKey::EC(point)) => point.key_size() > 384,
        _ => false,
    }
}

/// The DNS names among the subject's alternative names or, where there are none, the common name: what Envoy selects by.
fn dns_names(leaf: &X509Certificate<'_>) -> Vec<Name> {
    let alternative = leaf.subject_alternative_name().ok().flatten();
    let mut names: Vec<Name> = alternative
        .iter()
        .flat_map(|extension| &extension.value.general_names)
        .filter_map(|name| match name {
            GeneralName::DNSName(name) => Some(Name::from(name.to_ascii_lowercase())),
            _ => None,
        })
        .collect();
    if alternative.is_none() {
        let common = leaf.subject().iter_common_name().filter_map(|name| name.as_str().ok());
        names.extend(common.map(|name| Name::from(name.to_ascii_lowercase())));
    }
    names.sort_unstable();
    names.dedup();
    names
}

#[cfg(test)]
mod tests {
    use super::*;
    use portolan_model::NamespacedName;
    use portolan_model::objects::Meta;

    /// Self-signed, 2,047 bits.
    const RSA_2047: &str = "\
-----BEGIN CERTIFICATE-----
MIIDBDCCAeygAwIBAgIUG5aQV+5uP1Ct3YDW1fOxh+YAFREwDQYJKoZIhvcNAQEL
BQAwETEPMA0GA1UEAwwGYS50ZXN0MCAXDTI2MTEzMDE5MjQ0M1oYDzIxMjYxMTA2
MTkyNDQzWjARMQ8wDQYDVQQDDAZhLnRlc3QwggEhMA0GCSqGSIb3DQEBAQUAA4IB
DgAwggEJAoIBAGriwZ8jI6S5h6jeOLdPWOnDzmKTNcQPQ4zau0SdXgNxuxLnWVrn
6Pcov5HDUyibRphtwsEPYCTEf4cdrHBSGYHYTG3F/SgDhxmh4+p3V4tWzdcflfX/
G7aayC4QDjax9s+vsju2cCgCPj0s20CJhMaPRMuISeqA7+i09Z+/7efJiYjW2IIi
DqxbX6RMXo4b8HBkRL2kwjTgmS9rzCQ9rFavj44c2bdZf+hydJtgBmo4OSCdXD2b
dnzFHmUqSCSqvy2na/siAGrLrFIEUn79hlgSFQbjG1iEI1c3s93U+Aq42R/WGIl0
Q+dHJi8etwNkxae+DbswjHXS4DRVeuSmFRsCAwEAAaNTMFEwHQYDVR0OBBYEFK1F
Rr/xlbYkYj+3LxN4x/b7B17KMB8GA1UdIwQYMBaAFK1FRr/xlbYkYj+3LxN4x/b7
B17KMA8GA1UdEwEB/wQFMAMBAf8wDQYJKoZIhvcNAQELBQADggEBAA+PQnSezC1Y
0bj7r30CZlv9MlWkpJC62BTfIl9/LDPCKCyZd98+KxvD3us+GTMKVwOLaeQMPGvQ
f9LM5JcMIFpqg0zrQe7nPrv21WVMDazsHqroxI2X4Xwr6TwvoJTR6TFLwLg6l+M4
cPgBOvSCCMF9Qn33b2bONlgfxDzXo1ue9TonPPhOombF7Rl/gr9Ieuk2Ln+F9mSR
JhaIz5V8TbtZDbVOIUJ8bP3xqc+iB/b3nqn/yS3M8skgkx5ZoSWw1ZjwLMpYGqcZ
XHhM3Rc+xODkOEuK7IW46AtIk7TUmS2y+76zVJeosMRhPG/6yv6A4/wMc0z4uwah
Yr3ObYu7ST8=
-----END CERTIFICATE-----";

    fn secret(kind: &str, data: &[(&str, &str)]) -> Secret {
        Secret {
            meta: Meta { created: 0, name: NamespacedName::new("n", "s") },
            kind: kind.into(),
            data: data.iter().map(|(key, value)| (Name::from(*key), Arc::from(value.as_bytes()))).collect(),
        }
    }

    fn pair(algorithm: &'static rcgen::SignatureAlgorithm, names: &[&str]) -> (String, String) {
        let key = rcgen::KeyPair::generate_for(algorithm).unwrap();
        let names: Vec<String> = names.iter().map(ToString::to_string).collect();
        let certificate = rcgen::CertificateParams::new(names).unwrap().self_signed(&key).unwrap();
        (certificate.pem(), key.serialize_pem())
    }

    fn problem(secret: &Secret) -> String {
        read(secret).err().unwrap_or_default()
    }

    #[test]
    fn a_matching_pair_is_usable_and_gives_its_names() {
        for algorithm in [&rcgen::PKCS_ECDSA_P256_SHA256, &rcgen::PKCS_ECDSA_P384_SHA384] {
            let (chain, key) = pair(algorithm, &["B.test", "*.a.test", "b.test"]);
            let read = read(&secret(SECRET_TYPE, &[(CHAIN, &chain), (KEY, &key)])).ok().unwrap();
            assert_eq!(read.dns_names, [Name::from("*.a.test"), "b.test".into()]);
            assert_eq!(&*read.chain, chain.as_bytes());
        }
    }

    #[test]
    fn a_key_that_is_too_short_is_named_by_its_length() {
        let secret = secret(SECRET_TYPE, &[(CHAIN, RSA_2047), (KEY, RSA_2047)]);
        assert!(problem(&secret).contains("an RSA key of 2047 bits"), "{}", problem(&secret));
        for (number, expected) in [
            (&[][..], 0),
            (&[0, 0], 0),
            (&[1], 1),
            (&[0, 0x80], 8),
            (&[0x7f, 0xff], 15),
            (&[0, 0x80, 0], 16),
            (&[1, 0, 0], 17),
        ] {
            assert_eq!(bits(number), expected, "{number:?}");
        }
    }

    #[test]
    fn a_private_key_beside_the_chain_stays_private() {
        let (chain, key) = pair(&rcgen::PKCS_ECDSA_P256_SHA256, &["a.test"]);
        let unfinished = key.lines().take(2).collect::<Vec<_>>().join("\n");
        for mixed in [
            format!("{key}{chain}"),
            format!("{chain}{key}"),
            format!("{}{chain}", key.replace('\n', "\r\n")),
            format!("{}{chain}", key.replace("PRIVATE KEY", "EC PRIVATE KEY")),
            format!("{chain}{unfinished}"),
        ] {
            let read = read(&secret(SECRET_TYPE, &[(CHAIN, &mixed), (KEY, &key)])).ok().unwrap();
            assert_eq!(String::from_utf8_lossy(&read.chain).trim_start(), chain, "{mixed}");
        }
    }

    #[test]
    fn what_envoy_refuses_is_refused_with_what_is_wrong() {
        let (chain, key) = pair(&rcgen::PKCS_ECDSA_P256_SHA256, &["a.test"]);
        let (other, _) = pair(&rcgen::PKCS_ECDSA_P256_SHA256, &["a.test"]);
        let (edwards, edwards_key) = pair(&rcgen::PKCS_ED25519, &["a.test"]);
        let broken = format!("{chain}-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n");
        for (secret, expected) in [
            (secret("Opaque", &[(CHAIN, &chain), (KEY, &key)]), "is of type Opaque"),
            (secret(SECRET_TYPE, &[(KEY, &key)]), "has no tls.crt"),
            (secret(SECRET_TYPE, &[(CHAIN, &chain)]), "has no tls.key"),
            (secret(SECRET_TYPE, &[(CHAIN, "Hello world\n"), (KEY, "Hello world\n")]), "holds no certificate"),
            (secret(SECRET_TYPE, &[(CHAIN, &broken), (KEY, &key)]), "something other than certificates"),
            (secret(SECRET_TYPE, &[(CHAIN, &chain), (KEY, &chain)]), "without an unencrypted private key"),
            (secret(SECRET_TYPE, &[(CHAIN, &other), (KEY, &key)]), "is not the certificate's"),
            (secret(SECRET_TYPE, &[(CHAIN, &edwards), (KEY, &edwards_key)]), "neither RSA nor ECDSA"),
        ] {
            assert!(problem(&secret).contains(expected), "{expected}: {}", problem(&secret));
        }
    }
}
