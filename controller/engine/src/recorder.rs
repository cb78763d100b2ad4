//! The world as one node sees it: every read is noted down.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use portolan_model::ir::{
    BackendId, BackendView, Binding, ClusterKey, GatewayView, HostEntry, Installed, ListenerId, ParentView, RouteView,
    TableId,
};
use portolan_model::objects::{
    Backend, BackendTlsPolicy, EndpointSlice, EnvoyProxy, Gateway, GatewayClass, ListenerSet, Object, ReferenceGrant,
    Secret, Service,
};
use portolan_model::{Kind, Name, NamespacedName, ObjectKey};
use portolan_proto::Version;
use portolan_resolve::{FleetState, PortRefusal, Refusal, World};

use crate::engine::Engine;
use crate::node::{Node, Read};
use crate::{Subject, refused};

/// A value that a node asked for and that nobody had computed yet, with its reads.
pub enum Made {
    Parent(ObjectKey, Option<Arc<ParentView>>, Vec<Read>),
    Backend(BackendId, Arc<BackendView>, Vec<Read>),
}

/// A [`World`] over the engine's state that records what is read.
pub struct Recorder<'a> {
    engine: &'a Engine,
    reads: RefCell<Vec<Read>>,
    made: RefCell<Vec<Made>>,
}

impl<'a> Recorder<'a> {
    pub(crate) fn new(engine: &'a Engine) -> Self {
        Self { engine, reads: RefCell::default(), made: RefCell::default() }
    }

    pub(crate) fn finish(self) -> (Vec<Read>, Vec<Made>) {
        (self.reads.into_inner(), self.made.into_inner())
    }

    /// What Envoy said when it refused this content of the subject. Who is told depends on it, and keeps it in memory.
    pub(crate) fn refused(&self, subject: &Subject, content: Version) -> Option<Arc<str>> {
        self.read(subject.read());
        let text = self.engine.store.refused(subject, content.0)?;
        self.read(Read::Refused(Box::new((subject.clone(), content.0))));
        Some(Arc::clone(text))
    }

    /// Whether Envoy refused any content of the subject.
    pub(crate) fn has_refused(&self, subject: &Subject) -> bool {
        self.read(subject.read());
        self.engine.store.has_refused(subject)
    }

    fn read(&self, read: Read) {
        if self.engine.options.forget != Some(read.kind()) {
            self.reads.borrow_mut().push(read);
        }
    }

    fn object(&self, kind: Kind, name: &NamespacedName) -> Option<&'a Object> {
        self.read(Read::Object(ObjectKey::new(kind, name.clone())));
        self.engine.store.object(kind, name)
    }

    fn index<T>(&self, index: Read, pick: impl Fn(&Object) -> Option<T>) -> Vec<T> {
        let found = self.engine.store.indexed(&index).filter_map(pick).collect();
        self.read(index);
        found
    }
}

macro_rules! typed {
    ($self:ident, $kind:ident, $variant:ident, $name:expr) => {
        match $self.object(Kind::$kind, $name) {
            Some(Object::$variant(object)) => Some(Arc::clone(object)),
            _ => None,
        }
    };
}

macro_rules! pick {
    ($variant:ident) => {
        |object| match object {
            Object::$variant(object) => Some(Arc::clone(object)),
            _ => None,
        }
    };
}

static NAMESPACE_NAME: LazyLock<Name> = LazyLock::new(|| Name::from("kubernetes.io/metadata.name"));

