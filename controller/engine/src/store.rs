//! The world as it was told: objects, and indexes over them.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use portolan_model::ir::{Binding, Installed};
use portolan_model::objects::Object;
use portolan_model::{Kind, Name, NamespacedName, ObjectKey};
use portolan_resolve::FleetState;

use crate::few::Few;
use crate::node::Read;
use crate::{Refused, Subject};

/// Objects by name, indexes by what is read of them.
#[derive(Default)]
pub struct Store {
    objects: HashMap<ObjectKey, Object>,
    indexes: HashMap<Read, Few<ObjectKey>>,
    bindings: HashMap<NamespacedName, Arc<Binding>>,
    fleets: HashMap<NamespacedName, FleetState>,
    problems: HashMap<NamespacedName, Arc<[Name]>>,
    installed: Option<Arc<Installed>>,
    /// Contents that Envoy refused, with what it said
    refused: BTreeMap<Subject, BTreeMap<u128, Arc<str>>>,
}

/// The indexes that an object stands in.
fn indexes(object: &Object) -> Vec<Read> {
    match object {
        Object::ReferenceGrant(grant) => vec![Read::Grants(Arc::clone(&grant.meta.name.namespace))],
        Object::ListenerSet(set) => match set.parent.kind() {
            Some(Kind::Gateway) => vec![Read::ListenerSetsOf(set.parent.resolve(&set.meta.name.namespace))],
            _ => Vec::new(),
        },
        Object::EndpointSlice(slice) => slice.service.iter().cloned().map(Read::Slices).collect(),
        Object::BackendTlsPolicy(policy) => policy
            .targets
            .iter()
            .filter_map(|target| {
                let kind = Kind::find(&target.group, &target.kind)?;
                let name = NamespacedName::new(Arc::clone(&policy.meta.name.namespace), Arc::clone(&target.name));
                Some(Read::PoliciesFor(ObjectKey::new(kind, name)))
            })
            .collect(),
        _ => Vec::new(),
    }
}

impl Store {
    /// Puts a value in force. Returns what reads differently now; nothing when the value is the same.
    pub fn set_object(&mut self, key: &ObjectKey, object: Option<Object>) -> Vec<Read> {
        if self.objects.get(key) == object.as_ref() {
            return Vec::new();
        }
        let mut changed = vec![Read::Object(key.clone())];
        if let Some(object) = &object {
            for index in indexes(object) {
                self.indexes.entry(index.clone()).or_default().insert(key.clone());
                changed.push(index);
            }
        }
        let now = changed.len();
        let old = match object {
            Some(object) => self.objects.insert(key.clone(), object),
            None => self.objects.remove(key),
        };
        for index in old.as_ref().map(indexes).unwrap_or_default() {
            if changed.get(1..now).is_some_and(|kept| kept.contains(&index)) {
                continue;
            }
            if let Some(keys) = self.indexes.get_mut(&index) {
                keys.remove(key);
                if keys.is_empty() {
                    self.indexes.remove(&index);
                }
            }
            changed.push(index);
        }
        changed
    }

    pub fn set_binding(&mut self, gateway: &NamespacedName, binding: Option<Binding>) -> Vec<Read> {
        if self.bindings.get(gateway).map(|old| &**old) == binding.as_ref() {
            return Vec::new();
        }
        match binding {
            Some(binding) => _ = self.bindings.insert(gateway.clone(), Arc::new(binding)),
            None => _ = self.bindings.remove(gateway),
        }
        vec![Read::Binding(gateway.clone())]
    }

    pub fn set_fleet(&mut self, gateway: &NamespacedName, state: FleetState) -> Vec<Read> {
        if self.fleet(gateway) == state {
            return Vec::new();
        }
        self.fleets.insert(gateway.clone(), state);
        vec![Read::Fleet(gateway.clone())]
    }

    pub fn set_problems(&mut self, gateway: &NamespacedName, problems: Vec<Name>) -> Vec<Read> {
        if *self.problems(gateway) == *problems {
            return Vec::new();
        }
        if problems.is_empty() {
            self.problems.remove(gateway);
        } else {
            self.problems.insert(gateway.clone(), problems.into());
        }
        vec![Read::Problems(gateway.clone())]
    }

    pub fn set_installed(&mut self, installed: Arc<Installed>) -> Vec<Read> {
        if self.installed.as_ref() == Some(&installed) {
            return Vec::new();
        }
        self.installed = Some(installed);
        vec![Read::Installed]
    }

    /// The last word counts: a listener that is tried again may be refused for another reason.
    pub fn set_refused(&mut self, subject: &Subject, content: u128, text: Option<&Arc<str>>) -> Vec<Read> {
        let contents = self.refused.entry(subject.clone()).or_default();
        let old = match text {
            Some(text) => contents.insert(content, Arc::clone(text)),
            None => contents.remove(&content),
        };
        if contents.is_empty() {
            self.refused.remove(subject);
        }
        if old.as_ref() == text { Vec::new() } else { vec![subject.read()] }
    }

    pub fn object(&self, kind: Kind, name: &NamespacedName) -> Option<&Object> {
        self.objects.get(&ObjectKey::new(kind, name.clone()))
    }

    pub fn contains(&self, key: &ObjectKey) -> bool {
        self.objects.contains_key(key)
    }

    pub fn get(&self, key: &ObjectKey) -> Option<&Object> {
        self.objects.get(key)
    }

    /// The objects in an index, by name.
    pub fn indexed(&self, index: &Read) -> impl Iterator<Item = &Object> {
        self.indexes.get(index).into_iter().flatten().filter_map(|key| self.objects.get(key))
    }

    pub fn binding(&self, gateway: &NamespacedName) -> Option<Arc<Binding>> {
        self.bindings.get(gateway).cloned()
    }

    pub fn fleet(&self, gateway: &NamespacedName) -> FleetState {
        self.fleets.get(gateway).cloned().unwrap_or_default()
    }

    pub fn problems(&self, gateway: &NamespacedName) -> Arc<[Name]> {
        self.problems.get(gateway).cloned().unwrap_or_default()
    }

    pub fn installed(&self) -> Option<Arc<Installed>> {
        self.installed.clone()
    }

    pub fn refused(&self, subject: &Subject, content: u128) -> Option<&Arc<str>> {
        self.refused.get(subject)?.get(&content)
    }

    pub fn has_refused(&self, subject: &Subject) -> bool {
        self.refused.contains_key(subject)
    }

    pub fn all_refused(&self) -> impl Iterator<Item = Refused> {
        self.refused.iter().flat_map(|(subject, contents)| {
            let refused = |(content, text): (&u128, &Arc<str>)| Refused {
                subject: subject.clone(),
                content: *content,
                text: Arc::clone(text),
            };
            contents.iter().map(refused)
        })
    }
}
