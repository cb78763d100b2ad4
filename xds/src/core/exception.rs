//! How a stream differs from its fleet's snapshot, name by name.
//!
//! A stream in step holds what the snapshot has under every name it follows and needs no memory for it. Only names that differ have an
//! [`Exception`]: changed since, being sent, refused, or differing since the proxy reconnected.

use std::sync::Arc;

use portolan_proto::{Resource, ResourceType, Version};

use super::retry::Retry;

/// What the proxy holds under a name.
#[derive(Clone, Debug)]
pub(crate) enum Has {
    /// Nothing, or it has been told that there is nothing
    Nothing,
    /// The empty table that stands in for a missing one
    Placeholder,
    /// This resource
    Content(Arc<Resource>),
    /// Something from an earlier stream, of which only the version is known; without a version perhaps nothing
    Unknown(Option<Version>),
}

/// What a response carried under a name.
#[derive(Clone, Debug)]
pub(crate) enum Sent {
    Removal,
    Placeholder,
    Content(Arc<Resource>),
}

/// What the proxy ought to hold under a name.
#[derive(Clone, Debug)]
pub(crate) enum Goal {
    Content(Arc<Resource>),
    /// An empty table, which answers 404
    Placeholder,
    /// Nothing: told by `removed_resources`
    Absent,
    /// What it has; there is nothing that could rightly be sent
    Keep,
}

/// The content that a proxy refused: `None` is a removal.
#[derive(Clone, Debug)]
pub(crate) struct Refusal {
    pub(crate) version: Option<Version>,
    /// To look for the culprit in
    pub(crate) resource: Option<Arc<Resource>>,
    pub(crate) text: String,
    /// It is sent again although it has not changed
    pub(crate) retry: Option<Retry>,
}

#[derive(Clone, Debug)]
pub(crate) struct Exception {
    pub(crate) has: Has,
    /// Refused along with others and perhaps applied nevertheless, since Envoy applies the good ones of some types (envoy.md 2 G); or
    /// perhaps removed, and perhaps still there
    pub(crate) unsure: Vec<Arc<Resource>>,
    /// Sent and not answered yet, with the nonce of the response
    pub(crate) sent: Option<(u64, Sent)>,
    /// To be sent although it matches
    pub(crate) force: bool,
    /// The proxy had nothing of the type when it asked for all of it: part of its first configuration
    pub(crate) first: bool,
    /// Boxed: rare, and a new proxy has an exception for each name
    pub(crate) refused: Option<Box<Refusal>>,
    /// Log position of the oldest change that the proxy has not accepted
    pub(crate) since: u64,
    /// Log position of the first change after what is being sent
    pub(crate) newer: Option<u64>,
}

/// The version of the empty table that stands in for a missing one.
pub(crate) fn placeholder_version() -> Version {
    Version::of(b"portolan: no such table")
}

impl Has {
    /// What `initial_resource_versions` says, given what stands there now.
    pub(crate) fn reported(version: Option<Version>, wanted: Option<&Arc<Resource>>) -> Self {
        match (version, wanted) {
            (Some(version), Some(resource)) if resource.version == version && !resource.is_held() => {
                Self::Content(Arc::clone(resource))
            }
            (Some(version), _) if version == placeholder_version() => Self::Placeholder,
            (version, _) => Self::Unknown(version),
        }
    }

    /// What a stream in step holds where the snapshot has `resource`.
    pub(crate) fn in_step(resource: Option<&Arc<Resource>>) -> Self {
        match resource {
            Some(resource) if !resource.is_held() => Self::Content(Arc::clone(resource)),
            _ => Self::Nothing,
        }
    }

    pub(crate) fn is_version(&self, version: Version) -> bool {
        match self {
            Self::Content(resource) => resource.version == version,
            Self::Unknown(known) => *known == Some(version),
            Self::Placeholder | Self::Nothing => false,
        }
    }

