//! Sets that nearly always have one member: the routes of a hostname, the fleets of a cluster, the slices of a Service. A tree makes room
//! for eleven with the first; of the memory per route such sets were a tenth.

/// A sorted set in one piece of memory. Changing it costs O(members), a copy of bytes in which thousands are not felt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Few<T>(Vec<T>);

impl<T> Default for Few<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T: Ord> Few<T> {
    pub fn insert(&mut self, member: T) {
        if let Err(place) = self.0.binary_search(&member) {
            // The first growth of a vector would be to four.
            if self.0.is_empty() {
                self.0.reserve_exact(1);
            }
            self.0.insert(place, member);
        }
    }

    pub fn remove(&mut self, member: &T) {
        if let Ok(place) = self.0.binary_search(member) {
            self.0.remove(place);
        }
    }

    pub fn contains(&self, member: &T) -> bool {
        self.0.binary_search(member).is_ok()
    }

    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn iter(&self) -> std::slice::Iter<'_, T> {
        self.0.iter()
    }
}

impl<'a, T: Ord> IntoIterator for &'a Few<T> {
    type Item = &'a T;
    type IntoIter = std::slice::Iter<'a, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl<T: Ord> IntoIterator for Few<T> {
    type Item = T;
    type IntoIter = std::vec::IntoIter<T>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

#[test]
fn it_is_a_sorted_set() {
    let mut few = Few::default();
    for member in [3, 1, 2, 1, 3] {
        few.insert(member);
    }
    assert_eq!(few.iter().copied().collect::<Vec<_>>(), [1, 2, 3]);
    few.remove(&2);
    few.remove(&9);
    assert!(few.contains(&3) && !few.contains(&2) && !few.is_empty());
    assert_eq!(few.into_iter().collect::<Vec<_>>(), [1, 3]);
}
