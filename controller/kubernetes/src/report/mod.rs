//! What one replica alone knows (design invariant 16): which Gateways' proxies have accepted their listeners, what proxies refused, which
//! fleets have a stream. Each replica writes its own report and reads those of all; the union goes into every engine alike, so that the
//! replica that leads shows what a follower's proxies said.
//!
//! ```text
//! xds ─Transition─▶ Own ─Report─▶ share ─ConfigMap─▶ API server ─▶ share of the others ─▶ merge ─▶ events ─▶ engine
//!                    └───────────────────────────────────────────────────────────────────▶
//! ```
//!
//! Silence of a replica says nothing: its report counts as it is until its pod is gone.

mod own;
mod share;

use std::collections::BTreeSet;
use std::sync::Arc;

use portolan_engine::{Event, Refused};
use portolan_model::NamespacedName;
use portolan_proto::{Origin, Part, ResourceKey, ResourceType, Version};
use serde::{Deserialize, Serialize};

pub use own::Own;
pub use share::{Pod, REPORT_LABEL, share};

/// What one replica knows, or several together. Fields that a later version adds are passed over.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Report {
    /// By UID: a Gateway of which a proxy has accepted the listeners
    pub programmed: BTreeSet<Arc<str>>,
    /// By UID: a Gateway of which a proxy is connected
    pub connected: BTreeSet<Arc<str>>,
    pub refusals: BTreeSet<Refusal>,
}

/// A content that a proxy refused.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Refusal {
    /// Whose proxy
    pub namespace: Arc<str>,
    pub gateway: Arc<str>,
    /// Type URL and name of the resource
    pub resource: Arc<str>,
    pub name: Arc<str>,
    /// Of the resource, in hexadecimal
    pub version: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part: Option<RefusedPart>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub origins: Vec<RefusedOrigin>,
    /// Envoy's; last, so that of two texts for one content the lesser stands first
    pub text: Arc<str>,
}

/// The part of a route table that is to blame.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum RefusedPart {
    Host { name: Arc<str>, version: String },
    Unit { version: String },
}

/// An object from which it was made.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct RefusedOrigin {
    pub kind: Arc<str>,
    pub namespace: Arc<str>,
    pub name: Arc<str>,
}

/// A report stays far below the 1 MiB that an object may have.
const LONGEST_TEXT: usize = 2_000;
const MOST_REFUSALS: usize = 200;

impl Refusal {
    fn new(
        gateway: &NamespacedName,
        key: &ResourceKey,
        version: Version,
        part: &Part,
        origins: &[Origin],
        text: &str,
    ) -> Self {
        let part = match part {
            Part::Whole => None,
            Part::Host(name, version) => {
                Some(RefusedPart::Host { name: Arc::clone(name), version: version.to_string() })
            }
            Part::Unit(version) => Some(RefusedPart::Unit { version: version.to_string() }),
        };
        let origins = origins.iter().map(|origin| RefusedOrigin {
            kind: Arc::clone(&origin.kind),
            namespace: Arc::clone(&origin.namespace),
            name: Arc::clone(&origin.name),
        });
        let text = text.trim();
        Self {
            namespace: Arc::clone(&gateway.namespace),
            gateway: Arc::clone(&gateway.name),
            resource: key.kind.type_url().into(),
            name: Arc::clone(&key.name),
            version: version.to_string(),
            part,
            origins: origins.collect(),
            text: text.get(..text.floor_char_boundary(LONGEST_TEXT)).unwrap_or_default().into(),
        }
    }

    /// What it means to an engine; nothing where another version of Portolan wrote it in words that this one does not know.
    #[must_use]
    pub fn refused(&self) -> Vec<Refused> {
        let (Some(key), Some(version)) = (self.key(), hexadecimal(&self.version)) else { return Vec::new() };
        let part = match &self.part {
            None => Some(Part::Whole),
            Some(RefusedPart::Host { name, version }) => {
                hexadecimal(version).map(|version| Part::Host(Arc::clone(name), version))
            }
            Some(RefusedPart::Unit { version }) => hexadecimal(version).map(Part::Unit),
        };
        let Some(part) = part else { return Vec::new() };
        let origin = |origin: &RefusedOrigin| Origin {
            kind: Arc::clone(&origin.kind),
            namespace: Arc::clone(&origin.namespace),
            name: Arc::clone(&origin.name),
            field: "".into(),
        };
        let origins: Vec<Origin> = self.origins.iter().map(origin).collect();
        Refused::attribute(&self.gateway(), &key, version, &part, &origins, &self.text)
    }

    fn gateway(&self) -> NamespacedName {
        NamespacedName::new(Arc::clone(&self.namespace), Arc::clone(&self.gateway))
    }

    fn key(&self) -> Option<ResourceKey> {
        ResourceType::from_type_url(&self.resource).map(|kind| ResourceKey::new(kind, Arc::clone(&self.name)))
    }

    /// The same content, in whatever words.
    fn is_same(&self, other: &Self) -> bool {
        let Self { namespace, gateway, resource, name, version, part, origins, text: _ } = self;
        (namespace, gateway, resource, name) == (&other.namespace, &other.gateway, &other.resource, &other.name)
            && (version, part, origins) == (&other.version, &other.part, &other.origins)
    }
}

fn hexadecimal(text: &str) -> Option<Version> {
    u128::from_str_radix(text, 16).ok().map(Version)
}

impl Report {
    /// What several replicas know together.
    #[must_use]
    pub fn merge<'a>(reports: impl IntoIterator<Item = &'a Self>) -> Self {
        let mut merged = Self::default();
        for report in reports {
            merged.programmed.extend(report.programmed.iter().cloned());
            merged.connected.extend(report.connected.iter().cloned());
            merged.refusals.extend(report.refusals.iter().cloned());
        }
        // One text for each content, and the same one on all replicas.
        let mut refusals: Vec<Refusal> = std::mem::take(&mut merged.refusals).into_iter().collect();
        refusals.dedup_by(|later, first| first.is_same(later));
        merged.refusals = refusals.into_iter().collect();
        merged
    }

    /// What an engine has to know that has been told everything up to `before`. Of Gateways whose proxies have accepted their listeners
    /// it is told by whoever knows the Gateways: `programmed` holds UIDs.
    ///
    /// A refusal that is gone is none of an engine's business, for it forgets those that nothing calls for by itself, and content that a
    /// proxy refused remains bad when the replica that heard it ends. Listeners alone may become acceptable as they are (a port that was
    /// in use), and nothing stands in for them.
    #[must_use]
    pub fn events(&self, before: &Self) -> Vec<Event> {
        let new = self.refusals.difference(&before.refusals).flat_map(Refusal::refused).map(Event::Refused);
        let is_gone = |refusal: &&Refusal| !self.refusals.iter().any(|other| other.is_same(refusal));
        let taken = before.refusals.iter().filter(is_gone).filter_map(|refusal| {
            let listener = refusal.key().filter(|key| key.kind == ResourceType::Listener)?;
            Some(Event::Taken { gateway: refusal.gateway(), listener })
        });
        // What is taken first: another content of the same listener may have been refused meanwhile.
        taken.chain(new).collect()
    }
}

#[cfg(test)]
mod tests;
