//! What proxies say, and what that means to the engine.

use std::collections::BTreeMap;

use portolan_engine::{Event, Refused};
use portolan_model::NamespacedName;
use portolan_proto::{Change, ResourceType};
use portolan_resolve::FleetState;
use portolan_xds::{FleetName, Transition};

use crate::Fleet;

/// What the proxies of each Gateway have said so far. The same for `run` and in a cluster (design invariant 16): the server's
/// transitions go in, in their order, and events for the engine come out.
#[derive(Debug, Default)]
pub struct Heard {
    states: BTreeMap<NamespacedName, FleetState>,
    /// Position of each fleet's log behind the last change of a listener
    listeners_at: BTreeMap<NamespacedName, u64>,
}

impl Heard {
    /// Notes the position at which changes of a fleet were published.
    pub fn published(&mut self, gateway: &NamespacedName, changes: &[Change], position: u64) {
        if changes.iter().any(|change| change.key.kind == ResourceType::Listener) {
            self.listeners_at.insert(gateway.clone(), position);
        }
    }

    /// Forgets a fleet that is removed: one that comes later under the name has not said anything.
    pub fn removed(&mut self, gateway: &NamespacedName) -> Option<Event> {
        self.listeners_at.remove(gateway);
        self.states.remove(gateway)?;
        Some(Event::Fleet { gateway: gateway.clone(), state: FleetState::default() })
    }

    /// A proxy has said so before, to another replica or another process: "From then on it stays True through generations, restarts,
    /// scaling and disconnects" (design invariant 14).
    pub fn recall(&mut self, gateway: &NamespacedName) -> Option<Event> {
        let state = FleetState { programmed: true };
        let before = self.states.insert(gateway.clone(), state.clone());
        (before.as_ref() != Some(&state)).then(|| Event::Fleet { gateway: gateway.clone(), state })
    }

    /// What the engine has to know of what a proxy said.
    pub fn hear(&mut self, transition: &Transition) -> Vec<Event> {
        match transition {
            Transition::Acked { fleet, position, .. } => {
                self.acked(&gateway_of(fleet), *position).into_iter().collect()
            }
            // That a removal is refused says nothing about any content.
            Transition::Refused { version: None, .. } => Vec::new(),
            Transition::Refused { fleet, key, version: Some(version), part, origins, text } => {
                let refused = Refused::attribute(&gateway_of(fleet), key, *version, part, origins, text);
                refused.into_iter().map(Event::Refused).collect()
            }
            // Of all else it says that what stands in for the refused content is accepted.
            Transition::RefusalCleared { fleet, key } if key.kind == ResourceType::Listener => {
                vec![Event::Taken { gateway: gateway_of(fleet), listener: key.clone() }]
            }
            Transition::RefusalCleared { .. } | Transition::StreamOpened { .. } | Transition::StreamClosed { .. } => {
                Vec::new()
            }
        }
    }

    /// "one proxy of the fleet has ACKed a Snapshot with the object's listeners" (design invariant 14); stays so.
    fn acked(&mut self, gateway: &NamespacedName, position: u64) -> Option<Event> {
        let has_listeners = self.listeners_at.get(gateway).is_some_and(|listeners| *listeners <= position);
        if has_listeners { self.recall(gateway) } else { None }
    }

    /// What the proxies of a Gateway have said so far.
    #[must_use]
    pub fn state(&self, gateway: &NamespacedName) -> FleetState {
        self.states.get(gateway).cloned().unwrap_or_default()
    }
}

impl Fleet {
    /// The name under which the xDS server knows the fleet.
    #[must_use]
    pub fn server_name(&self) -> FleetName {
        FleetName::new(self.to_string())
    }

    /// The same in a cluster, where the next Gateway of a name is another one, whose configuration proxies of the one before must not get.
    #[must_use]
    pub fn server_name_of(&self, uid: &str) -> FleetName {
        FleetName::new(format!("{self}/{uid}"))
    }
}

