//! Plans by feature, shared by the goldens and by the tests against the real Envoy.

pub mod build;
mod listeners;
mod routes;
mod upstream;

use portolan_proto::Snapshot;

/// One feature's plans, translated.
pub struct Case {
    /// Folder and name of its golden: `redirect/path`
    pub name: &'static str,
    pub snapshot: Snapshot,
}

/// Certificate chain and key, PEM. Goldens have words in their place, Envoy wants real ones.
#[derive(Clone, Copy)]
pub struct Pem<'a> {
    pub chain: &'a str,
    pub key: &'a str,
}

/// All cases.
pub fn all(pem: Pem<'_>) -> Vec<Case> {
    let mut cases = upstream::cases();
    cases.extend(listeners::cases(pem));
    cases.extend(routes::cases());
    cases
}
