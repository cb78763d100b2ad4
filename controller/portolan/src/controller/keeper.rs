//! Keeps credentials: the authority, this replica's certificate, and the identity of each fleet (design section 6).
//!
//! The replica that leads makes the Secret with the authorities, and those with the identities of fleets; all read the former, and each makes
//! its own certificate from it, in memory.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use anyhow::{Context as _, anyhow};
use kube::Client;
use kube::api::{Api, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use portolan_engine::FleetIntent;
use portolan_fleet::{
    AUTHORITY_SECRET, Authorities, AuthorityAction, Leaf, Lifetimes, ManagedFleet, authorities, identity_secret,
    look_after_authority, resource_name,
};
use portolan_kubernetes::{FIELD_MANAGER, Leadership, bounded};
use portolan_model::NamespacedName;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use serde_json::Value;
use tokio::sync::watch;

use crate::load::seconds;

/// The fleets that there are, with the UIDs of their Gateways.
pub type Fleets = BTreeMap<NamespacedName, (Arc<str>, FleetIntent)>;

/// How often credentials are looked at without any occasion: the shortest lifetime is ten minutes.
const LOOK: Duration = Duration::from_secs(5);
/// How often the Secret of a fleet is read again, in seconds: somebody may have deleted it.
const LOOK_AT_FLEET: i64 = 60;

/// What keeps credentials.
pub struct Keeper {
    pub client: Client,
    pub leadership: Leadership,
    /// Portolan's own
    pub namespace: String,
    /// DNS names under which proxies find this replica
    pub names: Vec<String>,
    pub lifetimes: Lifetimes,
    pub fleets: watch::Receiver<Arc<Fleets>>,
    /// By the UID of its Gateway, why a fleet has no identity
    pub problems: watch::Sender<BTreeMap<Arc<str>, String>>,
    /// Where the configuration of TLS goes
    pub config: watch::Sender<Option<Arc<ServerConfig>>>,
}

/// What has been done.
#[derive(Default)]
struct Done {
    /// The trusted certificates, and the replica's own
    server: Option<(String, Leaf)>,
    /// By UID: the trusted certificates that its Secret had, and when to look again
    fleets: BTreeMap<Arc<str>, (String, i64)>,
}

impl Keeper {
    /// Keeps them until the program ends.
    pub async fn run(mut self) {
        let mut done = Done::default();
        let mut told = String::new();
        let mut term = self.leadership.clone();
        loop {
            let leads = self.leadership.holds();
            let outcome = self.look(&mut done).await;
            // Said once: an API server that is away is away for a while.
            let text = outcome.err().map(|error| format!("{error:#}")).unwrap_or_default();
            if !text.is_empty() && text != told {
                tracing::warn!("credentials are not kept: {text}");
            }
            told = text;
            tokio::select! {
                changed = self.fleets.changed() => if changed.is_err() { return },
                () = term.changed(leads) => {}
                () = tokio::time::sleep(LOOK) => {}
            }
        }
    }

    async fn look(&self, done: &mut Done) -> anyhow::Result<()> {
        let now = seconds(SystemTime::now());
        let Some(all) = self.authorities(now).await.context("the authority")? else { return Ok(()) };
        let trusted = all.certificates();
        let due = done.server.as_ref().is_none_or(|(before, leaf)| *before != trusted || leaf.renew_at <= now);
        if due {
            let leaf = all.server(&self.names, now, self.lifetimes, &mut || rcgen::KeyPair::generate())?;
            self.config.send_replace(Some(Arc::new(server_config(&trusted, &leaf)?)));
            done.server = Some((trusted.clone(), leaf));
        }
        if !self.leadership.holds() {
            done.fleets.clear();
            self.problems.send_if_modified(|problems| !std::mem::take(problems).is_empty());
            return Ok(());
        }
        let fleets = Arc::clone(&self.fleets.borrow());
        done.fleets.retain(|uid, _| fleets.values().any(|(other, _)| other == uid));
        let (mut failure, mut problems) = (None, BTreeMap::new());
        for (gateway, (uid, intent)) in fleets.iter() {
            let is_done = |(before, again): &(String, i64)| *before == trusted && now < *again;
            if done.fleets.get(uid).is_some_and(is_done) {
                continue;
            }
            match self.identity(ManagedFleet { gateway, uid, intent }, &all, now).await {
                Ok(()) => _ = done.fleets.insert(Arc::clone(uid), (trusted.clone(), now + LOOK_AT_FLEET)),
                Err(error) => {
                    problems.insert(Arc::clone(uid), format!("{error:#}"));
                    failure = Some(error.context(format!("the identity of Gateway {gateway}")));
                }
            }
        }
        self.problems.send_if_modified(|before| {
            let differs = *before != problems;
            *before = problems;
            differs
        });
        failure.map_or(Ok(()), Err)
    }

    /// `None`: there is none yet, and another replica makes it.
    async fn authorities(&self, now: i64) -> anyhow::Result<Option<Authorities>> {
        let api = self.secrets(&self.namespace);
        let existing = bounded(api.get_opt(AUTHORITY_SECRET)).await?.map(serde_json::to_value).transpose()?;
        if !self.leadership.holds() {
            return Ok(existing.as_ref().map(authorities).transpose()?);
        }
        let mut new_key = || rcgen::KeyPair::generate();
        let parameters = PostParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PostParams::default() };
        match look_after_authority(existing.as_ref(), &self.namespace, now, self.lifetimes, &mut new_key)? {
            AuthorityAction::Keep(all) => Ok(Some(all)),
            AuthorityAction::Create(secret) => {
                let created = bounded(api.create(&parameters, &serde_json::from_value(secret)?)).await?;
                Ok(Some(authorities(&serde_json::to_value(created)?)?))
            }
            AuthorityAction::Update(secret, all) => {
                bounded(api.replace(AUTHORITY_SECRET, &parameters, &serde_json::from_value(secret)?)).await?;
                Ok(Some(all))
            }
        }
    }

    async fn identity(&self, fleet: ManagedFleet<'_>, all: &Authorities, now: i64) -> anyhow::Result<()> {
        let api = self.secrets(&fleet.gateway.namespace);
        let name = resource_name(fleet.gateway);
        let existing = bounded(api.get_opt(&name)).await?.map(serde_json::to_value).transpose()?;
        let label = |secret: &Value| secret.pointer("/metadata/labels/app.kubernetes.io~1managed-by").cloned();
        if existing.as_ref().is_some_and(|secret| label(secret) != Some(Value::from("portolan"))) {
            anyhow::bail!(
                "the Secret {}/{name} is not Portolan's; rename it, for the proxies need this name",
                fleet.gateway.namespace
            );
        }
        let mut new_key = || rcgen::KeyPair::generate();
        let wanted: Option<Value> = identity_secret(fleet, existing.as_ref(), all, now, self.lifetimes, &mut new_key)?;
        if let Some(secret) = wanted {
            bounded(api.patch(&name, &PatchParams::apply(FIELD_MANAGER).force(), &Patch::Apply(&secret))).await?;
        }
        Ok(())
    }

    fn secrets(&self, namespace: &str) -> Api<DynamicObject> {
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("", "v1", "Secret"));
        Api::namespaced_with(self.client.clone(), namespace, &resource)
    }
}

/// TLS that asks every peer for a certificate of the authorities.
fn server_config(trusted: &str, leaf: &Leaf) -> anyhow::Result<ServerConfig> {
    let mut roots = rustls::RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(trusted.as_bytes()) {
        roots.add(certificate.map_err(|error| anyhow!("{error}"))?)?;
    }
    let verifier = WebPkiClientVerifier::builder(Arc::new(roots)).build()?;
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(leaf.certificate.as_bytes()).collect();
    let chain = chain.map_err(|error| anyhow!("{error}"))?;
    let key = PrivateKeyDer::from_pem_slice(leaf.key.as_bytes()).map_err(|error| anyhow!("{error}"))?;
    let mut config = ServerConfig::builder().with_client_cert_verifier(verifier).with_single_cert(chain, key)?;
    config.alpn_protocols = vec![b"h2".to_vec()];
    Ok(config)
}
