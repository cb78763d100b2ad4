//! Which names a stream subscribes to, in one bit each.
//!
//! 200 streams that each subscribe to the same 10,000 names would hold two million entries as sets of strings. So a fleet numbers the
//! names of a type densely, and a stream holds a bit per number. A number is given back when the last stream lets go of the name.

use std::collections::HashMap;
use std::sync::Arc;

/// The numbers of the names of one type in one fleet.
#[derive(Debug, Default)]
pub(crate) struct Names {
    numbers: HashMap<Arc<str>, usize>,
    slots: Vec<Slot>,
    free: Vec<usize>,
}

#[derive(Debug)]
struct Slot {
    name: Arc<str>,
    subscribers: usize,
}

/// The names of one type that one stream subscribes to.
#[derive(Debug, Default)]
pub(crate) struct Subscribed {
    words: Vec<u64>,
    count: usize,
}

impl Subscribed {
    pub(crate) fn contains(&self, names: &Names, name: &str) -> bool {
        names.numbers.get(name).is_some_and(|number| self.bit(*number))
    }

    /// How many names there are.
    pub(crate) const fn len(&self) -> usize {
        self.count
    }

    /// Whether the name was not there before.
    pub(crate) fn insert(&mut self, names: &mut Names, name: &Arc<str>) -> bool {
        let number = names.number(name);
        if self.bit(number) {
            return false;
        }
        if self.words.len() <= number / 64 {
            self.words.resize(number / 64 + 1, 0);
        }
        if let Some(word) = self.words.get_mut(number / 64) {
            *word |= 1 << (number % 64);
        }
        names.subscribe(number);
        self.count += 1;
        true
    }

    /// Whether the name was there.
    pub(crate) fn remove(&mut self, names: &mut Names, name: &str) -> bool {
        let Some(number) = names.numbers.get(name).copied().filter(|number| self.bit(*number)) else { return false };
        if let Some(word) = self.words.get_mut(number / 64) {
            *word &= !(1 << (number % 64));
        }
        names.unsubscribe(number);
        self.count -= 1;
        true
    }

    /// Lets go of all names.
    pub(crate) fn clear(&mut self, names: &mut Names) {
        for (index, word) in std::mem::take(&mut self.words).into_iter().enumerate() {
            for bit in (0..64).filter(|bit| word & (1 << bit) != 0) {
                names.unsubscribe(index * 64 + bit);
            }
        }
        self.count = 0;
    }

    /// Bytes on the heap.
    #[cfg(test)]
    pub(crate) fn heap(&self) -> usize {
        self.words.capacity() * size_of::<u64>()
    }

    fn bit(&self, number: usize) -> bool {
        self.words.get(number / 64).is_some_and(|word| word & (1 << (number % 64)) != 0)
    }
}

impl Names {
    fn number(&mut self, name: &Arc<str>) -> usize {
        if let Some(number) = self.numbers.get(name) {
            return *number;
        }
        let slot = Slot { name: Arc::clone(name), subscribers: 0 };
        let number = self.free.pop().unwrap_or(self.slots.len());
        match self.slots.get_mut(number) {
            Some(free) => *free = slot,
            None => self.slots.push(slot),
        }
        self.numbers.insert(Arc::clone(name), number);
        number
    }

    fn subscribe(&mut self, number: usize) {
        if let Some(slot) = self.slots.get_mut(number) {
            slot.subscribers += 1;
        }
    }

    fn unsubscribe(&mut self, number: usize) {
        let Some(slot) = self.slots.get_mut(number) else { return };
        slot.subscribers -= 1;
        if slot.subscribers == 0 {
            self.numbers.remove(&slot.name);
            self.free.push(number);
        }
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.numbers.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_shared_and_given_back() {
        let mut names = Names::default();
        let (mut first, mut second) = (Subscribed::default(), Subscribed::default());
        let text: Vec<Arc<str>> = (0..200).map(|index| format!("name-{index}").into()).collect();
        for name in &text {
            assert!(first.insert(&mut names, name) && second.insert(&mut names, name));
        }
        assert!(!first.insert(&mut names, &text[7]), "a second time changes nothing");
        assert_eq!((names.len(), first.len()), (200, 200));
        assert!(first.remove(&mut names, "name-7") && !first.remove(&mut names, "name-7"));
        assert!(!first.contains(&names, "name-7") && second.contains(&names, "name-7"));
        second.clear(&mut names);
        assert_eq!((names.len(), second.len()), (199, 0));
        let other: Arc<str> = "other".into();
        assert!(second.insert(&mut names, &other));
        assert!(!first.contains(&names, "other"), "a number given back carries nothing over");
        assert_eq!(names.slots.len(), 200, "and is used again");
    }
}