impl World for Recorder<'_> {
    fn gateway_class(&self, name: &Name) -> Option<Arc<GatewayClass>> {
        typed!(self, GatewayClass, GatewayClass, &NamespacedName::new("", Arc::clone(name)))
    }

    fn gateway(&self, name: &NamespacedName) -> Option<Arc<Gateway>> {
        typed!(self, Gateway, Gateway, name)
    }

    fn listener_set(&self, name: &NamespacedName) -> Option<Arc<ListenerSet>> {
        typed!(self, ListenerSet, ListenerSet, name)
    }

    fn route(&self, key: &ObjectKey) -> Option<Object> {
        self.object(key.kind, &key.name).cloned()
    }

    fn namespace_labels(&self, name: &Name) -> Arc<BTreeMap<Name, Name>> {
        let mut labels = match self.object(Kind::Namespace, &NamespacedName::new("", Arc::clone(name))) {
            Some(Object::Namespace(namespace)) => namespace.labels.clone(),
            _ => BTreeMap::new(),
        };
        labels.insert(Arc::clone(&NAMESPACE_NAME), Arc::clone(name));
        Arc::new(labels)
    }

    fn service(&self, name: &NamespacedName) -> Option<Arc<Service>> {
        typed!(self, Service, Service, name)
    }

    fn backend(&self, name: &NamespacedName) -> Option<Arc<Backend>> {
        typed!(self, Backend, Backend, name)
    }

    fn envoy_proxy(&self, name: &NamespacedName) -> Option<Arc<EnvoyProxy>> {
        typed!(self, EnvoyProxy, EnvoyProxy, name)
    }

    fn secret(&self, name: &NamespacedName) -> Option<Arc<Secret>> {
        typed!(self, Secret, Secret, name)
    }

    fn backend_tls_policy(&self, name: &NamespacedName) -> Option<Arc<BackendTlsPolicy>> {
        typed!(self, BackendTLSPolicy, BackendTlsPolicy, name)
    }

    fn binding(&self, gateway: &NamespacedName) -> Option<Arc<Binding>> {
        self.read(Read::Binding(gateway.clone()));
        self.engine.store.binding(gateway)
    }

    fn installed(&self) -> Option<Arc<Installed>> {
        self.read(Read::Installed);
        self.engine.store.installed()
    }

    fn fleet_problems(&self, gateway: &NamespacedName) -> Arc<[Name]> {
        self.read(Read::Problems(gateway.clone()));
        self.engine.store.problems(gateway)
    }

    fn has_come(&self, instant: i64) -> bool {
        self.read(Read::Instant(instant));
        self.engine.clock.has_come(instant)
    }

    fn grants(&self, namespace: &Name) -> Vec<Arc<ReferenceGrant>> {
        self.index(Read::Grants(Arc::clone(namespace)), pick!(ReferenceGrant))
    }

    fn listener_sets_of(&self, gateway: &NamespacedName) -> Vec<Arc<ListenerSet>> {
        self.index(Read::ListenerSetsOf(gateway.clone()), pick!(ListenerSet))
    }

    fn endpoint_slices(&self, service: &NamespacedName) -> Vec<Arc<EndpointSlice>> {
        self.index(Read::Slices(service.clone()), pick!(EndpointSlice))
    }

    fn policies_for(&self, target: &ObjectKey) -> Vec<Arc<BackendTlsPolicy>> {
        self.index(Read::PoliciesFor(target.clone()), pick!(BackendTlsPolicy))
    }

    fn gateway_view(&self, name: &NamespacedName) -> Option<Arc<GatewayView>> {
        self.read(Read::GatewayView(name.clone()));
        self.engine.gateway_views.get(name).cloned()
    }

    fn parent_view(&self, parent: &ObjectKey) -> Option<Arc<ParentView>> {
        self.read(Read::ParentView(parent.clone()));
        if let Some(view) = self.engine.parent_views.get(parent) {
            return view.clone();
        }
        let recorder = Recorder::new(self.engine);
        let view = portolan_resolve::parent::view(&recorder, parent).map(Arc::new);
        let (reads, _) = recorder.finish();
        self.made.borrow_mut().push(Made::Parent(parent.clone(), view.clone(), reads));
        view
    }

    fn backend_view(&self, backend: &BackendId) -> Arc<BackendView> {
        self.read(Read::BackendView(backend.clone()));
        if let Some(view) = self.engine.backend_views.get(backend) {
            return Arc::clone(view);
        }
        let recorder = Recorder::new(self.engine);
        let view = Arc::new(portolan_resolve::backend::view(&recorder, backend));
        let (reads, _) = recorder.finish();
        self.made.borrow_mut().push(Made::Backend(backend.clone(), Arc::clone(&view), reads));
        view
    }

    fn route_view(&self, key: &ObjectKey) -> Option<Arc<RouteView>> {
        self.read(Read::RouteView(key.clone()));
        self.engine.route_views.get(key).cloned()
    }

    fn routes_of_host(&self, table: &TableId, host: &Name) -> Vec<HostEntry> {
        self.read(Read::Host(Box::new((table.clone(), Arc::clone(host)))));
        let routes = self.engine.hosts.get(&(table.clone(), Arc::clone(host))).map(|slot| &slot.routes);
        routes
            .into_iter()
            .flatten()
            .map(|route| HostEntry { table: table.clone(), host: Arc::clone(host), route: route.clone() })
            .collect()
    }

    fn gateways_using(&self, target: &ObjectKey) -> Vec<NamespacedName> {
        self.read(Read::GatewaysUsing(target.clone()));
        self.engine
            .target_users
            .get(target)
            .map(|users| users.iter().map(|(user, _)| user.clone()).collect())
            .unwrap_or_default()
    }

    fn attached_routes(&self, listener: &ListenerId) -> usize {
        self.read(Read::Attached(listener.clone()));
        self.engine.attached.get(listener).map_or(0, std::collections::BTreeSet::len)
    }

    fn fleet_state(&self, gateway: &NamespacedName) -> FleetState {
        self.read(Read::Fleet(gateway.clone()));
        self.engine.store.fleet(gateway)
    }

    fn refusals(&self, object: &ObjectKey) -> Arc<[Refusal]> {
        self.read(Read::Refusals(object.clone()));
        self.engine.refusals.of(object)
    }

    fn cluster_refusal(&self, cluster: &ClusterKey) -> Option<Arc<str>> {
        refused::cluster(self, cluster)
    }

    fn secret_refusal(&self, secret: &NamespacedName) -> Option<Arc<str>> {
        refused::secret(self, secret)
    }

    fn port_refusals(&self, gateway: &NamespacedName) -> Vec<PortRefusal> {
        let subject = Subject::Gateway(gateway.clone());
        if !self.has_refused(&subject) {
            return Vec::new();
        }
        let fleet = self.engine.fleets.get(gateway);
        fleet.map(|fleet| fleet.port_refusals(&mut |version| self.refused(&subject, version))).unwrap_or_default()
    }
}

impl Made {
    pub fn node(&self) -> Node {
        match self {
            Self::Parent(key, ..) => Node::ParentView(key.clone()),
            Self::Backend(key, ..) => Node::BackendView(key.clone()),
        }
    }
}
