//! The nodes of the graph and what they read.

use portolan_model::ir::{BackendId, ClusterKey, ListenerId};
use portolan_model::{Kind, Name, NamespacedName, ObjectKey};

use crate::Subject;
use crate::engine::HostKey;

/// A value that is computed.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Node {
    GatewayView(NamespacedName),
    ListenerPlans(NamespacedName),
    ParentView(ObjectKey),
    BackendView(BackendId),
    RouteView(ObjectKey),
    HostEntries(ObjectKey),
    /// Boxed, as in [`Read`]: there are a dozen and a half of these for each route, of which this alone is large
    VirtualHost(Box<HostKey>),
    Cluster(ClusterKey),
    Endpoints(ClusterKey),
    Secret(NamespacedName),
    Status(ObjectKey),
}

impl Node {
    /// A node reads only nodes of lower strata, so that computing in this order computes each at most once.
    pub const fn stratum(&self) -> u8 {
        match self {
            Self::GatewayView(_) => 0,
            Self::ListenerPlans(_) | Self::ParentView(_) | Self::BackendView(_) => 1,
            Self::RouteView(_) => 2,
            Self::HostEntries(_) => 3,
            Self::VirtualHost(..) | Self::Cluster(_) | Self::Endpoints(_) | Self::Secret(_) => 4,
            Self::Status(_) => 5,
        }
    }
}

/// Something that a node has read.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Read {
    Object(ObjectKey),
    /// The grants in a namespace
    Grants(Name),
    ListenerSetsOf(NamespacedName),
    Slices(NamespacedName),
    PoliciesFor(ObjectKey),
    Binding(NamespacedName),
    Fleet(NamespacedName),
    /// What of a Gateway's fleet could not be made
    Problems(NamespacedName),
    /// What the API server has of the kinds that are read
    Installed,
    GatewayView(NamespacedName),
    ParentView(ObjectKey),
    BackendView(BackendId),
    RouteView(ObjectKey),
    /// The routes under a hostname of a table
    Host(Box<HostKey>),
    /// Content that Envoy refused and that is therefore replaced by something else
    Refused(Box<(Subject, u128)>),
    /// The Gateways whose routes name a Service or Backend
    GatewaysUsing(ObjectKey),
    /// The number of routes at a listener
    Attached(ListenerId),
    /// The parts of tables that answer 500 for that reason, by route or, where there are no routes, Gateway
    Refusals(ObjectKey),
    /// Whether an instant has come, in seconds since the epoch
    Instant(i64),
}

/// The kind of a [`Read`], for the test that drops one kind at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ReadKind {
    Object(Kind),
    Grants,
    ListenerSetsOf,
    Slices,
    PoliciesFor,
    Binding,
    Fleet,
    Problems,
    Installed,
    GatewayView,
    ParentView,
    BackendView,
    RouteView,
    Host,
    GatewaysUsing,
    Attached,
    Refused,
    Refusals,
    Instant,
}

impl Read {
    pub const fn kind(&self) -> ReadKind {
        match self {
            Self::Object(key) => ReadKind::Object(key.kind),
            Self::Grants(_) => ReadKind::Grants,
            Self::ListenerSetsOf(_) => ReadKind::ListenerSetsOf,
            Self::Slices(_) => ReadKind::Slices,
            Self::PoliciesFor(_) => ReadKind::PoliciesFor,
            Self::Binding(_) => ReadKind::Binding,
            Self::Fleet(_) => ReadKind::Fleet,
            Self::Problems(_) => ReadKind::Problems,
            Self::Installed => ReadKind::Installed,
            Self::GatewayView(_) => ReadKind::GatewayView,
            Self::ParentView(_) => ReadKind::ParentView,
            Self::BackendView(_) => ReadKind::BackendView,
            Self::RouteView(_) => ReadKind::RouteView,
            Self::Host(..) => ReadKind::Host,
            Self::GatewaysUsing(_) => ReadKind::GatewaysUsing,
            Self::Attached(_) => ReadKind::Attached,
            Self::Refused(_) => ReadKind::Refused,
            Self::Refusals(_) => ReadKind::Refusals,
            Self::Instant(_) => ReadKind::Instant,
        }
    }
}
