//! What may be sent while the snapshot may be out of date (design invariant 17): the replica only helps.
//!
//! Another replica, which knows better, may have served the proxy before, or may next. So what the proxy holds stays as it is: nothing is
//! changed and nothing removed, since neither side can tell which of two versions is the newer one, and the older one may let in what has
//! been shut out since. What it asks for by name and lacks it gets, with the clusters that this names, since to wait would be worse: a listener
//! that waits for its table takes no connections. A proxy that has nothing of a type gets all of it, as it was last: a new one of every type,
//! one whose first stream ended too soon the listeners that it has not got.
//!
//! Endpoints and secrets of a reconnecting proxy are answered once more in any case, as a cluster of its may be warming (invariant 1): here too
//! where they are the very ones that it has, else not. A cluster that was warming then waits for its 15 s.
//!
//! All of this is a matter of what is *sent*. What is to be sent, and how far the log has been accepted, goes by the snapshot as ever, so a
//! replica that knows again what is going on simply goes on.

use std::collections::BTreeSet;
use std::sync::Arc;

use portolan_proto::{PROBE_TABLE, Resource, ResourceKey, ResourceType};

use super::exception::{Exception, Goal};
use super::fleet::Shared;
use super::plan::clusters_of;
use super::stream::{Stream, goal, key};

impl Stream {
    /// What `exception` is heading for now: not what has to wait.
    pub(super) fn goal_now(&self, shared: &Shared, kind: ResourceType, name: &Arc<str>, exception: &Exception) -> Goal {
        let goal = goal(&shared.snapshot, kind, name, exception);
        // What is on its way is.
        let is_free =
            !shared.is_cut_off || exception.sent.is_some() || self.helps(shared, kind, name, exception, &goal);
        if is_free { goal } else { Goal::Keep }
    }

    fn helps(&self, shared: &Shared, kind: ResourceType, name: &Arc<str>, exception: &Exception, goal: &Goal) -> bool {
        match goal {
            Goal::Content(resource) if exception.has.is_version(resource.version) => exception.unsure.is_empty(),
            // The table for trials, which serves nobody.
            _ if kind == ResourceType::Route && name.as_ref() == PROBE_TABLE => true,
            _ => {
                let is_asked_for = || self.types[kind].subscribed.contains(&shared.names[kind], name);
                let is_needed = || kind == ResourceType::Cluster && self.needed.contains(name);
                exception.has.is_nothing() && (exception.first || is_asked_for() || is_needed())
            }
        }
    }

    /// Finds out which clusters what the proxy is to be given calls for. Without them it would wait, or name what is not there.
    pub(super) fn look_for_needed(&mut self, shared: &Shared) {
        self.needed.clear();
        if !shared.is_cut_off {
            return;
        }
        let mut open = self.given(shared);
        let lacked = &self.types[ResourceType::Cluster].exceptions;
        let mut needed = BTreeSet::new();
        while let Some(resource) = open.pop() {
            for name in clusters_of(&resource) {
                let is_lacked = lacked.get(name).is_some_and(|exception| exception.has.is_nothing());
                if is_lacked && needed.insert(Arc::clone(name)) {
                    open.extend(shared.snapshot.get(&cluster(name)).cloned());
                }
            }
        }
        self.needed = needed;
    }

    /// What the proxy is to be given.
    fn given(&self, shared: &Shared) -> Vec<Arc<Resource>> {
        let mut given = Vec::new();
        for (kind, state) in self.types.iter() {
            for (name, exception) in &state.exceptions {
                let goal = self.goal_now(shared, kind, name, exception);
                if let Goal::Content(resource) = &goal
                    && exception.is_pending(&goal)
                {
                    given.push(Arc::clone(resource));
                }
            }
        }
        given
    }
}

fn cluster(name: &Arc<str>) -> ResourceKey {
    key(ResourceType::Cluster, name)
}
