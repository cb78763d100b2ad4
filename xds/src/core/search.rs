//! Finds the items that make a whole fail, by trying parts of it.
//!
//! In: items, of which the first `known` are known to pass together. Out: what to try next, and in the end the culprits. One culprit
//! among n items costs about log2(n) trials, of n items in total.
//!
//! Halving alone loses a conflict between items (two hosts with one domain: each half passes). Then the shortest failing prefix is
//! searched for; its last item is the culprit.

/// A search that has not ended.
#[derive(Debug)]
pub(crate) struct Search<T> {
    items: Vec<T>,
    known: usize,
    state: State,
    found: Vec<(T, String)>,
    /// What the last failing trial said
    text: String,
}

#[derive(Clone, Copy, Debug)]
enum State {
    /// The items that are not known to pass, together
    Unknown,
    /// All items together
    All,
    /// Something in `low..high` fails
    Range {
        low: usize,
        high: usize,
    },
    /// `..low` passes and `..high` fails
    Prefix {
        low: usize,
        high: usize,
    },
    Done,
}

/// More culprits than this in one table are reported as they are fixed.
const MOST: usize = 32;

impl<T> Search<T> {
    pub(crate) fn new(items: Vec<T>, known: usize) -> Self {
        Self { items, known, state: State::Unknown, found: Vec::new(), text: String::new() }
    }

    /// The items to try together; `None` when the search has ended.
    pub(crate) fn trial(&self) -> Option<&[T]> {
        match self.state {
            State::Unknown => self.items.get(self.known..),
            State::All => Some(&self.items),
            State::Range { low, high } => self.items.get(low..middle(low, high)),
            State::Prefix { low, high } => self.items.get(..middle(low, high)),
            State::Done => None,
        }
    }

    /// What came of the trial: the text of the failure, if it failed. Returns a culprit when it has just been found.
    pub(crate) fn answer(&mut self, failure: Option<String>) -> Option<&(T, String)> {
        let (failed, count) = (failure.is_some(), self.items.len());
        if let Some(text) = failure {
            self.text = text;
        }
        self.state = match self.state {
            State::Unknown if failed => State::Range { low: self.known, high: count },
            State::Unknown if self.known == 0 => State::Done,
            State::Unknown => State::All,
            State::All if failed => State::Prefix { low: self.known, high: count },
            State::All => State::Done,
            State::Range { low, high } => match (failed, middle(low, high)) {
                (true, middle) if middle == low + 1 => return self.culprit(low),
                (true, middle) => State::Range { low, high: middle },
                (false, middle) if middle < high => State::Range { low: middle, high },
                // Every part passes by itself: what fails is a combination.
                (false, _) => State::Prefix { low: self.known, high: count },
            },
            State::Prefix { low, high } => match (failed, middle(low, high)) {
                (true, middle) => State::Prefix { low, high: middle },
                (false, middle) => State::Prefix { low: middle, high },
            },
            State::Done => State::Done,
        };
        match self.state {
            State::Prefix { low, high } if high <= low + 1 => self.culprit(low),
            _ => None,
        }
    }

    /// Whether anything was found.
    pub(crate) fn has_found(&self) -> bool {
        !self.found.is_empty()
    }

    fn culprit(&mut self, index: usize) -> Option<&(T, String)> {
        if index >= self.items.len() {
            self.state = State::Done;
            return None;
        }
        self.found.push((self.items.remove(index), std::mem::take(&mut self.text)));
        let ended = self.found.len() == MOST || self.items.is_empty();
        self.state = if ended { State::Done } else { State::Unknown };
        self.found.last()
    }
}

/// Splits a range; a range of one item is its own first half.
const fn middle(low: usize, high: usize) -> usize {
    low + (high - low).div_ceil(2)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Runs the search against items that fail alone and pairs that fail together.
    fn run(count: usize, known: usize, bad: &[usize], pairs: &[(usize, usize)]) -> (Vec<usize>, usize) {
        let mut search = Search::new((0..count).collect(), known);
        let (mut found, mut tried) = (Vec::new(), 0);
        while let Some(trial) = search.trial() {
            tried += 1;
            assert!(tried < 10_000, "the search does not end");
            let single = trial.iter().find(|item| bad.contains(item)).map(|item| format!("bad {item}"));
            let pair = pairs
                .iter()
                .find(|(a, b)| trial.contains(a) && trial.contains(b))
                .map(|(a, b)| format!("conflict {a} {b}"));
            if let Some((item, text)) = search.answer(single.or(pair)) {
                assert!(!text.is_empty());
                found.push(*item);
            }
        }
        (found, tried)
    }

    #[test]
    fn one_culprit_costs_a_logarithm() {
        let (found, tried) = run(1_000, 0, &[637], &[]);
        assert_eq!(found, [637]);
        assert!(tried <= 14, "{tried}");
    }

    #[test]
    fn a_conflict_is_the_last_of_the_shortest_failing_prefix() {
        assert_eq!(run(50, 0, &[], &[(3, 40)]).0, [40]);
        assert_eq!(run(50, 45, &[], &[(3, 47)]).0, [47], "also with what is known to pass");
    }

    #[test]
    fn nothing_is_blamed_when_nothing_fails() {
        assert_eq!(run(10, 0, &[], &[]).0, [] as [usize; 0]);
        assert_eq!(run(10, 10, &[], &[]).0, [] as [usize; 0]);
        assert_eq!(run(0, 0, &[], &[]).0, [] as [usize; 0]);
    }

    proptest! {
        #[test]
        fn exactly_the_bad_items_are_found(
            count in 1_usize..60,
            known in 0_usize..60,
            bad in prop::collection::btree_set(0_usize..60, 0..6),
        ) {
            let known = known.min(count);
            let bad: Vec<_> = bad.into_iter().filter(|item| (known..count).contains(item)).collect();
            let (mut found, _) = run(count, known, &bad, &[]);
            found.sort_unstable();
            prop_assert_eq!(found, bad);
        }

        #[test]
        fn what_is_left_of_conflicting_items_passes(
            count in 2_usize..40,
            pairs in prop::collection::vec((0_usize..40, 0_usize..40), 0..4),
        ) {
            let pairs: Vec<_> = pairs.into_iter().filter(|(a, b)| a != b && *a < count && *b < count).collect();
            let (found, _) = run(count, 0, &[], &pairs);
            prop_assert!(pairs.iter().all(|(a, b)| found.contains(a) || found.contains(b)));
            prop_assert!(found.len() <= pairs.len());
        }
    }
}
