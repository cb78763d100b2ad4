//! What resolution may read.

use std::collections::BTreeMap;
use std::sync::Arc;

use portolan_model::ir::{
    BackendId, BackendView, Binding, ClusterKey, GatewayView, HostEntry, Installed, ParentView, RouteView, TableId,
};
use portolan_model::objects::{
    Backend, BackendTlsPolicy, EndpointSlice, EnvoyProxy, Gateway, GatewayClass, ListenerSet, Object, ReferenceGrant,
    Secret, Service,
};
use portolan_model::{Name, NamespacedName, ObjectKey};

/// Everything that resolution may read: objects, indexes over objects, and results of lower strata. The engine's implementation
/// records each call, which is how it knows what to compute again; a function that reads anything else breaks that.
///
/// Lists are in a fixed order: by name unless said otherwise.
pub trait World {
    // Objects
    fn gateway_class(&self, name: &Name) -> Option<Arc<GatewayClass>>;
    fn gateway(&self, name: &NamespacedName) -> Option<Arc<Gateway>>;
    fn listener_set(&self, name: &NamespacedName) -> Option<Arc<ListenerSet>>;
    /// HTTPRoute, GRPCRoute or an L4 route
    fn route(&self, key: &ObjectKey) -> Option<Object>;
    /// Labels of a namespace; one without an object has `kubernetes.io/metadata.name` alone
    fn namespace_labels(&self, name: &Name) -> Arc<BTreeMap<Name, Name>>;
    fn service(&self, name: &NamespacedName) -> Option<Arc<Service>>;
    fn backend(&self, name: &NamespacedName) -> Option<Arc<Backend>>;
    fn envoy_proxy(&self, name: &NamespacedName) -> Option<Arc<EnvoyProxy>>;
    fn secret(&self, name: &NamespacedName) -> Option<Arc<Secret>>;
    fn backend_tls_policy(&self, name: &NamespacedName) -> Option<Arc<BackendTlsPolicy>>;
    /// Where the proxies of a Gateway listen, once that is decided
    fn binding(&self, gateway: &NamespacedName) -> Option<Arc<Binding>>;

    /// What the API server has of the kinds that are read; `None`: there is no API server
    fn installed(&self) -> Option<Arc<Installed>>;
    /// What of a Gateway's fleet could not be made as it should be, in sentences without a full stop
    fn fleet_problems(&self, gateway: &NamespacedName) -> Arc<[Name]>;

    /// Whether it is this instant (in seconds since the epoch) or later. The only way to learn of the time: what does not ask about an
    /// instant is not computed again when it comes
    fn has_come(&self, instant: i64) -> bool;

    // Indexes over objects
    /// The grants in a namespace
    fn grants(&self, namespace: &Name) -> Vec<Arc<ReferenceGrant>>;
    /// The ListenerSets whose parentRef names the Gateway
    fn listener_sets_of(&self, gateway: &NamespacedName) -> Vec<Arc<ListenerSet>>;
    fn endpoint_slices(&self, service: &NamespacedName) -> Vec<Arc<EndpointSlice>>;
    /// The policies that target the Service (or Backend), any port
    fn policies_for(&self, target: &ObjectKey) -> Vec<Arc<BackendTlsPolicy>>;

    // Results of lower strata
    fn gateway_view(&self, name: &NamespacedName) -> Option<Arc<GatewayView>>;
    /// `None`: no such object, or not one of Portolan's
    fn parent_view(&self, parent: &ObjectKey) -> Option<Arc<ParentView>>;
    fn backend_view(&self, backend: &BackendId) -> Arc<BackendView>;
    fn route_view(&self, key: &ObjectKey) -> Option<Arc<RouteView>>;
    /// The routes under one hostname of a table
    fn routes_of_host(&self, table: &TableId, host: &Name) -> Vec<HostEntry>;
    /// The Gateways with a route, accepted or not, whose rules name the Service (or Backend)
    fn gateways_using(&self, target: &ObjectKey) -> Vec<NamespacedName>;
    /// How many routes are attached to a listener
    fn attached_routes(&self, listener: &portolan_model::ir::ListenerId) -> usize;
    /// What the proxies of a Gateway have said
    fn fleet_state(&self, gateway: &NamespacedName) -> FleetState;

    // What Envoy refused of what the objects call for now, with its text (design invariant 5)
    /// The matches and hostnames of a route that therefore answer 500, by place. For a Gateway: its hostnames without routes
    fn refusals(&self, object: &ObjectKey) -> Arc<[Refusal]>;
    /// A cluster, or its endpoints
    fn cluster_refusal(&self, cluster: &ClusterKey) -> Option<Arc<str>>;
    /// The certificate of a Secret
    fn secret_refusal(&self, secret: &NamespacedName) -> Option<Arc<str>>;
    /// Sockets and whole route tables of a Gateway, by port
    fn port_refusals(&self, gateway: &NamespacedName) -> Vec<PortRefusal>;
}

/// What the proxies of a Gateway have said (design invariant 14).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FleetState {
    /// One proxy has acknowledged a configuration with the Gateway's listeners; stays true
    pub programmed: bool,
}

/// A part of a route table that Envoy refused.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Refusal {
    pub place: RefusedPlace,
    pub text: Arc<str>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RefusedPlace {
    Match {
        /// Index in `spec.rules`
        rule: usize,
        /// Index in the rule's `matches`
        matched: usize,
    },
    /// Everything under a hostname of a table
    Host(TableId, Name),
}

/// Something of a port that Envoy refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortRefusal {
    pub port: u16,
    /// The route table; `None`: the listener
    pub table: Option<TableId>,
    pub text: Arc<str>,
}