/// The Gateway of a [`Fleet::server_name`] or [`Fleet::server_name_of`].
#[must_use]
pub fn gateway_of(fleet: &FleetName) -> NamespacedName {
    let mut parts = fleet.0.split('/');
    let mut next = || parts.next().unwrap_or_default();
    NamespacedName::new(next(), next())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use portolan_proto::{Body, Content, Part, Resource, ResourceKey, Version};
    use portolan_xds::{Options, Server};

    use super::*;

    fn gateway() -> NamespacedName {
        NamespacedName::new("infra", "edge")
    }

    fn listener(name: &str) -> Change {
        let key = ResourceKey::new(ResourceType::Listener, name);
        let resource = Resource {
            key: key.clone(),
            version: Version::of(name.as_bytes()),
            body: Body::new(Content::Message(Vec::new().into())),
            references: Arc::from([]),
            origins: Arc::from([]),
        };
        Change { key, resource: Some(Arc::new(resource)) }
    }

    #[test]
    fn a_late_word_of_a_removed_fleet_does_not_count_for_the_next_of_its_name() {
        let fleet = Fleet::of(gateway()).server_name();
        let (server, _transitions) =
            Server::new(Options::default(), &mut prometheus_client::registry::Registry::default());
        let mut heard = Heard::default();
        let publish = |heard: &mut Heard, names: &[&str]| {
            let changes: Vec<Change> = names.iter().map(|name| listener(name)).collect();
            let position = server.publish(&fleet, changes.clone());
            heard.published(&gateway(), &changes, position);
            position
        };
        let acked = |position| Transition::Acked { fleet: fleet.clone(), position, first: true };
        // The old fleet's log is longer than that of the new one.
        let old = publish(&mut heard, &["http/80", "http/81", "http/82"]);
        assert_eq!(heard.hear(&acked(old)).len(), 1);
        assert!(heard.state(&gateway()).programmed);
        server.remove_fleet(&fleet);
        assert!(heard.removed(&gateway()).is_some());
        assert!(heard.hear(&acked(old)).is_empty(), "while there is none");
        let new = publish(&mut heard, &["http/80"]);
        assert!(heard.hear(&acked(old)).is_empty(), "this was said of another fleet");
        assert!(!heard.state(&gateway()).programmed);
        assert_eq!(heard.hear(&acked(new)).len(), 1);
        assert!(heard.state(&gateway()).programmed);
    }

    #[test]
    fn what_is_acknowledged_before_the_listeners_is_not_enough() {
        let fleet = Fleet::of(gateway()).server_name();
        let mut heard = Heard::default();
        heard.published(&gateway(), &[listener("http/80")], 7);
        let acked = |position| Transition::Acked { fleet: fleet.clone(), position, first: false };
        assert!(heard.hear(&acked(6)).is_empty());
        assert_eq!(heard.hear(&acked(7)).len(), 1);
        assert!(heard.hear(&acked(8)).is_empty(), "once is enough");
    }

    #[test]
    fn refusals_are_passed_on_with_whom_they_concern() {
        let fleet = Fleet::of(gateway()).server_name();
        let mut heard = Heard::default();
        let refused = |version| Transition::Refused {
            fleet: fleet.clone(),
            key: ResourceKey::new(ResourceType::Cluster, "service/shop/cart/80/http1"),
            version,
            part: Part::Whole,
            origins: Vec::new(),
            text: " no\n".into(),
        };
        let events = heard.hear(&refused(Some(Version(5))));
        let [Event::Refused(Refused { content: 5, text, .. })] = &events[..] else { panic!("{events:?}") };
        assert_eq!(&**text, "no");
        assert!(heard.hear(&refused(None)).is_empty());
        let cleared =
            |kind, name| Transition::RefusalCleared { fleet: fleet.clone(), key: ResourceKey::new(kind, name) };
        assert!(heard.hear(&cleared(ResourceType::Cluster, "service/shop/cart/80/http1")).is_empty());
        assert_eq!(heard.hear(&cleared(ResourceType::Listener, "http/80")).len(), 1);
    }
}
