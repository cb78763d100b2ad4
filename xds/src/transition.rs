//! What the server tells the engine.

use std::fmt;
use std::sync::Arc;

use portolan_proto::{Origin, Part, ResourceKey, Version};

/// The set of proxies that share one snapshot. Opaque to the server.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FleetName(pub Arc<str>);

impl FleetName {
    /// The fleet of this name.
    #[must_use]
    pub fn new(name: impl Into<Arc<str>>) -> Self {
        Self(name.into())
    }
}

impl fmt::Display for FleetName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// One stream; never used twice within a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StreamId(pub u64);

/// A turn in what proxies hold or refuse.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Transition {
    /// A proxy has connected and is being served
    StreamOpened {
        /// Its fleet
        fleet: FleetName,
        /// Its stream
        stream: StreamId,
    },
    /// A proxy's stream has ended
    StreamClosed {
        /// Its fleet
        fleet: FleetName,
        /// Its stream
        stream: StreamId,
        /// Streams that the fleet has left
        remaining: usize,
    },
    /// Some proxy of the fleet has accepted, or refused and been reported for, every change before `position`; never goes back, not even
    /// for a fleet that is removed and made again
    Acked {
        /// The fleet
        fleet: FleetName,
        /// As `Server::publish` returned it
        position: u64,
        /// Nothing had been accepted in this fleet before, in this process
        first: bool,
    },
    /// A proxy refused this content. It is not sent to that proxy again until it changes, but for a listener whose port could not be
    /// bound: that is tried again, at longer and longer intervals, and told again only with another text. The same content may be
    /// reported again by other proxies of the fleet.
    Refused {
        /// The fleet
        fleet: FleetName,
        /// The resource
        key: ResourceKey,
        /// The resource's version; `None`: its removal
        version: Option<Version>,
        /// The part that is to blame
        part: Part,
        /// What the part, or the resource, was made from
        origins: Vec<Origin>,
        /// Envoy's text; at most about 4 kB, which Envoy cuts it at
        text: String,
    },
    /// No connected proxy refuses anything under this key any more. This says that the fleet is whole again, not that the refused
    /// content would be accepted: a unit remains refused as long as the objects produce it.
    RefusalCleared {
        /// The fleet
        fleet: FleetName,
        /// The resource
        key: ResourceKey,
    },
}
