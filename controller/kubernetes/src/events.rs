//! Events on objects with which something is wrong.

use portolan_model::ObjectKey;
use portolan_model::ir::Status;

use crate::Meta;

/// Takes what has arisen.
#[derive(Clone, Default)]
pub struct EventSink {}

impl EventSink {
    pub(crate) fn arisen(&self, _key: &ObjectKey, _before: &Meta, _now: &Status) {}
}
