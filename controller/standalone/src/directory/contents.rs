//! What the files of a directory say taken together, and what of it is in force. Pure: the time comes in as an argument.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use portolan_model::ObjectKey;
use portolan_model::objects::{Bookkeeping, Object};
use portolan_model::read::{self, Location, Manifest, Severity, Violation};

use super::scan::{Scan, Text};
use crate::{Finding, FindingChanges};

/// How long an object may be absent before it counts as deleted: editors remove and write anew, `mv` and `cp` are no transaction.
const ABSENCE: Duration = Duration::from_millis(100);
/// The same where everything is gone at once, or the directory was: it is being replaced rather than emptied.
const LONG_ABSENCE: Duration = Duration::from_secs(2);

/// An object as it now stands in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Applied {
    pub object: Object,
    /// As the manifest wrote it
    pub api_version: Arc<str>,
    pub location: Location,
    pub bookkeeping: Bookkeeping,
}

/// What differs since the last update.
#[derive(Debug, Default)]
pub struct Update {
    /// New, different or (`None`) gone objects, by key
    pub objects: BTreeMap<ObjectKey, Option<Arc<Applied>>>,
    pub findings: FindingChanges,
}

impl Update {
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.objects.is_empty() && self.findings.is_empty()
    }
}

/// The files and the objects in force.
#[derive(Debug)]
pub struct Contents {
    root: Arc<str>,
    files: BTreeMap<Arc<str>, File>,
    /// Where each object is written, sorted; the first is the one that counts
    places: BTreeMap<ObjectKey, Vec<(Arc<str>, usize)>>,
    in_force: BTreeMap<ObjectKey, Arc<Applied>>,
    /// Objects in force that are written nowhere, with the time at which they count as deleted
    leaving: BTreeMap<ObjectKey, Instant>,
    /// The directory could not be listed at the last look
    missing: bool,
    /// Nothing was written any more at the last look, while something was in force
    emptied: bool,
    findings: BTreeMap<Subject, Vec<Finding>>,
}

#[derive(Debug, Default)]
struct File {
    /// The objects that Portolan reads, of the last text that parsed
    written: Box<[Written]>,
}

/// An object of a file: no more than is needed should it come in force later, when one before it goes.
#[derive(Debug)]
struct Written {
    key: ObjectKey,
    line: u32,
    column: u32,
    /// `None`: an API server would refuse it. What is in force shares it
    accepted: Option<Arc<Applied>>,
    violations: Box<[Violation]>,
}

impl Written {
    fn new(manifest: Manifest) -> Option<Self> {
        let Location { line, column, .. } = manifest.location;
        let object = if manifest.is_refused() { None } else { manifest.object };
        let accepted = object.map(|object| {
            let (location, bookkeeping) = (manifest.location, manifest.bookkeeping);
            Arc::new(Applied { object, api_version: manifest.api_version.into(), location, bookkeeping })
        });
        Some(Self { key: manifest.key?, line, column, accepted, violations: manifest.violations.into() })
    }
}

/// What findings are kept by.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Subject {
    Root,
    File(Arc<str>),
    Object(ObjectKey),
}

impl Contents {
    /// Of the directory named `root`, not yet read.
    #[must_use]
    pub fn new(root: Arc<str>) -> Self {
        Self {
            root,
            files: BTreeMap::new(),
            places: BTreeMap::new(),
            in_force: BTreeMap::new(),
            leaving: BTreeMap::new(),
            missing: false,
            emptied: false,
            findings: BTreeMap::new(),
        }
    }

    /// All findings, by file and line.
    #[must_use]
    pub fn findings(&self) -> Vec<Finding> {
        let mut findings: Vec<Finding> = self.findings.values().flatten().cloned().collect();
        findings.sort();
        findings
    }

    /// The objects in force.
    #[must_use]
    pub const fn objects(&self) -> &BTreeMap<ObjectKey, Arc<Applied>> {
        &self.in_force
    }

