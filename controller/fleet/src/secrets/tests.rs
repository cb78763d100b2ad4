use std::time::Duration;

use portolan_engine::FleetIntent;
use portolan_model::NamespacedName;
use rcgen::KeyPair;
use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::WebPkiClientVerifier;

use super::*;
use crate::identity::Leaf;

const START: i64 = 1_800_000_000;
const MINUTE: i64 = 60;
const LEAF: i64 = 10 * MINUTE;

fn lifetimes() -> Lifetimes {
    Lifetimes { authority: Duration::from_mins(80), leaf: Duration::from_mins(10) }
}

fn key() -> Result<KeyPair, rcgen::Error> {
    KeyPair::generate()
}

fn step(existing: Option<&Value>, now: i64) -> AuthorityAction {
    look_after_authority(existing, "portolan-system", now, lifetimes(), &mut key).unwrap()
}

fn created(now: i64) -> Value {
    match step(None, now) {
        AuthorityAction::Create(secret) => secret,
        other => panic!("{other:?}"),
    }
}

/// One look at the Secret, as the lease holder takes it.
fn look(secret: &mut Value, now: i64) -> Authorities {
    match step(Some(secret), now) {
        AuthorityAction::Keep(all) => all,
        AuthorityAction::Update(updated, all) => {
            *secret = updated;
            all
        }
        AuthorityAction::Create(_) => panic!("replaced"),
    }
}

struct Proxy {
    gateway: NamespacedName,
    intent: FleetIntent,
    secret: Option<Value>,
}

impl Proxy {
    fn new(name: &str) -> Self {
        Self { gateway: NamespacedName::new("infra", name), intent: FleetIntent::default(), secret: None }
    }

    /// True: there was something to write.
    fn renew(&mut self, authorities: &Authorities, now: i64) -> bool {
        let fleet = ManagedFleet { gateway: &self.gateway, uid: "3f1c", intent: &self.intent };
        let new = identity_secret(fleet, self.secret.as_ref(), authorities, now, lifetimes(), &mut key).unwrap();
        let wrote = new.is_some();
        self.secret = new.or(self.secret.take());
        wrote
    }

    fn pem(&self, key: &str) -> Vec<u8> {
        data(self.secret.as_ref().unwrap(), key).unwrap()
    }
}

fn ring() -> std::sync::Arc<rustls::crypto::CryptoProvider> {
    std::sync::Arc::new(rustls::crypto::ring::default_provider())
}

fn roots(bundle: &[u8]) -> std::sync::Arc<RootCertStore> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(bundle) {
        roots.add(certificate.unwrap()).unwrap();
    }
    std::sync::Arc::new(roots)
}

/// Whether a replica that trusts `bundle` takes the proxy's certificate, and the other way round.
fn both_trust(server_bundle: &str, proxy: &Proxy, server: &Leaf, now: i64) -> bool {
    let now = UnixTime::since_unix_epoch(Duration::from_secs(now.try_into().unwrap()));
    let client = CertificateDer::from_pem_slice(&proxy.pem("tls.crt")).unwrap();
    let verifier =
        WebPkiClientVerifier::builder_with_provider(roots(server_bundle.as_bytes()), ring()).build().unwrap();
    let server_certificate = CertificateDer::from_pem_slice(server.certificate.as_bytes()).unwrap();
    let server_verifier =
        rustls::client::WebPkiServerVerifier::builder_with_provider(roots(&proxy.pem("ca.crt")), ring())
            .build()
            .unwrap();
    let name = ServerName::try_from("portolan.system.svc").unwrap();
    use rustls::client::danger::ServerCertVerifier as _;
    verifier.verify_client_cert(&client, &[], now).is_ok()
        && server_verifier.verify_server_cert(&server_certificate, &[], &name, &[], now).is_ok()
}

