//! One value per resource type.

use std::ops::{Index, IndexMut};

use portolan_proto::ResourceType;

/// An array with one slot for each [`ResourceType`].
#[derive(Debug, Default)]
pub(crate) struct PerType<T>([T; ResourceType::ALL.len()]);

#[expect(clippy::indexing_slicing, reason = "the array has one slot per variant, and the variants count from 0")]
impl<T> Index<ResourceType> for PerType<T> {
    type Output = T;

    fn index(&self, kind: ResourceType) -> &T {
        &self.0[kind as usize]
    }
}

#[expect(clippy::indexing_slicing, reason = "the array has one slot per variant, and the variants count from 0")]
impl<T> IndexMut<ResourceType> for PerType<T> {
    fn index_mut(&mut self, kind: ResourceType) -> &mut T {
        &mut self.0[kind as usize]
    }
}

impl<T> PerType<T> {
    pub(crate) fn iter(&self) -> impl Iterator<Item = (ResourceType, &T)> {
        ResourceType::ALL.into_iter().zip(&self.0)
    }
}
