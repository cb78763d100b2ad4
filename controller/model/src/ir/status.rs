//! Statuses as the objects call for them: conditions without times and generations, which the writer adds.

use crate::objects::{ParentRef, RouteGroupKind};
use crate::{Condition, Name, NamespacedName};

/// The status of one object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Status {
    GatewayClass {
        conditions: Vec<Condition>,
        supported_features: Vec<Name>,
    },
    Gateway {
        conditions: Vec<Condition>,
        listeners: Vec<ListenerStatus>,
        /// Type and value
        addresses: Vec<(Name, Name)>,
        attached_listener_sets: usize,
    },
    ListenerSet {
        conditions: Vec<Condition>,
        listeners: Vec<ListenerStatus>,
    },
    /// HTTPRoute, GRPCRoute, TLSRoute, TCPRoute, UDPRoute
    Route {
        parents: Vec<ParentStatus>,
    },
    /// BackendTLSPolicy: by ancestor Gateway
    Policy {
        ancestors: Vec<(NamespacedName, Vec<Condition>)>,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListenerStatus {
    pub name: Name,
    pub attached_routes: usize,
    pub supported_kinds: Vec<RouteGroupKind>,
    pub conditions: Vec<Condition>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParentStatus {
    /// As the route wrote it
    pub parent: ParentRef,
    pub conditions: Vec<Condition>,
}