    /// When [`Contents::settle`] has something to do.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        self.leaving.values().min().copied().filter(|_| !self.missing)
    }

    /// Takes in what a look at the directory has found.
    pub fn update(&mut self, scan: Scan, now: Instant) -> Update {
        let mut update = Update::default();
        if let Some(reason) = scan.missing {
            self.missing = true;
            let meanwhile = "everything that it held stays in force".to_string();
            let message = format!("the directory cannot be listed: {reason}; create it again, or stop portolan");
            let finding = Finding::of_file(&self.root, message, Some(meanwhile));
            self.replace(Subject::Root, vec![finding], &mut update);
            return update;
        }
        let returned = std::mem::take(&mut self.missing);
        let mut touched = BTreeSet::new();
        for (file, text) in scan.changed {
            self.take_in(&file, text, &mut touched, &mut update);
        }
        if returned {
            touched.extend(self.leaving.keys().cloned());
        }
        for key in touched {
            self.decide(&key, now, &mut update);
        }
        self.consider_emptiness(returned, now, &mut update);
        update
    }

    /// Counts as deleted what has been absent for long enough.
    pub fn settle(&mut self, now: Instant) -> Update {
        let mut update = Update::default();
        if self.missing {
            return update;
        }
        let due: Vec<ObjectKey> =
            self.leaving.iter().filter(|(_, deadline)| **deadline <= now).map(|(key, _)| key.clone()).collect();
        for key in due {
            self.leaving.remove(&key);
            self.in_force.remove(&key);
            update.objects.insert(key, None);
        }
        if self.leaving.is_empty() {
            self.replace(Subject::Root, Vec::new(), &mut update);
        }
        update
    }

    fn take_in(&mut self, file: &Arc<str>, text: Text, touched: &mut BTreeSet<ObjectKey>, update: &mut Update) {
        let read = match text {
            Text::Gone => {
                self.set_written(file, Box::default(), touched);
                self.files.remove(file);
                return self.replace(Subject::File(Arc::clone(file)), Vec::new(), update);
            }
            Text::Unusable(reason) => Err(Finding::of_file(file, reason, Some(self.kept(file)))),
            Text::Read(bytes) => read::manifests(file, &bytes)
                .map_err(|violation| Finding::of_violation(&violation, Some(self.kept(file)))),
        };
        let findings = match read {
            Err(finding) => vec![finding],
            Ok(manifests) => {
                let findings = remarks(&manifests);
                self.set_written(file, manifests.into_iter().filter_map(Written::new).collect(), touched);
                findings
            }
        };
        self.replace(Subject::File(Arc::clone(file)), findings, update);
    }

    /// What stays in force of a file that cannot be read.
    fn kept(&self, file: &Arc<str>) -> String {
        let kept = self.files.get(file).is_some_and(|file| !file.written.is_empty());
        let text = if kept { "what it held when it was last read stays in force" } else { "nothing of it is in force" };
        text.into()
    }

    fn set_written(&mut self, file: &Arc<str>, mut written: Box<[Written]>, touched: &mut BTreeSet<ObjectKey>) {
        for one in &mut written {
            if let (Some(new), Some(old)) = (&mut one.accepted, self.in_force.get(&one.key)) {
                share(new, old);
            }
        }
        let entry = self.files.entry(Arc::clone(file)).or_default();
        let before = std::mem::replace(&mut entry.written, written);
        for Written { key, .. } in before {
            if let Some(places) = self.places.get_mut(&key) {
                places.retain(|(other, _)| other != file);
                if places.is_empty() {
                    self.places.remove(&key);
                }
            }
            touched.insert(key);
        }
        for (index, Written { key, .. }) in entry.written.iter().enumerate() {
            // Nearly all objects are written once.
            let places = self.places.entry(key.clone()).or_insert_with(|| Vec::with_capacity(1));
            let place = (Arc::clone(file), index);
            let position = places.partition_point(|other| *other < place);
            places.insert(position, place);
            touched.insert(key.clone());
        }
    }

    /// Decides what is in force for one object.
    fn decide(&mut self, key: &ObjectKey, now: Instant, update: &mut Update) {
        let places = self.places.get(key).into_iter().flatten();
        let written: Vec<(&Arc<str>, &Written)> =
            places.filter_map(|(file, index)| Some((file, self.files.get(file)?.written.get(*index)?))).collect();
        let Some((first, others)) = written.split_first() else {
            if self.in_force.contains_key(key) {
                self.leaving.insert(key.clone(), now + ABSENCE);
            }
            return self.replace(Subject::Object(key.clone()), Vec::new(), update);
        };
        let accepted = first.1.accepted.clone();
        let meanwhile = accepted.is_none().then(|| {
            let text = if self.in_force.contains_key(key) {
                "its last accepted version stays in force"
            } else {
                "it is not in force"
            };
            text.to_string()
        });
        let mut findings: Vec<Finding> = first
            .1
            .violations
            .iter()
            .map(|violation| {
                Finding::of_violation(violation, meanwhile.clone().filter(|_| violation.severity == Severity::Error))
            })
            .collect();
        findings.extend(others.iter().map(|other| duplicate(key, *first, *other)));
        self.leaving.remove(key);
        if let Some(applied) = accepted
            && self.in_force.get(key) != Some(&applied)
        {
            self.in_force.insert(key.clone(), Arc::clone(&applied));
            update.objects.insert(key.clone(), Some(applied));
        }
        self.replace(Subject::Object(key.clone()), findings, update);
    }

    /// A directory that lost everything at once is more often being replaced than meant so: what leaves gets more time.
    fn consider_emptiness(&mut self, returned: bool, now: Instant, update: &mut Update) {
        let emptied = self.places.is_empty() && !self.leaving.is_empty();
        let before = std::mem::replace(&mut self.emptied, emptied);
        if (emptied && !before) || returned {
            for deadline in self.leaving.values_mut() {
                *deadline = (*deadline).max(now + LONG_ABSENCE);
            }
        }
        let findings = if emptied {
            let meanwhile = format!("what they said stays in force for {} s", LONG_ABSENCE.as_secs());
            vec![Finding::of_file(
                &self.root,
                "the directory holds no manifests any more; write them again",
                Some(meanwhile),
            )]
        } else {
            Vec::new()
        };
        self.replace(Subject::Root, findings, update);
    }

    fn replace(&mut self, subject: Subject, after: Vec<Finding>, update: &mut Update) {
        let before = self.findings.remove(&subject).unwrap_or_default();
        update.findings.replace(&before, &after);
        if !after.is_empty() {
            self.findings.insert(subject, after);
        }
    }
}

