//! The Secrets with credentials, as the API server has them and as they should be.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::authority::{Authorities, CredentialError, Lifetimes, NewKey};
use crate::identity::Identity;
use crate::manifest::{ManagedFleet, set};

/// Name of the Secret with the authorities, in Portolan's namespace.
pub const AUTHORITY_SECRET: &str = "portolan-ca";
/// Annotation on that Secret: with another value than the recorded one, a new authority is introduced.
const ROTATE: &str = "portolan.dev/rotate";
/// Annotation: the value of [`ROTATE`] that was acted upon.
const ROTATED: &str = "portolan.dev/rotated";

/// What is to be done about the Secret with the authorities.
#[derive(Debug)]
pub enum AuthorityAction {
    /// It is as it should be
    Keep(Authorities),
    /// Create this one. Never replace: where the API server says that there is one, another replica was first, and its Secret counts
    Create(Value),
    /// Replace, under the condition of the `metadata.resourceVersion` in it
    Update(Value, Authorities),
}

/// Looks after the Secret with the authorities. For the lease holder alone; all others wait for the Secret and read it
/// ([`authorities`]). `existing`: as the API server has it; `None` only when it said that there is none.
///
/// # Errors
/// When the Secret cannot be read: it is never overwritten for that.
pub fn look_after_authority(
    existing: Option<&Value>,
    namespace: &str,
    now: i64,
    lifetimes: Lifetimes,
    new_key: NewKey<'_>,
) -> Result<AuthorityAction, CredentialError> {
    let lifetimes = lifetimes.bounded();
    let Some(existing) = existing else {
        let first = Authorities::first(now, lifetimes, new_key)?;
        let labels = json!({"app.kubernetes.io/name": "portolan", "app.kubernetes.io/managed-by": "portolan"});
        let mut secret = json!({
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": AUTHORITY_SECRET, "namespace": namespace, "labels": labels},
            "type": "Opaque",
        });
        set(&mut secret, &["data"], authority_data(&first));
        return Ok(AuthorityAction::Create(secret));
    };
    let mut all = authorities(existing)?;
    let annotation = |key: &str| existing.pointer("/metadata/annotations").and_then(|all| all.get(key)).cloned();
    let (asked, done) = (annotation(ROTATE), annotation(ROTATED));
    let rotate = asked.is_some() && asked != done;
    if !all.advance(now, lifetimes, rotate, new_key)? {
        return Ok(AuthorityAction::Keep(all));
    }
    let mut secret = existing.clone();
    set(&mut secret, &["data"], authority_data(&all));
    if rotate {
        set(&mut secret, &["metadata", "annotations", ROTATED], asked.unwrap_or_default());
    }
    Ok(AuthorityAction::Update(secret, all))
}

/// The authorities in a Secret.
///
/// # Errors
/// When it holds none that can be used.
pub fn authorities(secret: &Value) -> Result<Authorities, CredentialError> {
    let data =
        |key: &str| data(secret, key).ok_or_else(|| CredentialError::Stored(format!("{key} is missing or no base64")));
    Authorities::read(&data("ca.crt")?, &data("ca.key")?)
}

/// The Secret with the identity of a fleet; `None`: `existing` is as it should be.
///
/// # Errors
/// When the machine has no randomness.
pub fn identity_secret(
    fleet: ManagedFleet<'_>,
    existing: Option<&Value>,
    authorities: &Authorities,
    now: i64,
    lifetimes: Lifetimes,
    new_key: NewKey<'_>,
) -> Result<Option<Value>, CredentialError> {
    let lifetimes = lifetimes.bounded();
    let identity = Identity { gateway: fleet.gateway.clone(), uid: fleet.uid.to_owned() };
    let bundle = authorities.certificates();
    let held = |key: &str| existing.and_then(|secret| data(secret, key));
    let (certificate, key) = match (held("tls.crt"), held("tls.key")) {
        (Some(certificate), Some(key)) if authorities.is_current(&certificate, &identity, now, lifetimes) => {
            if held("ca.crt").is_some_and(|held| held == bundle.as_bytes()) {
                return Ok(None);
            }
            // Whom to trust changes, who one is does not.
            (STANDARD.encode(certificate), STANDARD.encode(key))
        }
        _ => {
            let leaf = authorities.client(&identity, now, lifetimes, new_key)?;
            (STANDARD.encode(leaf.certificate), STANDARD.encode(leaf.key))
        }
    };
    // Not of the type kubernetes.io/tls: those are watched everywhere, as certificates of listeners.
    let content = json!({
        "type": "Opaque",
        "data": {"tls.crt": certificate, "tls.key": key, "ca.crt": STANDARD.encode(bundle)},
    });
    Ok(Some(fleet.object("v1", "Secret", content)))
}

fn authority_data(authorities: &Authorities) -> Value {
    json!({"ca.crt": STANDARD.encode(authorities.certificates()), "ca.key": STANDARD.encode(authorities.keys())})
}

fn data(secret: &Value, key: &str) -> Option<Vec<u8>> {
    STANDARD.decode(secret.get("data")?.get(key)?.as_str()?).ok()
}

#[cfg(test)]
mod tests;
