//! What Envoy refused: an input of translation like any failed validation (design invariant 5).
//!
//! A refusal is of one content, by its hash, of one subject. It counts while the objects call for that content: a node that meets it
//! substitutes something else and has then read [`Read::Refused`]; one that no node has read is forgotten at the end of a batch
//! ([`Engine::forget_refusals`]). So what is remembered is bounded by what is there, and content that comes back is tried again.
//!
//! | subject | content | instead |
//! |---|---|---|
//! | route | a match | 500; if that is refused too, the match is left out |
//! | host | a virtual host, no match alone | 500 for the hostname; if that is refused too, it is left out |
//! | backend | cluster, endpoints | an invalid backend: its share answers 500 |
//! | Secret | certificate | held: proxies keep what they have |
//! | Gateway | a route table, no host alone | 500 for each of its hosts; if that is refused too, the table is empty |
//! | Gateway | a listener | nothing could: proxies keep the listener that they have, and the others are served |

use std::sync::Arc;

use portolan_model::ir::{BackendId, ClusterKey, TableId};
use portolan_model::{Kind, Name, NamespacedName, ObjectKey};
use portolan_proto::{Origin, Part, ResourceKey, ResourceType, Version};
use portolan_resolve::World;

use crate::engine::{Engine, HostKey};
use crate::node::Read;

/// Whose content it is that Envoy refused.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Subject {
    /// The matches of a route, by [`portolan_proto::Unit::version`]
    Route(ObjectKey),
    /// A hostname of a route table, by [`portolan_proto::VirtualHostBody::version`]
    Host(Box<HostKey>),
    /// The clusters of a backend and their endpoints
    Backend(BackendId),
    Secret(NamespacedName),
    /// The listeners and whole route tables of a Gateway
    Gateway(NamespacedName),
}

/// A content that Envoy refused.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Refused {
    pub subject: Subject,
    /// The version of the resource or of its part
    pub content: u128,
    /// What Envoy said
    pub text: Arc<str>,
}

impl Refused {
    /// What the refusal of a resource of a Gateway's fleet, or of a part of it, means here. Several where the part comes from several
    /// objects; none where nothing of the objects is to blame, such as for the probe's own table.
    #[must_use]
    pub fn attribute(
        gateway: &NamespacedName,
        key: &ResourceKey,
        version: Version,
        part: &Part,
        origins: &[Origin],
        text: &str,
    ) -> Vec<Self> {
        let (mut subjects, mut content): (Vec<Subject>, _) = match part {
            Part::Unit(content) => (origins.iter().filter_map(route_of).map(Subject::Route).collect(), *content),
            Part::Host(host, content) => {
                let table = TableId::of_resource(gateway.clone(), &key.name);
                let subject = table.map(|table| Subject::Host(Box::new((table, Name::clone(host)))));
                (subject.into_iter().collect(), *content)
            }
            Part::Whole => (Vec::new(), version),
        };
        if subjects.is_empty() {
            // Also for a part that comes from no route, such as what answers where none matches: nothing may freeze a table.
            (subjects, content) = (whole(gateway, key).into_iter().collect(), version);
        }
        let text = Arc::<str>::from(text.trim());
        let refused = |subject| Self { subject, content: content.0, text: Arc::clone(&text) };
        subjects.into_iter().map(refused).collect()
    }
}

fn whole(gateway: &NamespacedName, key: &ResourceKey) -> Option<Subject> {
    match key.kind {
        ResourceType::Cluster | ResourceType::Endpoints => {
            ClusterKey::of_resource(&key.name).map(|key| Subject::Backend(key.backend))
        }
        ResourceType::Secret => {
            let (namespace, name) = key.name.split_once('/')?;
            Some(Subject::Secret(NamespacedName::new(namespace, name)))
        }
        ResourceType::Route => {
            TableId::of_resource(gateway.clone(), &key.name).map(|table| Subject::Gateway(table.gateway))
        }
        ResourceType::Listener => {
            portolan_translate::port_of_listener(&key.name).map(|_| Subject::Gateway(gateway.clone()))
        }
        // Portolan makes none of these yet.
        ResourceType::Scope | ResourceType::Extension => None,
    }
}

fn route_of(origin: &Origin) -> Option<ObjectKey> {
    let kind = Kind::ALL.into_iter().find(|kind| kind.as_str() == &*origin.kind && kind.is_route())?;
    Some(ObjectKey::new(kind, NamespacedName::new(Arc::clone(&origin.namespace), Arc::clone(&origin.name))))
}

