//! Bytes and epochs move together (design invariant 1).

use std::collections::BTreeMap;

use portolan_proto::{ResourceType, Version};
use portolan_translate::epochs::epoch;

use crate::{PEM, cases, json, shown};

/// Lines `TYPE EPOCH CASE DIGEST`. Only ever appended to: the lines of an epoch say what its bytes were.
const LEDGER: &str = include_str!("../../testdata/epochs.txt");

type Digests = BTreeMap<String, String>;

/// Digest by case of everything that the case shows of a type.
fn digests(kind: ResourceType) -> Digests {
    let of_case = |case: &cases::Case| {
        let texts: Vec<String> = shown(case).filter(|resource| resource.key.kind == kind).map(json).collect();
        (!texts.is_empty()).then(|| (case.name.to_owned(), Version::of(texts.join("\n").as_bytes()).to_string()))
    };
    cases::all(PEM).iter().filter_map(of_case).collect()
}

fn recorded(kind: ResourceType, epoch: u32) -> Digests {
    let prefix = format!("{kind:?} {epoch} ");
    let entry = |line: &str| {
        let (case, digest) = line.strip_prefix(&prefix)?.split_once(' ')?;
        Some((case.to_owned(), digest.to_owned()))
    };
    LEDGER.lines().filter_map(entry).collect()
}

#[test]
fn bytes_move_only_with_the_epoch() {
    let mut missing = Vec::new();
    for kind in ResourceType::ALL {
        let known = recorded(kind, epoch(kind));
        for (case, digest) in digests(kind) {
            match known.get(&case) {
                Some(recorded) => assert_eq!(
                    recorded, &digest,
                    "{kind:?} of {case} is encoded differently: raise the type's epoch in src/epochs.rs and append all of its \
                     lines for the new epoch to testdata/epochs.txt"
                ),
                None => missing.push(format!("{kind:?} {} {case} {digest}", epoch(kind))),
            }
        }
    }
    assert!(missing.is_empty(), "append to testdata/epochs.txt:\n{}", missing.join("\n"));
}

#[test]
fn the_epoch_moves_only_with_bytes() {
    for kind in ResourceType::ALL {
        let current = epoch(kind);
        for earlier in 1..current {
            let before = recorded(kind, earlier);
            let same = digests(kind).iter().all(|(case, digest)| before.get(case).is_none_or(|old| old == digest));
            assert!(!same, "{kind:?} has epoch {current}, yet nothing differs from epoch {earlier}");
        }
    }
}
