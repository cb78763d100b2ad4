//! A World over a list of objects, for tests: computes everything when asked, and only once.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use portolan_model::ir::{
    BackendId, BackendView, Binding, ClusterKey, GatewayView, HostEntry, Installed, ListenerId, ParentView, RouteView,
    TableId,
};
use portolan_model::objects::{
    Backend, BackendTlsPolicy, EndpointSlice, EnvoyProxy, Gateway, GatewayClass, ListenerSet, Object, ReferenceGrant,
    Secret, Service,
};
use portolan_model::{Kind, Name, NamespacedName, ObjectKey};

use crate::{FleetState, PortRefusal, Refusal, World, backend, gateway, host, parent, route};

/// A World that never changes after its first question.
#[derive(Default)]
pub struct TestWorld {
    objects: BTreeMap<ObjectKey, Object>,
    /// A Gateway without an entry listens on all addresses
    pub bindings: BTreeMap<NamespacedName, Option<Binding>>,
    /// A Gateway without an entry is programmed
    pub fleets: BTreeMap<NamespacedName, FleetState>,
    pub refusals: BTreeMap<ObjectKey, Vec<Refusal>>,
    /// In seconds since the epoch
    pub now: i64,
    pub refused_clusters: BTreeMap<ClusterKey, Arc<str>>,
    pub refused_secrets: BTreeMap<NamespacedName, Arc<str>>,
    pub refused_ports: BTreeMap<NamespacedName, Vec<PortRefusal>>,
    pub installed: Option<Arc<Installed>>,
    pub fleet_problems: BTreeMap<NamespacedName, Arc<[Name]>>,
    gateways: RefCell<BTreeMap<NamespacedName, Option<Arc<GatewayView>>>>,
    routes: RefCell<BTreeMap<ObjectKey, Option<Arc<RouteView>>>>,
    hosts: RefCell<Option<Hosts>>,
}

/// 2025-06-15: within the dates of self-made certificates.
const NOW: i64 = 1_750_000_000;

/// The GatewayClass that the Gateways of tests name.
pub const CLASS: &str = "
apiVersion: gateway.networking.k8s.io/v1
kind: GatewayClass
metadata: {name: portolan}
spec: {controllerName: portolan.dev/gateway-controller}
---
";

/// The Gateway of tests, `ns/g`, with these further lines of its spec.
pub fn gateway(spec: &str) -> String {
    format!(
        "
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {{name: g, namespace: ns}}
spec:
  gatewayClassName: portolan
{spec}
---
"
    )
}

/// The name of [`gateway`].
pub fn gateway_name() -> NamespacedName {
    NamespacedName::new("ns", "g")
}

type Hosts = BTreeMap<(TableId, Name), Vec<HostEntry>>;

impl TestWorld {
    /// A World of these objects; of several with one name the last counts.
    pub fn new(objects: impl IntoIterator<Item = Object>) -> Self {
        let objects = objects.into_iter().map(|object| (object.key(), object)).collect();
        Self { objects, now: NOW, ..Self::default() }
    }

    /// A World of the objects in manifests, also of those that an API server would refuse, as far as they can be read.
    pub fn read(manifests: &str) -> Result<Self, String> {
        let file = Name::from("manifests.yaml");
        let read = portolan_model::read::manifests(&file, manifests.as_bytes()).map_err(|problem| problem.message)?;
        Ok(Self::new(read.into_iter().filter_map(|manifest| manifest.object)))
    }

    /// The objects, by kind and name.
    pub fn objects(&self) -> impl Iterator<Item = (&ObjectKey, &Object)> {
        self.objects.iter()
    }

    fn get(&self, kind: Kind, name: &NamespacedName) -> Option<&Object> {
        self.objects.get(&ObjectKey::new(kind, name.clone()))
    }

    fn routes(&self) -> impl Iterator<Item = &ObjectKey> {
        self.objects.keys().filter(|key| key.kind.is_route())
    }

    /// Every hostname of every table with its routes.
    fn hosts(&self) -> Hosts {
        if let Some(hosts) = self.hosts.borrow().as_ref() {
            return hosts.clone();
        }
        let mut hosts = Hosts::new();
        for view in self.routes().filter_map(|key| self.route_view(key)) {
            let mut gateways: Vec<_> = view.parents.iter().map(|parent| &parent.gateway).collect();
            gateways.sort_unstable();
            gateways.dedup();
            for gateway in gateways.into_iter().filter_map(|name| self.gateway_view(name)) {
                for entry in host::hosts_of(&view, &gateway) {
                    hosts.entry((entry.table.clone(), entry.host.clone())).or_default().push(entry);
                }
            }
        }
        self.hosts.replace(Some(hosts.clone()));
        hosts
    }