impl Subject {
    /// The read that a refusal of the subject touches. Whoever asks for refusals of something reads the thing itself as well, and
    /// refusals are rare: reads of their own would cost memory for every route and hostname.
    pub(crate) fn read(&self) -> Read {
        match self {
            Self::Route(route) => Read::RouteView(route.clone()),
            Self::Host(host) => Read::Host(host.clone()),
            Self::Backend(backend) => Read::Object(object_of(backend)),
            Self::Secret(name) => Read::Object(ObjectKey::new(Kind::Secret, name.clone())),
            Self::Gateway(name) => Read::Fleet(name.clone()),
        }
    }
}

fn object_of(backend: &BackendId) -> ObjectKey {
    ObjectKey::new(backend.kind, backend.name.clone())
}

impl Engine {
    /// Every refusal that counts.
    pub fn refused(&self) -> impl Iterator<Item = Refused> {
        self.store.all_refused()
    }

    pub(crate) fn refuse(&mut self, refused: Refused) -> Vec<Read> {
        let Refused { subject, content, text } = refused;
        let changed = self.store.set_refused(&subject, content, Some(&text));
        self.reconsider_tables(&subject);
        changed
    }

    /// No proxy of the Gateway refuses the listener any more: it is the only resource for which nothing is substituted, so this means
    /// that it is accepted as it is, or that no proxy is there. What it was refused for need not lie in it (a port in use).
    pub(crate) fn take_listener(&mut self, gateway: &NamespacedName, key: &ResourceKey) -> Vec<Read> {
        let version = self.fleets.get(gateway).and_then(|fleet| fleet.listener_version(key));
        let subject = Subject::Gateway(gateway.clone());
        version.map(|version| self.store.set_refused(&subject, version.0, None)).unwrap_or_default()
    }

    /// Forgets what the objects do not call for any more. True: something has to be computed again.
    pub(crate) fn forget_refusals(&mut self) -> bool {
        let mut again = false;
        for Refused { subject, content, .. } in self.store.all_refused().collect::<Vec<_>>() {
            let is_met = self.graph.has_readers(&Read::Refused(Box::new((subject.clone(), content))));
            if is_met && self.is_used(&subject) {
                continue;
            }
            let changed = self.store.set_refused(&subject, content, None);
            if is_met {
                again = true;
                for read in &changed {
                    self.graph.touch(read);
                }
            }
        }
        again
    }

    /// A backend is looked at for any route, also for one of no Gateway of Portolan's, for which it is in no fleet.
    fn is_used(&self, subject: &Subject) -> bool {
        match subject {
            Subject::Backend(backend) => self.target_users.contains_key(&object_of(backend)),
            _ => true,
        }
    }

    fn reconsider_tables(&mut self, subject: &Subject) {
        if let Subject::Gateway(gateway) = subject
            && let Some(fleet) = self.fleets.get_mut(gateway)
        {
            fleet.reconsider_tables();
        }
    }

    /// Has the statuses of a Gateway with refused listeners or tables computed again, since these may have changed.
    pub(crate) fn touch_port_refusals(&mut self, gateway: &NamespacedName) {
        let subject = Subject::Gateway(gateway.clone());
        if self.store.has_refused(&subject) {
            self.graph.touch(&subject.read());
        }
    }
}

/// What Envoy said of a cluster as the objects call for it, or of its endpoints.
pub fn cluster(world: &crate::Recorder<'_>, key: &ClusterKey) -> Option<Arc<str>> {
    let subject = Subject::Backend(key.backend.clone());
    if !world.has_refused(&subject) {
        return None;
    }
    let plan = portolan_resolve::backend::planned_cluster(world, key)?;
    let of_cluster = world.refused(&subject, portolan_translate::cluster(&plan).version);
    of_cluster.or_else(|| {
        let plan = portolan_resolve::endpoints::of_cluster(world, &plan)?;
        world.refused(&subject, portolan_translate::endpoints(&plan).version)
    })
}

/// What Envoy said of a certificate as the Secret has it.
pub fn secret(world: &crate::Recorder<'_>, name: &NamespacedName) -> Option<Arc<str>> {
    let subject = Subject::Secret(name.clone());
    if !world.has_refused(&subject) {
        return None;
    }
    let plan = portolan_resolve::secret::plan(world as &dyn World, name);
    world.refused(&subject, portolan_translate::secret(&plan).version)
}
