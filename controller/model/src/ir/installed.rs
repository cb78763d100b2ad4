//! What of the kinds that Portolan reads is installed in a cluster.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::{Kind, Name};

/// Which release of the Gateway API a CRD belongs to, by its annotations `gateway.networking.k8s.io/bundle-version` and `/channel`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bundle {
    /// Such as `v1.6.3`
    pub version: Arc<str>,
    /// `standard` or `experimental`
    pub channel: Arc<str>,
}

/// What the API server has of the kinds that Portolan reads, and lets it read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Installed {
    /// The CRDs of the Gateway API, each with its release where it names one; `None`: they cannot be read
    pub crds: Option<BTreeMap<Kind, Option<Bundle>>>,
    /// Kinds that the API server does not serve
    pub absent: BTreeSet<Kind>,
    /// Kinds that may not be read, with the API server's words
    pub denied: BTreeMap<Kind, Name>,
    /// Kinds that have not been followed for a while, with what went wrong
    pub failing: BTreeMap<Kind, Name>,
}