/// Findings on what Portolan does not read.
fn remarks(manifests: &[Manifest]) -> Vec<Finding> {
    let ignored = manifests.iter().filter(|manifest| manifest.key.is_none());
    ignored.flat_map(|manifest| &manifest.violations).map(|violation| Finding::of_violation(violation, None)).collect()
}

/// A value that is equal to the one in force is no event, so whoever has that one keeps it: a file of which one object has changed
/// would otherwise be held twice.
fn share(new: &mut Arc<Applied>, old: &Arc<Applied>) {
    if new == old {
        *new = Arc::clone(old);
    } else if new.object == old.object {
        Arc::make_mut(new).object = old.object.clone();
    }
}

fn duplicate(key: &ObjectKey, first: (&Arc<str>, &Written), other: (&Arc<str>, &Written)) -> Finding {
    let (file, line) = (first.0, first.1.line);
    Finding {
        file: Arc::clone(other.0),
        line: other.1.line,
        column: other.1.column,
        object: Some(key.to_string()),
        field: "metadata.name".into(),
        message: format!(
            "the same object is written in {file}:{line} too; remove one of them, or give it another name"
        ),
        meanwhile: Some(format!("that of {file}:{line} is in force, which comes first by path")),
        error: true,
    }
}

#[cfg(test)]
mod tests {
    use portolan_model::objects::Object;

    use super::*;

    const ONE: &str = "apiVersion: v1\nkind: Namespace\nmetadata: {name: one}\n---\n";
    const TWO: &str = "apiVersion: v1\nkind: Namespace\nmetadata: {name: two}\n---\n";

    fn scan(text: &str) -> Scan {
        Scan { changed: vec![("a.yaml".into(), Text::Read(text.into()))], ..Scan::default() }
    }

    #[test]
    fn a_file_is_held_once_however_often_it_is_written_anew() {
        let mut contents = Contents::new("dir".into());
        let now = Instant::now();
        let update = contents.update(scan(TWO), now);
        let (key, first) = update.objects.into_iter().next().unwrap();
        let Object::Namespace(first) = first.unwrap().object.clone() else { panic!() };
        let update = contents.update(scan(&format!("{ONE}{TWO}")), now);
        assert_eq!(update.objects.len(), 2, "the other one has moved");
        contents.update(scan(&format!("{ONE}{TWO}# done\n")), now);
        let (held, written) = (&contents.in_force[&key], &contents.files["a.yaml"].written[1].accepted);
        assert!(Arc::ptr_eq(held, written.as_ref().unwrap()));
        assert!(matches!(&held.object, Object::Namespace(object) if Arc::ptr_eq(object, &first)));
    }
}
