//! What goes into the engine and what comes out.

use std::collections::BTreeMap;
use std::sync::Arc;

use portolan_model::ir::{Binding, Installed, Status};
use portolan_model::objects::{EnvoyProxy, GatewayAddress, Object};
use portolan_model::{Name, NamespacedName, ObjectKey};
use portolan_proto::{Change, ResourceKey};
use portolan_resolve::FleetState;

use crate::Refused;

/// What an engine must know before it starts.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// For the property tests: reads of this kind are not recorded, and the engine then must be found out to be wrong.
    pub forget: Option<crate::ReadKind>,
}

/// One change of the world.
#[derive(Clone, Debug)]
pub enum Event {
    /// An object is there with this value, or is gone
    Object { key: ObjectKey, object: Option<Object> },
    /// Where the proxies of a Gateway listen
    Binding { gateway: NamespacedName, binding: Option<Binding> },
    /// What the proxies of a Gateway have said
    Fleet { gateway: NamespacedName, state: FleetState },
    /// What of a Gateway's fleet could not be made as it should be; empty: nothing
    Problems { gateway: NamespacedName, problems: Vec<Name> },
    /// What the API server has of the kinds that are read. Without any such event all there is counts as installed
    Installed(Arc<Installed>),
    /// It is this time, in seconds since the epoch. Before the first of these no instant has come: no certificate is valid yet
    Time(i64),
    /// Envoy refused a content
    Refused(Refused),
    /// No proxy of a Gateway refuses this listener any more
    Taken { gateway: NamespacedName, listener: ResourceKey },
}

/// What a batch led to.
#[derive(Debug, Default)]
pub struct Output {
    /// Per fleet (one per Gateway) what differs, by type and name
    pub fleets: BTreeMap<NamespacedName, Vec<Change>>,
    /// Gateways that are gone or no longer Portolan's
    pub removed_fleets: Vec<NamespacedName>,
    /// Statuses that differ; `None`: the object is gone or not Portolan's concern
    pub statuses: BTreeMap<ObjectKey, Option<Status>>,
    /// What the proxies of a Gateway need, where it differs
    pub intents: BTreeMap<NamespacedName, Option<FleetIntent>>,
    /// How many nodes were computed
    pub computed: usize,
}

/// What a Gateway needs of its proxies.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FleetIntent {
    /// The ports that are served and whether with TLS, ascending
    pub ports: Vec<(u16, bool)>,
    /// `spec.addresses`
    pub addresses: Vec<GatewayAddress>,
    /// `spec.infrastructure.labels`
    pub labels: BTreeMap<Name, Name>,
    /// `spec.infrastructure.annotations`
    pub annotations: BTreeMap<Name, Name>,
    /// The EnvoyProxy that the Gateway itself names
    pub parameters: Option<Arc<EnvoyProxy>>,
    /// The EnvoyProxy that its class names
    pub class_parameters: Option<Arc<EnvoyProxy>>,
    /// Its class names parameters that are not there
    pub class_is_lost: bool,
    /// It cannot be done or is not known: a fleet that runs stays as it is, and none is made
    pub refused: bool,
}