    /// Every virtual host of a Gateway's tables.
    pub fn host_plans(&self, gateway: &NamespacedName) -> Vec<portolan_model::ir::HostPlan> {
        let mut keys: std::collections::BTreeSet<(TableId, Name)> =
            self.hosts().into_keys().filter(|(table, _)| table.gateway == *gateway).collect();
        keys.extend(self.gateway_view(gateway).iter().flat_map(|view| host::listener_hosts(view)));
        keys.iter().filter_map(|(table, name)| host::plan(self, table, name)).collect()
    }
}

/// The object of a kind by name, and all objects of a kind that satisfy a condition, by name.
macro_rules! objects {
    ($world:expr, $kind:ident, $variant:ident, $name:expr) => {
        match $world.get(Kind::$kind, $name) {
            Some(Object::$variant(object)) => Some(Arc::clone(object)),
            _ => None,
        }
    };
    ($world:expr, $variant:ident where $condition:expr) => {
        $world
            .objects
            .values()
            .filter_map(|object| match object {
                Object::$variant(object) => Some(Arc::clone(object)),
                _ => None,
            })
            .filter($condition)
            .collect()
    };
}

impl World for TestWorld {
    fn gateway_class(&self, name: &Name) -> Option<Arc<GatewayClass>> {
        objects!(self, GatewayClass, GatewayClass, &NamespacedName::new("", name.clone()))
    }

    fn gateway(&self, name: &NamespacedName) -> Option<Arc<Gateway>> {
        objects!(self, Gateway, Gateway, name)
    }

    fn listener_set(&self, name: &NamespacedName) -> Option<Arc<ListenerSet>> {
        objects!(self, ListenerSet, ListenerSet, name)
    }

    fn route(&self, key: &ObjectKey) -> Option<Object> {
        self.objects.get(key).cloned()
    }

    fn namespace_labels(&self, name: &Name) -> Arc<BTreeMap<Name, Name>> {
        match self.get(Kind::Namespace, &NamespacedName::new("", name.clone())) {
            Some(Object::Namespace(namespace)) => Arc::new(namespace.labels.clone()),
            _ => Arc::new(BTreeMap::from([("kubernetes.io/metadata.name".into(), name.clone())])),
        }
    }

    fn service(&self, name: &NamespacedName) -> Option<Arc<Service>> {
        objects!(self, Service, Service, name)
    }

    fn backend(&self, name: &NamespacedName) -> Option<Arc<Backend>> {
        objects!(self, Backend, Backend, name)
    }

    fn envoy_proxy(&self, name: &NamespacedName) -> Option<Arc<EnvoyProxy>> {
        objects!(self, EnvoyProxy, EnvoyProxy, name)
    }

    fn secret(&self, name: &NamespacedName) -> Option<Arc<Secret>> {
        objects!(self, Secret, Secret, name)
    }

    fn backend_tls_policy(&self, name: &NamespacedName) -> Option<Arc<BackendTlsPolicy>> {
        objects!(self, BackendTLSPolicy, BackendTlsPolicy, name)
    }

    fn binding(&self, gateway: &NamespacedName) -> Option<Arc<Binding>> {
        let bound = || Binding { status: vec![("IPAddress".into(), "192.0.2.7".into())], ..Binding::default() };
        self.bindings.get(gateway).cloned().unwrap_or_else(|| Some(bound())).map(Arc::new)
    }

    fn installed(&self) -> Option<Arc<Installed>> {
        self.installed.clone()
    }

    fn fleet_problems(&self, gateway: &NamespacedName) -> Arc<[Name]> {
        self.fleet_problems.get(gateway).cloned().unwrap_or_default()
    }

    fn has_come(&self, instant: i64) -> bool {
        instant <= self.now
    }

    fn grants(&self, namespace: &Name) -> Vec<Arc<ReferenceGrant>> {
        objects!(self, ReferenceGrant where |grant| grant.meta.name.namespace == *namespace)
    }

    fn listener_sets_of(&self, gateway: &NamespacedName) -> Vec<Arc<ListenerSet>> {
        objects!(self, ListenerSet where |set| {
            set.parent.kind() == Some(Kind::Gateway) && set.parent.resolve(&set.meta.name.namespace) == *gateway
        })
    }