/// Replicas look once a minute; what they write reaches proxies only some minutes later. Three rotations in a row, and at no time does
/// anybody refuse anybody.
#[test]
fn rotation_interrupts_nobody() {
    let mut secret = created(START);
    let names = ["portolan.system.svc".to_owned()];
    let mut authorities = look(&mut secret, START);
    let mut proxy = Proxy::new("edge");
    proxy.renew(&authorities, START);
    let mut server = authorities.server(&names, START, lifetimes(), &mut key).unwrap();
    // What is in use lags behind what is written.
    let mut seen: Vec<(i64, Value)> = vec![(START, proxy.secret.clone().unwrap())];
    let mut most = 0;
    let mut names_seen = std::collections::BTreeSet::new();
    for minute in 0..240 {
        let now = START + minute * MINUTE;
        if [20, 25, 90].contains(&minute) {
            secret["metadata"]["annotations"][ROTATE] = json!(minute.to_string());
        }
        authorities = look(&mut secret, now);
        most = most.max(authorities.certificates().matches("BEGIN").count());
        names_seen.insert(format!("{authorities:?}"));
        if now >= server.renew_at {
            server = authorities.server(&names, now, lifetimes(), &mut key).unwrap();
        }
        if proxy.renew(&authorities, now) {
            seen.push((now, proxy.secret.clone().unwrap()));
        }
        // Kubelet brings a changed Secret within two minutes.
        let held = seen.iter().rev().find(|(written, _)| *written <= now - 2 * MINUTE).or(seen.first()).unwrap();
        let old = Proxy { secret: Some(held.1.clone()), ..Proxy::new("edge") };
        assert!(both_trust(&authorities.certificates(), &old, &server, now), "minute {minute}: {authorities:?}");
    }
    assert!((2..=4).contains(&most), "{most}");
    assert!(names_seen.len() >= 8, "{names_seen:?}");
    assert_eq!(authorities.certificates().matches("BEGIN").count(), 1);
}

/// Settings change: certificates come to be as they say, and no authority signs beyond its own end.
#[test]
fn lifetimes_that_change_are_followed() {
    let long = Lifetimes { authority: Duration::from_hours(24 * 365), leaf: Duration::from_hours(24) };
    let identity = Identity { gateway: NamespacedName::new("infra", "edge"), uid: "3f1c".into() };
    // Longer, with an authority that lasts less than a leaf.
    let mut secret = created(START);
    let mut leaf = look(&mut secret, START).client(&identity, START, lifetimes(), &mut key).unwrap();
    let (mut made, mut trusted_alone) = (0, true);
    for minute in 0..72 * 60 {
        let now = START + minute * MINUTE;
        let action = look_after_authority(Some(&secret), "portolan-system", now, long, &mut key).unwrap();
        let authorities = match action {
            AuthorityAction::Update(updated, all) => {
                secret = updated;
                all
            }
            AuthorityAction::Keep(all) => all,
            AuthorityAction::Create(_) => panic!("replaced"),
        };
        trusted_alone = authorities.certificates().matches("BEGIN").count() == 1;
        if !authorities.is_current(leaf.certificate.as_bytes(), &identity, now, long) {
            leaf = authorities.client(&identity, now, long, &mut key).unwrap();
            made += 1;
        }
        assert!(leaf.not_after >= now + 5 * MINUTE, "minute {minute}: {leaf:?}");
        let (_, _, ends) = authorities.issuer(now, long).unwrap();
        assert!(ends >= now + LEAF, "minute {minute}: an authority signs that has ended");
    }
    assert!((4..12).contains(&made) && trusted_alone, "{made}");

    // Shorter: one that lasts longer is replaced.
    let end = START + 72 * 60 * MINUTE;
    let authorities = look(&mut secret, end);
    let day = authorities.client(&identity, end, long, &mut key).unwrap();
    assert!(authorities.is_current(day.certificate.as_bytes(), &identity, end, long));
    assert!(!authorities.is_current(day.certificate.as_bytes(), &identity, end, lifetimes()));
}

