//! The engine's state and how a batch goes through it.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use portolan_model::ir::{
    BackendId, BackendView, ClusterKey, GatewayView, HostEntry, ListenerId, ListenerPlan, ParentView, RouteView,
    Status, TableId,
};
use portolan_model::objects::Object;
use portolan_model::{Kind, Name, NamespacedName, ObjectKey};
use portolan_proto::{Resource, Snapshot};

use crate::clock::Clock;
use crate::few::Few;
use crate::fleet::Fleet;
use crate::graph::Graph;
use crate::node::{Node, Read};
use crate::recorder::Recorder;
use crate::refusals::Refusals;
use crate::store::Store;
use crate::{Event, FleetIntent, Options, Output, Subject};

/// A hostname of a route table.
pub type HostKey = (TableId, Name);

/// Why a hostname exists in a table.
#[derive(Default)]
pub struct HostSlot {
    /// The routes under it
    pub routes: Few<ObjectKey>,
    /// A listener has it, with or without routes
    pub listener: bool,
}

/// A cluster and its endpoints, with the fleets that use them.
#[derive(Default)]
pub struct ClusterSlot {
    pub fleets: Few<NamespacedName>,
    pub cluster: Option<Arc<Resource>>,
    pub endpoints: Option<Arc<Resource>>,
}

/// A secret, with the fleets that use it.
#[derive(Default)]
pub struct SecretSlot {
    pub fleets: Few<NamespacedName>,
    pub secret: Option<Arc<Resource>>,
}

/// The incremental engine. See the crate's documentation.
pub struct Engine {
    pub(crate) options: Options,
    pub(crate) store: Store,
    pub(crate) clock: Clock,
    pub(crate) graph: Graph,
    pub(crate) gateway_views: HashMap<NamespacedName, Arc<GatewayView>>,
    pub(crate) listener_plans: HashMap<NamespacedName, Vec<ListenerPlan>>,
    /// The hostnames that exist by virtue of a Gateway's listeners
    pub(crate) listener_hosts: HashMap<NamespacedName, BTreeSet<HostKey>>,
    pub(crate) parent_views: HashMap<ObjectKey, Option<Arc<ParentView>>>,
    pub(crate) backend_views: HashMap<BackendId, Arc<BackendView>>,
    pub(crate) route_views: HashMap<ObjectKey, Arc<RouteView>>,
    pub(crate) host_entries: HashMap<ObjectKey, Vec<HostEntry>>,
    pub(crate) hosts: HashMap<HostKey, HostSlot>,
    pub(crate) attached: HashMap<ListenerId, BTreeSet<ObjectKey>>,
    /// By Service or Backend the Gateways whose routes name it, by name, with the number of such routes
    pub(crate) target_users: HashMap<ObjectKey, Vec<(NamespacedName, usize)>>,
    pub(crate) clusters: HashMap<ClusterKey, ClusterSlot>,
    pub(crate) secrets: HashMap<NamespacedName, SecretSlot>,
    pub(crate) refusals: Refusals,
    pub(crate) statuses: HashMap<ObjectKey, Status>,
    pub(crate) intents: HashMap<NamespacedName, FleetIntent>,
    pub(crate) fleets: BTreeMap<NamespacedName, Fleet>,
}

impl Engine {
    #[must_use]
    pub fn new(options: Options) -> Self {
        Self {
            options,
            store: Store::default(),
            clock: Clock::new(),
            graph: Graph::new(),
            gateway_views: HashMap::new(),
            listener_plans: HashMap::new(),
            listener_hosts: HashMap::new(),
            parent_views: HashMap::new(),
            backend_views: HashMap::new(),
            route_views: HashMap::new(),
            host_entries: HashMap::new(),
            hosts: HashMap::new(),
            attached: HashMap::new(),
            target_users: HashMap::new(),
            clusters: HashMap::new(),
            secrets: HashMap::new(),
            refusals: Refusals::default(),
            statuses: HashMap::new(),
            intents: HashMap::new(),
            fleets: BTreeMap::new(),
        }
    }

