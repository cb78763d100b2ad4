//! What each owner's objects should be, what was last seen of them, and the steps from one to the other. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use serde_json::{Value, json};

use crate::backoff::growing;
use crate::resource::is_older;

/// Annotation with the hash of the manifest that was applied: equal means that there is nothing to write.
pub const APPLIED: &str = "portolan.dev/applied";
/// So often somebody may change an object before it is applied again at longer and longer intervals only.
const QUICK_REASSERTIONS: u32 = 5;

/// What fails so often in a row is told. The second time comes a second after the first.
const TELLS: u32 = 2;

/// UID of a Gateway or GatewayClass.
pub type Uid = Arc<str>;

/// An object of a fleet.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ObjectId {
    pub api_version: Arc<str>,
    pub kind: Arc<str>,
    pub namespace: Arc<str>,
    pub name: Arc<str>,
}

impl ObjectId {
    /// Of a manifest, if it has what a manifest must have.
    #[must_use]
    pub fn of(manifest: &Value) -> Option<Self> {
        let text = |value: &Value, field: &str| value.get(field).and_then(Value::as_str).map(Arc::<str>::from);
        let metadata = manifest.get("metadata")?;
        Some(Self {
            api_version: text(manifest, "apiVersion")?,
            kind: text(manifest, "kind")?,
            namespace: text(metadata, "namespace").unwrap_or_default(),
            name: text(metadata, "name")?,
        })
    }
}

impl fmt::Display for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, namespace, name, .. } = self;
        if namespace.is_empty() { write!(f, "{kind} {name}") } else { write!(f, "{kind} {namespace}/{name}") }
    }
}

/// What the watch tells of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    pub uid: Arc<str>,
    pub resource_version: Arc<str>,
    pub owners: BTreeSet<Uid>,
    /// [`APPLIED`]
    pub applied: Option<Arc<str>>,
    /// Differs when somebody wrote to it otherwise than to its status or scale
    pub fingerprint: u64,
}

/// One request.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    Apply {
        id: ObjectId,
        manifest: Value,
        hash: Arc<str>,
        is_new: bool,
    },
    /// Nothing wants it any more; it is ours, and this very object
    Delete {
        id: ObjectId,
        uid: Arc<str>,
        resource_version: Arc<str>,
    },
}

/// Something that could not be done, for the owner's status.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Problem {
    pub object: String,
    pub text: String,
}

/// All owners and all objects.
#[derive(Default)]
pub struct Plan {
    owners: BTreeMap<Uid, Owner>,
    seen: BTreeMap<ObjectId, Seen>,
}

#[derive(Default)]
struct Owner {
    wanted: Vec<(ObjectId, Arc<Manifest>)>,
    /// Counts what was wanted; steps for something older are not gone on with
    round: u64,
    is_dirty: bool,
    is_in_flight: bool,
    failures: u32,
    not_before: Option<Instant>,
    written: BTreeMap<ObjectId, Written>,
    problems: Vec<Problem>,
}

struct Manifest {
    value: Value,
    hash: Arc<str>,
}

struct Written {
    fingerprint: u64,
    reassertions: u32,
    not_before: Option<Instant>,
}

/// The steps for one owner.
#[derive(Debug)]
pub struct Round {
    pub owner: Uid,
    pub steps: Vec<Step>,
    pub number: u64,
}

/// What to do next.
#[derive(Debug)]
pub enum Next {
    Round(Round),
    At(Instant),
    Idle,
}

impl Plan {
    /// Everything that an owner should have, in the order in which it is best made. Nothing is deleted of an owner of which this has not
    /// been said: it may only not have been seen yet.
    pub fn want(&mut self, owner: &Uid, manifests: Vec<Value>) {
        let wanted = manifests.into_iter().filter_map(|value| {
            let hash: Arc<str> = format!("{:032x}", xxhash_rust::xxh3::xxh3_128(value.to_string().as_bytes())).into();
            Some((ObjectId::of(&value)?, Arc::new(Manifest { value, hash })))
        });
        let wanted: Vec<_> = wanted.collect();
        let known = self.owners.contains_key(owner);
        let entry = self.owners.entry(Arc::clone(owner)).or_default();
        let hashes = |wanted: &[(ObjectId, Arc<Manifest>)]| {
            wanted.iter().map(|(_, one)| Arc::clone(&one.hash)).collect::<Vec<_>>()
        };
        if known && hashes(&entry.wanted) == hashes(&wanted) {
            return;
        }
        entry.wanted = wanted;
        entry.round += 1;
        entry.is_dirty = true;
        entry.failures = 0;
        entry.not_before = None;
    }