#[test]
fn the_authority_is_created_and_never_replaced() {
    let mut secret = created(START);
    let first = look(&mut secret, START).certificates();
    assert_eq!(look(&mut secret, START + MINUTE).certificates(), first);
    assert!(matches!(step(Some(&secret), START + MINUTE), AuthorityAction::Keep(_)));
    for broken in [json!({}), json!({"ca.crt": secret["data"]["ca.crt"]}), created(START)["data"].clone()] {
        let mut other = secret.clone();
        other["data"]["ca.key"] = broken["ca.key"].clone();
        let result = look_after_authority(Some(&other), "portolan-system", START, lifetimes(), &mut key);
        assert!(matches!(result, Err(CredentialError::Stored(_))), "{result:?}");
    }
}

/// A new authority is trusted for one lifetime of a leaf before it signs, and the old one for one more after that.
#[test]
fn old_and_new_overlap_for_two_lifetimes() {
    let mut secret = created(START);
    secret["metadata"]["annotations"][ROTATE] = json!("now");
    let begun = START + LEAF;
    let count = |secret: &mut Value, now| look(secret, now).certificates().matches("BEGIN").count();
    assert_eq!(count(&mut secret, begun), 2);
    let issuer = |secret: &mut Value, now| {
        look(secret, now).issuer(now, lifetimes()).map(|(_, name, _)| name.to_owned()).unwrap()
    };
    assert_eq!(issuer(&mut secret, begun + LEAF - 1), format!("portolan {START}"));
    assert_eq!(issuer(&mut secret, begun + LEAF), format!("portolan {begun}"));
    assert_eq!(count(&mut secret, begun + 2 * LEAF - 1), 2);
    assert_eq!(count(&mut secret, begun + 2 * LEAF), 1);
}

#[test]
fn a_fleet_keeps_its_certificate_until_half_of_it_is_over() {
    let mut secret = created(START);
    let authorities = look(&mut secret, START);
    let mut proxy = Proxy::new("edge");
    assert!(proxy.renew(&authorities, START));
    assert!(!proxy.renew(&authorities, START + LEAF / 2 - 1));
    assert!(proxy.renew(&authorities, START + LEAF / 2));
    let certificate = proxy.pem("tls.crt");
    // Another Gateway of the name is another fleet.
    let fleet = ManagedFleet { gateway: &proxy.gateway, uid: "other", intent: &proxy.intent };
    let now = START + LEAF / 2;
    let other = identity_secret(fleet, proxy.secret.as_ref(), &authorities, now, lifetimes(), &mut key).unwrap();
    assert_ne!(data(&other.unwrap(), "tls.crt").unwrap(), certificate);
}

#[test]
fn peers_are_told_apart() {
    let mut secret = created(START);
    let authorities = look(&mut secret, START);
    let identity = Identity { gateway: NamespacedName::new("infra", "edge.test"), uid: "3f1c".into() };
    assert_eq!(identity.uri(), "spiffe://portolan.dev/ns/infra/fleet/edge.test/3f1c");
    let der = |leaf: &Leaf| CertificateDer::from_pem_slice(leaf.certificate.as_bytes()).unwrap();
    let client = authorities.client(&identity, START, lifetimes(), &mut key).unwrap();
    assert_eq!(Identity::of_certificate(&der(&client)), Some(identity));
    let server = authorities.server(&["portolan.system.svc".into()], START, lifetimes(), &mut key).unwrap();
    assert_eq!(Identity::of_certificate(&der(&server)), None);
    assert_eq!(Identity::of_certificate(b"garbage"), None);
    for uri in [
        "spiffe://portolan.dev/ns/infra/fleet/edge",
        "spiffe://portolan.dev/ns//fleet/edge/1",
        "spiffe://portolan.dev/ns/a/fleet/b/1/2",
        "spiffe://portolan.dev.evil/ns/a/fleet/b/1",
        "spiffe://evil/ns/a/fleet/b/1",
        "https://portolan.dev/ns/a/fleet/b/1",
    ] {
        assert_eq!(Identity::of_uri(uri), None, "{uri}");
    }
}

/// Ten minutes of a leaf, in which a stream has to end before its certificate does.
#[test]
fn lifetimes_have_a_floor() {
    let short = Lifetimes { authority: Duration::from_secs(1), leaf: Duration::from_secs(1) }.bounded();
    assert_eq!((short.leaf, short.authority), (Duration::from_mins(10), Duration::from_mins(80)));
}
