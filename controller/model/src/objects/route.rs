//! References between objects.

use crate::{GATEWAY_GROUP, Kind, Name, NamespacedName};

/// A reference to an object of any group and kind, defaults applied; the namespace as written.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectRef {
    pub group: Name,
    pub kind: Name,
    /// `None`: the namespace of the object that refers
    pub namespace: Option<Name>,
    pub name: Name,
}

/// What a reference points at: a kind that Portolan reads, or something it does not know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    Known(Kind),
    Unknown,
}

impl ObjectRef {
    #[must_use]
    pub fn target(&self) -> Target {
        Kind::find(&self.group, &self.kind).map_or(Target::Unknown, Target::Known)
    }

    /// The full name, seen from an object in `namespace`.
    #[must_use]
    pub fn resolve(&self, namespace: &Name) -> NamespacedName {
        NamespacedName {
            namespace: self.namespace.clone().unwrap_or_else(|| namespace.clone()),
            name: self.name.clone(),
        }
    }
}

/// `parentRefs[]`, with group and kind as written so that the status repeats them to the letter.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ParentRef {
    /// Default `gateway.networking.k8s.io`
    pub group: Option<Name>,
    /// Default `Gateway`
    pub kind: Option<Name>,
    pub namespace: Option<Name>,
    pub name: Name,
    pub section_name: Option<Name>,
    pub port: Option<u16>,
}

impl ParentRef {
    /// The kind that is meant, if Portolan reads it.
    #[must_use]
    pub fn kind(&self) -> Option<Kind> {
        Kind::find(self.group.as_deref().unwrap_or(GATEWAY_GROUP), self.kind.as_deref().unwrap_or("Gateway"))
    }

    /// The full name, seen from an object in `namespace`.
    #[must_use]
    pub fn resolve(&self, namespace: &Name) -> NamespacedName {
        NamespacedName {
            namespace: self.namespace.clone().unwrap_or_else(|| namespace.clone()),
            name: self.name.clone(),
        }
    }
}