    fn endpoint_slices(&self, service: &NamespacedName) -> Vec<Arc<EndpointSlice>> {
        objects!(self, EndpointSlice where |slice| slice.service.as_ref() == Some(service))
    }

    fn policies_for(&self, target: &ObjectKey) -> Vec<Arc<BackendTlsPolicy>> {
        objects!(self, BackendTlsPolicy where |policy| {
            policy.meta.name.namespace == target.name.namespace
                && policy.targets.iter().any(|named| named.name == target.name.name && &*named.kind == target.kind.as_str())
        })
    }

    fn gateway_view(&self, name: &NamespacedName) -> Option<Arc<GatewayView>> {
        if let Some(known) = self.gateways.borrow().get(name) {
            return known.clone();
        }
        let view = gateway::view(self, name).map(Arc::new);
        self.gateways.borrow_mut().insert(name.clone(), view.clone());
        view
    }

    fn parent_view(&self, parent: &ObjectKey) -> Option<Arc<ParentView>> {
        parent::view(self, parent).map(Arc::new)
    }

    fn backend_view(&self, backend: &BackendId) -> Arc<BackendView> {
        Arc::new(backend::view(self, backend))
    }

    fn route_view(&self, key: &ObjectKey) -> Option<Arc<RouteView>> {
        if let Some(known) = self.routes.borrow().get(key) {
            return known.clone();
        }
        let view = route::view(self, key).map(Arc::new);
        self.routes.borrow_mut().insert(key.clone(), view.clone());
        view
    }

    fn routes_of_host(&self, table: &TableId, host: &Name) -> Vec<HostEntry> {
        self.hosts().get(&(table.clone(), host.clone())).cloned().unwrap_or_default()
    }

    fn gateways_using(&self, target: &ObjectKey) -> Vec<NamespacedName> {
        let views = self.routes().filter_map(|key| self.route_view(key)).filter(|view| view.targets.contains(target));
        let gateways =
            views.flat_map(|view| view.parents.iter().map(|parent| parent.gateway.clone()).collect::<Vec<_>>());
        gateways.collect::<std::collections::BTreeSet<_>>().into_iter().collect()
    }

    fn attached_routes(&self, listener: &ListenerId) -> usize {
        let is_attached = |view: &Arc<RouteView>| {
            let accepted = view.parents.iter().filter(|parent| parent.accepted());
            accepted.flat_map(|parent| &parent.attachments).any(|attachment| attachment.listener == *listener)
        };
        self.routes().filter_map(|key| self.route_view(key)).filter(is_attached).count()
    }

    fn fleet_state(&self, gateway: &NamespacedName) -> FleetState {
        let programmed = || FleetState { programmed: true };
        self.fleets.get(gateway).cloned().unwrap_or_else(programmed)
    }

    fn refusals(&self, object: &ObjectKey) -> Arc<[Refusal]> {
        self.refusals.get(object).cloned().unwrap_or_default().into()
    }

    fn cluster_refusal(&self, cluster: &ClusterKey) -> Option<Arc<str>> {
        self.refused_clusters.get(cluster).cloned()
    }

    fn secret_refusal(&self, secret: &NamespacedName) -> Option<Arc<str>> {
        self.refused_secrets.get(secret).cloned()
    }

    fn port_refusals(&self, gateway: &NamespacedName) -> Vec<PortRefusal> {
        self.refused_ports.get(gateway).cloned().unwrap_or_default()
    }
}

/// A manifest of a Secret with a certificate of its own for these names.
#[cfg(test)]
pub(crate) fn certificate(namespace: &str, name: &str, hosts: &[&str]) -> String {
    let hosts: Vec<String> = hosts.iter().map(ToString::to_string).collect();
    let rcgen::CertifiedKey { cert, signing_key } = rcgen::generate_simple_self_signed(hosts).unwrap();
    let indented = |pem: &str| format!("    {}\n", pem.trim().replace('\n', "\n    "));
    format!(
        "\napiVersion: v1\nkind: Secret\nmetadata: {{name: {name}, namespace: {namespace}}}\ntype: kubernetes.io/tls\nstringData:\n  tls.crt: |\n{}  tls.key: |\n{}---\n",
        indented(&cert.pem()),
        indented(&signing_key.serialize_pem())
    )
}