    pub(crate) const fn content(&self) -> Option<&Arc<Resource>> {
        match self {
            Self::Content(resource) => Some(resource),
            Self::Nothing | Self::Placeholder | Self::Unknown(_) => None,
        }
    }

    pub(crate) const fn is_nothing(&self) -> bool {
        matches!(self, Self::Nothing)
    }
}

impl Exception {
    pub(crate) const fn new(has: Has, since: u64) -> Self {
        Self { has, unsure: Vec::new(), sent: None, force: false, first: false, refused: None, since, newer: None }
    }

    /// What the proxy ought to hold, where the snapshot has `wanted`.
    ///
    /// Design invariant 4: a table or filter configuration is never answered or followed by a removal, since a missing table keeps its
    /// listener closed for ever and a removed filter configuration closes every new connection. `is_probe` is the one table that may
    /// be overwritten with the placeholder.
    pub(crate) fn goal(&self, kind: ResourceType, is_probe: bool, wanted: Option<&Arc<Resource>>) -> Goal {
        match wanted {
            Some(resource) if !resource.is_held() => Goal::Content(Arc::clone(resource)),
            _ => match kind {
                ResourceType::Route if is_probe || self.has.is_nothing() || matches!(self.has, Has::Placeholder) => {
                    Goal::Placeholder
                }
                ResourceType::Route | ResourceType::Extension => Goal::Keep,
                _ => Goal::Absent,
            },
        }
    }

    /// Whether `goal` is to be sent, now or once it may be. Refused content waits until it changes, or until it is tried again.
    pub(crate) fn is_pending(&self, goal: &Goal) -> bool {
        if self.sent.is_some() {
            return false;
        }
        let anyway = self.force || !self.unsure.is_empty();
        match goal {
            Goal::Content(resource) => {
                !self.is_refused(Some(resource.version)) && (anyway || !self.has.is_version(resource.version))
            }
            Goal::Placeholder => {
                !self.is_refused(Some(placeholder_version())) && (anyway || !matches!(self.has, Has::Placeholder))
            }
            Goal::Absent => !self.is_refused(None) && (anyway || !self.has.is_nothing()),
            Goal::Keep => false,
        }
    }

    /// Whether the proxy holds what a stream in step holds, and nothing needs to be remembered.
    pub(crate) fn is_settled(&self, goal: &Goal) -> bool {
        self.sent.is_none()
            && !self.is_pending(goal)
            && match goal {
                Goal::Content(resource) => self.has.is_version(resource.version),
                Goal::Placeholder => matches!(self.has, Has::Placeholder),
                Goal::Absent => self.has.is_nothing(),
                Goal::Keep => matches!(self.has, Has::Nothing | Has::Placeholder),
            }
    }

    /// The response that carried `sent` was refused along with others, and may have been applied to this name or not.
    pub(crate) fn unsure_of(&mut self, sent: &Sent) {
        self.force = true;
        match sent {
            Sent::Content(resource) => self.unsure.push(Arc::clone(resource)),
            Sent::Removal => match std::mem::replace(&mut self.has, Has::Nothing) {
                Has::Content(resource) => self.unsure.push(resource),
                Has::Unknown(_) => self.has = Has::Unknown(None),
                Has::Nothing | Has::Placeholder => {}
            },
            Sent::Placeholder => {}
        }
    }

    fn is_refused(&self, version: Option<Version>) -> bool {
        !self.is_retried() && self.refused.as_ref().is_some_and(|refusal| refusal.version == version)
    }

    /// Whether it is time to send again what was refused.
    pub(crate) fn is_retried(&self) -> bool {
        self.refused.as_ref().and_then(|refusal| refusal.retry).is_some_and(|retry| retry.is_due())
    }

    /// Everything that the proxy holds under the name, might hold, or is being sent.
    pub(crate) fn contents(&self) -> impl Iterator<Item = &Arc<Resource>> {
        let sent = match &self.sent {
            Some((_, Sent::Content(resource))) => Some(resource),
            _ => None,
        };
        self.has.content().into_iter().chain(&self.unsure).chain(sent)
    }
}