    /// Takes a batch of events and computes what depends on them. The batch counts as one moment: nothing in between is seen from
    /// outside.
    pub fn apply(&mut self, events: impl IntoIterator<Item = Event>) -> Output {
        for event in events {
            let changed = match event {
                Event::Object { key, object } => {
                    // While the object is there, the nodes' own reads have them computed again; when it goes, they go.
                    if object.is_some() != self.store.contains(&key) {
                        self.want_nodes_of(&key);
                    }
                    self.store.set_object(&key, object)
                }
                Event::Binding { gateway, binding } => self.store.set_binding(&gateway, binding),
                Event::Fleet { gateway, state } => self.store.set_fleet(&gateway, state),
                Event::Problems { gateway, problems } => self.store.set_problems(&gateway, problems),
                Event::Installed(installed) => self.store.set_installed(installed),
                Event::Time(now) => self.clock.set(now),
                Event::Refused(refused) => self.refuse(refused),
                Event::Taken { gateway, listener } => self.take_listener(&gateway, &listener),
            };
            for read in changed {
                self.graph.touch(&read);
            }
        }
        let mut output = Output::default();
        loop {
            while let Some(node) = self.graph.next() {
                self.compute(&node, &mut output);
                output.computed += 1;
            }
            if !self.forget_refusals() {
                break;
            }
        }
        for (name, fleet) in &mut self.fleets {
            let subject = Subject::Gateway(name.clone());
            let changes = fleet.publish(&|version| self.store.refused(&subject, version.0).is_some());
            if !changes.is_empty() {
                output.fleets.insert(name.clone(), changes);
            }
        }
        output
    }

    /// The nodes that exist because an object does.
    fn want_nodes_of(&mut self, key: &ObjectKey) {
        let name = || key.name.clone();
        match key.kind {
            Kind::Gateway => {
                self.graph.want(&Node::GatewayView(name()));
                self.graph.want(&Node::ListenerPlans(name()));
            }
            kind if kind.is_route() => {
                self.graph.want(&Node::RouteView(key.clone()));
                self.graph.want(&Node::HostEntries(key.clone()));
            }
            Kind::GatewayClass | Kind::ListenerSet | Kind::BackendTLSPolicy => {}
            _ => return,
        }
        self.graph.want(&Node::Status(key.clone()));
    }

    /// The resources of a Gateway's fleet.
    #[must_use]
    pub fn snapshot(&self, gateway: &NamespacedName) -> Option<&Snapshot> {
        self.fleets.get(gateway).map(Fleet::snapshot)
    }

    /// The Gateways that have a fleet, by name.
    pub fn fleets(&self) -> impl Iterator<Item = &NamespacedName> {
        self.fleets.keys()
    }

    /// What the fleet of a Gateway needs.
    #[must_use]
    pub fn intent(&self, gateway: &NamespacedName) -> Option<&FleetIntent> {
        self.intents.get(gateway)
    }

    #[must_use]
    pub fn status(&self, key: &ObjectKey) -> Option<&Status> {
        self.statuses.get(key)
    }

    #[must_use]
    pub fn object(&self, key: &ObjectKey) -> Option<&Object> {
        self.store.get(key)
    }

    /// When the time will make a difference next, in seconds since the epoch. Whoever owns a clock then tells the time.
    #[must_use]
    pub fn due(&self) -> Option<i64> {
        self.clock.due()
    }

    /// Whether it makes a difference that it is this time, which may also be an earlier one than was told last.
    #[must_use]
    pub fn is_due(&self, now: i64) -> bool {
        self.clock.between(now).next().is_some()
    }

    /// The world as resolution sees it, for `explain` and for tests.
    #[must_use]
    pub fn world(&self) -> Recorder<'_> {
        Recorder::new(self)
    }

    /// Nodes and reads that are kept: none in an empty world.
    #[must_use]
    pub fn graph_size(&self) -> usize {
        self.graph.size() + self.clock.watched()
    }

    /// The kinds of reads that nodes have made, for the test that drops them one at a time.
    #[must_use]
    pub fn read_kinds(&self) -> BTreeSet<crate::ReadKind> {
        self.graph.read_kinds()
    }

    /// Notes what a node read, and lets go of values that nobody reads any more.
    pub(crate) fn record(&mut self, node: &Node, reads: &[Read]) {
        for read in reads {
            if let Read::Instant(instant) = read {
                self.clock.watch(*instant);
            }
        }
        let unread = self.graph.record(node, reads);
        self.collect(unread);
    }

    /// Forgets a node whose subject is gone.
    pub(crate) fn drop_node(&mut self, node: &Node) {
        let unread = self.graph.drop_node(node);
        self.collect(unread);
    }

    fn collect(&mut self, unread: Vec<Read>) {
        for read in unread {
            match read {
                Read::ParentView(key) => {
                    self.parent_views.remove(&key);
                    self.graph.drop_node(&Node::ParentView(key));
                }
                Read::BackendView(key) => {
                    self.backend_views.remove(&key);
                    self.graph.drop_node(&Node::BackendView(key));
                }
                Read::Instant(instant) => self.clock.unwatch(instant),
                _ => {}
            }
        }
    }
}
