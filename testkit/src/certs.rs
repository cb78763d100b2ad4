//! Self-made authorities and the certificates that they sign: good ones and, on purpose, expired or mismatched ones.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use anyhow::Context as _;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
    SanType, date_time_ymd,
};
use rustls::client::Resumption;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring};
use rustls::{DigitallySignedStruct, SignatureScheme};
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};

/// What a certificate says; [`Leaf::server`] is the usual one.
#[derive(Debug, Clone)]
pub struct Leaf {
    /// Subject alternative names: DNS names (also wildcards) and IP addresses.
    pub names: Vec<String>,
    /// Subject alternative names of the form `spiffe://..`.
    pub uris: Vec<String>,
    /// When it begins to be valid; whole seconds.
    pub not_before: SystemTime,
    /// The last second of its validity.
    pub not_after: SystemTime,
}

impl Leaf {
    /// A certificate for these names that is valid until the year 2100.
    pub fn server(names: &[&str]) -> Self {
        Self {
            names: names.iter().map(ToString::to_string).collect(),
            uris: Vec::new(),
            not_before: date_time_ymd(2020, 1, 1).into(),
            not_after: date_time_ymd(2100, 1, 1).into(),
        }
    }

    /// The same, but expired since 2021.
    #[must_use]
    pub fn expired(mut self) -> Self {
        self.not_after = date_time_ymd(2021, 1, 1).into();
        self
    }

    /// The same, but valid no longer than for this time from now.
    #[must_use]
    pub fn expiring(mut self, within: Duration) -> Self {
        self.not_after = SystemTime::now() + within;
        self
    }
}

/// A certificate with its key.
#[derive(Debug, Clone)]
pub struct Pair {
    /// The certificate, PEM.
    pub certificate: String,
    /// The private key, PEM (PKCS #8, ECDSA P-256).
    pub key: String,
}

impl Pair {
    /// The certificate's bytes, to compare with what a server presented.
    ///
    /// # Errors
    /// When the text is not PEM, as after a test spoilt it.
    pub fn der(&self) -> anyhow::Result<CertificateDer<'static>> {
        CertificateDer::from_pem_slice(self.certificate.as_bytes()).context("certificate")
    }

    /// A `kubernetes.io/tls` Secret with this pair, as a manifest.
    pub fn secret(&self, namespace: &str, name: &str) -> String {
        format!(
            "apiVersion: v1\nkind: Secret\ntype: kubernetes.io/tls\nmetadata:\n  name: {name}\n  namespace: {namespace}\ndata:\n  tls.crt: {}\n  tls.key: {}\n",
            BASE64.encode(&self.certificate),
            BASE64.encode(&self.key),
        )
    }

    /// Server settings with this certificate, HTTP/2 and HTTP/1.1.
    ///
    /// # Errors
    /// When key and certificate do not match.
    pub fn server_config(&self) -> anyhow::Result<Arc<rustls::ServerConfig>> {
        let key = PrivateKeyDer::from_pem_slice(self.key.as_bytes()).context("private key")?;
        let mut config = rustls::ServerConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(vec![self.der()?], key)?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Arc::new(config))
    }
}

/// A certificate authority.
pub struct Authority {
    certificate: rcgen::Certificate,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    /// A new authority with a key of its own.
    ///
    /// # Errors
    /// When the machine has no randomness.
    pub fn new(name: &str) -> anyhow::Result<Self> {
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let certificate = params.self_signed(&key)?;
        Ok(Self { certificate, issuer: Issuer::new(params, key) })
    }

    /// The authority's certificate, PEM.
    pub fn pem(&self) -> String {
        self.certificate.pem()
    }

    /// Signs a certificate with a fresh key.
    ///
    /// # Errors
    /// When a name is neither a DNS name nor an address.
    pub fn issue(&self, leaf: &Leaf) -> anyhow::Result<Pair> {
        let mut params = CertificateParams::new(leaf.names.clone())?;
        for uri in &leaf.uris {
            params.subject_alt_names.push(SanType::URI(uri.as_str().try_into()?));
        }
        // The subject stays the same while names differ, so that nothing matches by accident of the common name.
        params.distinguished_name.push(DnType::CommonName, "portolan test");
        params.not_before = leaf.not_before.into();
        params.not_after = leaf.not_after.into();
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &self.issuer)?;
        Ok(Pair { certificate: certificate.pem(), key: key.serialize_pem() })
    }

    /// Signs a server certificate for these names.
    ///
    /// # Errors
    /// As [`Authority::issue`].
    pub fn server(&self, names: &[&str]) -> anyhow::Result<Pair> {
        self.issue(&Leaf::server(names))
    }

    /// Client settings that trust this authority alone, offer the given protocols (`h2`, `http/1.1`) and resume no session: a resumed one
    /// would show no certificate.
    ///
    /// # Errors
    /// When rustls has no cipher suite, which does not happen.
    pub fn client_config(&self, protocols: &[&str]) -> anyhow::Result<Arc<rustls::ClientConfig>> {
        let mut roots = rustls::RootCertStore::empty();
        roots.add(self.certificate.der().clone())?;
        let mut config = rustls::ClientConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = protocols.iter().map(|protocol| protocol.as_bytes().to_vec()).collect();
        config.resumption = Resumption::disabled();
        Ok(Arc::new(config))
    }
}

/// Client settings that take any certificate, as `curl -k` does: for the self-made ones of examples.
///
/// # Errors
/// When rustls has no cipher suite, which does not happen.
pub fn trust_anything(protocols: &[&str]) -> anyhow::Result<Arc<rustls::ClientConfig>> {
    let mut config = rustls::ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Anything(provider())))
        .with_no_client_auth();
    config.alpn_protocols = protocols.iter().map(|protocol| protocol.as_bytes().to_vec()).collect();
    Ok(Arc::new(config))
}

/// Checks that the peer has the certificate's key, and nothing about the certificate.
#[derive(Debug)]
struct Anything(Arc<CryptoProvider>);

impl ServerCertVerifier for Anything {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls12_signature(
            message,
            certificate,
            signature,
            &self.0.signature_verification_algorithms,
        )
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls13_signature(
            message,
            certificate,
            signature,
            &self.0.signature_verification_algorithms,
        )
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_of_another_certificate_is_refused() {
        let authority = Authority::new("test").unwrap();
        let a = authority.server(&["a.example"]).unwrap();
        let b = authority.server(&["b.example"]).unwrap();
        assert!(a.server_config().is_ok());
        let mixed = Pair { certificate: a.certificate, key: b.key };
        assert!(mixed.server_config().is_err());
    }

    #[test]
    fn a_secret_carries_the_pair() {
        let pair = Authority::new("test").unwrap().server(&["a.example"]).unwrap();
        let manifest = pair.secret("shop", "cert");
        let line = manifest.lines().find(|line| line.contains("tls.key")).unwrap();
        let encoded = line.split(": ").nth(1).unwrap();
        assert_eq!(BASE64.decode(encoded).unwrap(), pair.key.as_bytes());
    }
}