    /// The owner is gone: whoever collects garbage does the rest.
    pub fn gone(&mut self, owner: &str) {
        self.owners.remove(owner);
    }

    /// Takes note of an object; `None`: it is gone.
    pub fn observe(&mut self, id: &ObjectId, seen: Option<Seen>) {
        // What a request returned counts more than an older word of the watch.
        if let (Some(seen), Some(known)) = (&seen, self.seen.get(id))
            && seen.uid == known.uid
            && is_older(&seen.resource_version, &known.resource_version)
        {
            return;
        }
        self.put(id, seen);
    }

    fn put(&mut self, id: &ObjectId, seen: Option<Seen>) {
        let before = match seen {
            Some(seen) => self.seen.insert(id.clone(), seen),
            None => self.seen.remove(id),
        };
        let now = self.seen.get(id);
        let concerned: BTreeSet<Uid> = before.iter().chain(now).flat_map(|seen| seen.owners.iter().cloned()).collect();
        for owner in &concerned {
            if let Some(owner) = self.owners.get_mut(owner) {
                owner.is_dirty = true;
            }
        }
        // One that lost its owner reference is missing to whoever wants it.
        for owner in self.owners.values_mut().filter(|owner| owner.wanted.iter().any(|(wanted, _)| wanted == id)) {
            owner.is_dirty = true;
        }
    }

    /// What is there of a kind, all of it, in one namespace or (empty) in all.
    pub fn list(&mut self, kind: &str, namespace: &str, objects: BTreeMap<ObjectId, Seen>) {
        let is_listed = |id: &&ObjectId| &*id.kind == kind && (namespace.is_empty() || &*id.namespace == namespace);
        let gone: Vec<ObjectId> =
            self.seen.keys().filter(is_listed).filter(|id| !objects.contains_key(id)).cloned().collect();
        for id in gone {
            self.put(&id, None);
        }
        for (id, seen) in objects {
            if self.seen.get(&id) != Some(&seen) {
                self.put(&id, Some(seen));
            }
        }
    }

    /// Looks at everything again.
    pub fn reconsider(&mut self) {
        for owner in self.owners.values_mut() {
            owner.is_dirty = true;
            owner.failures = 0;
            owner.not_before = None;
            owner.written.clear();
        }
    }

    /// The next owner for which something has to be done.
    pub fn next(&mut self, now: Instant) -> Next {
        let mut wake: Option<Instant> = None;
        for (uid, owner) in &mut self.owners {
            if owner.is_in_flight {
                continue;
            }
            if let Some(at) = owner.not_before {
                if at > now {
                    wake = Some(wake.map_or(at, |wake| wake.min(at)));
                    continue;
                }
                owner.not_before = None;
                owner.is_dirty = true;
            }
            if !owner.is_dirty {
                continue;
            }
            owner.is_dirty = false;
            let steps = steps(uid, owner, &self.seen, now);
            if let Some(at) = owner.not_before {
                wake = Some(wake.map_or(at, |wake| wake.min(at)));
            }
            if steps.is_empty() && owner.problems.is_empty() {
                continue;
            }
            owner.is_in_flight = true;
            return Next::Round(Round { owner: Arc::clone(uid), steps, number: owner.round });
        }
        wake.map_or(Next::Idle, Next::At)
    }

    /// Whether a round is still what is wanted.
    #[must_use]
    pub fn is_current(&self, round: &Round) -> bool {
        self.owners.get(&round.owner).is_some_and(|owner| owner.round == round.number)
    }

