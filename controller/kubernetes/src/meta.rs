//! What watches tell, and what the API server keeps beside an object's value.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

pub use portolan_model::ir::Bundle;
use portolan_model::objects::Object;
use portolan_model::read::Violation;
use portolan_model::{Kind, ObjectKey};

/// What the API server keeps beside an object's value. It is no part of the value: a difference here alone is no event for the engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Meta {
    /// Of this object, not of its name: one that is deleted and made again has another
    pub uid: Arc<str>,
    pub resource_version: Arc<str>,
    pub generation: i64,
    /// The version in which the object was read, as manifests write it: `gateway.networking.k8s.io/v1`, or `v1` of the core group
    pub api_version: Arc<str>,
    /// `.status` as it stands there, entries of other controllers too; `Null` where there is none
    pub status: Arc<serde_json::Value>,
}

/// An object as it was last seen.
#[derive(Clone, Debug)]
pub struct Observed {
    /// `None`: it cannot be read at all, as `violations` say; it counts as absent and is reported
    pub object: Option<Object>,
    pub meta: Meta,
    pub violations: Vec<Violation>,
}

/// How the watch of a kind is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KindState {
    /// Listed and followed, in this version
    Served(Arc<str>),
    /// The API server has no such kind (yet): there are no objects of it
    Absent,
    /// The API server does not let this account read it, and says so in these words
    Denied(Arc<str>),
    /// Broken, and tried again; the text says why
    Failing(Arc<str>),
}

/// News for whoever owns the state.
#[derive(Clone, Debug)]
pub enum Notice {
    /// One batch is one moment. `None`: the object is gone
    Changes(BTreeMap<ObjectKey, Option<Observed>>),
    /// The watch of a kind is in another state
    Kind { kind: Kind, state: KindState },
    /// The CRDs of the Gateway API that are installed, all of them, with their releases where they name one
    Bundles(BTreeMap<Kind, Option<Bundle>>),
    /// What is followed one by one has been read, or cannot be had: this set, as it was handed over last
    Followed(Arc<BTreeSet<ObjectKey>>),
    /// Every kind has been listed, is absent, or cannot be had: what was sent so far is the whole world. Once
    Synced,
}
