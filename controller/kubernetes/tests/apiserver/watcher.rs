//! Takes notices and keeps the world that they tell of.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use kube::{Client, Config, config::KubeConfigOptions, config::Kubeconfig};
use portolan_kubernetes::watch::{self, Options, Watches};
use portolan_kubernetes::{Bundle, KindState, Notice, Observed};
use portolan_model::{Kind, NamespacedName, ObjectKey};
use portolan_testkit::Kube;

/// On a busy machine.
const PATIENCE: Duration = Duration::from_mins(1);

pub struct Watcher {
    pub watches: Watches,
    pub objects: BTreeMap<ObjectKey, Observed>,
    pub kinds: BTreeMap<Kind, KindState>,
    pub bundles: BTreeMap<Kind, Option<Bundle>>,
    pub synced: bool,
    /// Every batch in its order: what it said about each key (the uid)
    pub batches: Vec<BTreeMap<ObjectKey, Option<String>>>,
    pub followed: usize,
}

pub async fn client(kube: &Kube) -> Client {
    client_of(&std::fs::read_to_string(kube.kubeconfig()).unwrap()).await
}

pub async fn client_of(kubeconfig: &str) -> Client {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let kubeconfig = Kubeconfig::from_yaml(kubeconfig).unwrap();
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    Client::try_from(config).unwrap()
}

pub fn key(kind: Kind, name: &str) -> ObjectKey {
    let (namespace, name) = name.split_once('/').unwrap_or(("", name));
    ObjectKey::new(kind, NamespacedName::new(namespace, name))
}

impl Watcher {
    pub async fn start(kube: &Kube) -> Self {
        Self::of(watch::start(client(kube).await, Options::default()))
    }

    pub async fn synced(kube: &Kube) -> Self {
        let mut watcher = Self::start(kube).await;
        watcher.until(|watcher| watcher.synced).await;
        watcher
    }

    pub fn of(watches: Watches) -> Self {
        Self {
            watches,
            objects: BTreeMap::new(),
            kinds: BTreeMap::new(),
            bundles: BTreeMap::new(),
            synced: false,
            batches: Vec::new(),
            followed: 0,
        }
    }

    /// Takes notices until something is true, and says how long that took.
    pub async fn until(&mut self, is_so: impl Fn(&Self) -> bool) -> Duration {
        let start = Instant::now();
        while !is_so(self) {
            let Ok(notice) = tokio::time::timeout(PATIENCE, self.watches.notices.recv()).await else {
                panic!("not within {PATIENCE:?}; kinds: {:?}; {} objects", self.kinds, self.objects.len());
            };
            self.take(notice.expect("the watches run"));
        }
        start.elapsed()
    }

    /// Takes what comes for a while.
    pub async fn take_for(&mut self, time: Duration) {
        let end = tokio::time::Instant::now() + time;
        while let Ok(notice) = tokio::time::timeout_at(end, self.watches.notices.recv()).await {
            self.take(notice.expect("the watches run"));
        }
    }

    pub fn has(&self, kind: Kind, name: &str) -> bool {
        self.objects.contains_key(&key(kind, name))
    }

    pub fn names(&self, kind: Kind) -> Vec<String> {
        self.objects.keys().filter(|key| key.kind == kind).map(|key| key.name.to_string()).collect()
    }

    fn take(&mut self, notice: Notice) {
        match notice {
            Notice::Changes(changes) => {
                let uid = |value: &Option<Observed>| value.as_ref().map(|observed| observed.meta.uid.to_string());
                self.batches.push(changes.iter().map(|(key, value)| (key.clone(), uid(value))).collect());
                for (key, value) in changes {
                    match value {
                        Some(observed) => self.objects.insert(key, observed),
                        None => self.objects.remove(&key),
                    };
                }
            }
            Notice::Kind { kind, state } => {
                self.kinds.insert(kind, state);
            }
            Notice::Bundles(bundles) => self.bundles = bundles,
            Notice::Followed(_) => self.followed += 1,
            Notice::Synced => {
                assert!(!self.synced, "once");
                self.synced = true;
            }
        }
    }
}