    /// An object has been applied.
    pub fn applied(&mut self, owner: &Uid, id: &ObjectId, seen: Seen, now: Instant) {
        if let Some(owner) = self.owners.get_mut(owner) {
            let reassertions = match owner.written.get(id) {
                // Nothing was to be written but what somebody else had changed.
                Some(_) if self.seen.get(id).is_some_and(|before| before.applied == seen.applied) => {
                    owner.written.get(id).map_or(0, |written| written.reassertions.saturating_add(1))
                }
                _ => 0,
            };
            let not_before = reassertions.checked_sub(QUICK_REASSERTIONS).map(|many| now + growing(many));
            owner.written.insert(id.clone(), Written { fingerprint: seen.fingerprint, reassertions, not_before });
        }
        // The watch says the same a moment later.
        self.seen.insert(id.clone(), seen);
    }

    /// A round has ended. What could not be done is tried again.
    pub fn finish(&mut self, round: &Round, problems: Vec<Problem>, now: Instant) {
        let Some(owner) = self.owners.get_mut(&round.owner) else { return };
        owner.is_in_flight = false;
        if owner.round == round.number {
            if problems.is_empty() {
                owner.failures = 0;
            } else {
                owner.not_before = Some(now + growing(owner.failures));
                owner.failures = owner.failures.saturating_add(1);
            }
        }
        owner.problems = problems;
    }

    /// What could not be done, by owner. Not what may only have been a hitch: it is tried again first.
    #[must_use]
    pub fn problems(&self) -> BTreeMap<Uid, Vec<Problem>> {
        let is_told = |owner: &Owner| !owner.problems.is_empty() && owner.failures >= TELLS;
        let with_problems = self.owners.iter().filter(|(_, owner)| is_told(owner));
        with_problems.map(|(uid, owner)| (Arc::clone(uid), owner.problems.clone())).collect()
    }
}

fn steps(uid: &Uid, owner: &mut Owner, seen: &BTreeMap<ObjectId, Seen>, now: Instant) -> Vec<Step> {
    let mut steps = Vec::new();
    for (id, manifest) in &owner.wanted {
        let seen = seen.get(id);
        let written = owner.written.get(id);
        let is_ours = seen.is_some_and(|seen| seen.owners.contains(uid));
        let is_applied = is_ours && seen.is_some_and(|seen| seen.applied.as_ref() == Some(&manifest.hash));
        if is_applied && let Some(seen) = seen {
            let Some(written) = written else {
                // A leader before this one applied it.
                let fingerprint = seen.fingerprint;
                owner.written.insert(id.clone(), Written { fingerprint, reassertions: 0, not_before: None });
                continue;
            };
            if written.fingerprint == seen.fingerprint {
                continue;
            }
            if let Some(at) = written.not_before.filter(|at| *at > now) {
                owner.not_before = Some(owner.not_before.map_or(at, |other| other.min(at)));
                continue;
            }
        }
        let (id, hash) = (id.clone(), Arc::clone(&manifest.hash));
        let mut manifest = manifest.value.clone();
        annotate(&mut manifest, &hash);
        steps.push(Step::Apply { id, manifest, hash, is_new: seen.is_none() });
    }
    let wanted: BTreeSet<&ObjectId> = owner.wanted.iter().map(|(id, _)| id).collect();
    for (id, seen) in seen {
        // One that another owner has too is not ours alone to delete.
        if seen.owners.len() == 1 && seen.owners.contains(uid) && !wanted.contains(id) {
            let (uid, resource_version) = (Arc::clone(&seen.uid), Arc::clone(&seen.resource_version));
            steps.push(Step::Delete { id: id.clone(), uid, resource_version });
        }
    }
    steps
}

fn annotate(manifest: &mut Value, hash: &str) {
    if let Some(metadata) = manifest.get_mut("metadata").and_then(Value::as_object_mut) {
        let annotations = metadata.entry("annotations").or_insert_with(|| json!({}));
        if let Some(annotations) = annotations.as_object_mut() {
            annotations.insert(APPLIED.into(), json!(hash));
        }
    }
}

#[cfg(test)]
mod tests;
