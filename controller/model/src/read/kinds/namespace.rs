//! Namespace.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::Name;
use crate::objects::{Meta, Namespace};

/// The label that an API server puts on every Namespace, so that selectors can name one.
const NAME_LABEL: &str = "kubernetes.io/metadata.name";

pub(super) fn read(meta: Meta, mut labels: BTreeMap<Name, Name>) -> Namespace {
    labels.insert(Arc::from(NAME_LABEL), meta.name.name.clone());
    Namespace { meta, labels }
}
