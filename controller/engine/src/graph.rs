//! Who has read what, and what must be computed again.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use crate::node::{Node, Read, ReadKind};

/// Dense number of a node or a read, so that the reverse index holds four bytes per edge.
type Id = u32;

/// Names that are numbered, the numbers of forgotten ones used again. Both directions share the name: there are a dozen and a half for
/// each route.
struct Numbering<T> {
    ids: HashMap<Arc<T>, Id>,
    names: Vec<Option<Arc<T>>>,
    free: Vec<Id>,
}

impl<T: Clone + Eq + std::hash::Hash> Numbering<T> {
    fn new() -> Self {
        Self { ids: HashMap::new(), names: Vec::new(), free: Vec::new() }
    }

    fn number(&mut self, name: &T) -> Id {
        if let Some(&id) = self.ids.get(name) {
            return id;
        }
        let name = Arc::new(name.clone());
        let id = match self.free.pop() {
            Some(id) => {
                if let Some(slot) = self.names.get_mut(id as usize) {
                    *slot = Some(Arc::clone(&name));
                }
                id
            }
            None => {
                self.names.push(Some(Arc::clone(&name)));
                // Four thousand million nodes do not fit into memory.
                Id::try_from(self.names.len() - 1).unwrap_or(Id::MAX)
            }
        };
        self.ids.insert(name, id);
        id
    }

    fn get(&self, name: &T) -> Option<Id> {
        self.ids.get(name).copied()
    }

    fn name(&self, id: Id) -> Option<&T> {
        self.names.get(id as usize)?.as_deref()
    }

    fn forget(&mut self, id: Id) {
        if let Some(name) = self.names.get_mut(id as usize).and_then(Option::take) {
            self.ids.remove(&*name);
            self.free.push(id);
        }
    }
}

/// The nodes that have read one thing. Nearly always one to four, without memory of their own; for a Gateway's view all its routes.
enum Readers {
    Few([Id; FEW]),
    #[expect(clippy::box_collection, reason = "of the many thousand of this type one or two are of this kind")]
    Many(Box<HashSet<Id>>),
}

const FEW: usize = 4;
/// A free place.
const NOBODY: Id = Id::MAX;

impl Readers {
    const fn new() -> Self {
        Self::Few([NOBODY; FEW])
    }

    fn insert(&mut self, id: Id) {
        match self {
            Self::Few(ids) if ids.contains(&id) => {}
            Self::Few(ids) => match ids.iter_mut().find(|slot| **slot == NOBODY) {
                Some(slot) => *slot = id,
                None => *self = Self::Many(Box::new(ids.iter().copied().chain([id]).collect())),
            },
            Self::Many(ids) => _ = ids.insert(id),
        }
    }

    fn remove(&mut self, id: Id) {
        match self {
            Self::Few(ids) => ids.iter_mut().filter(|slot| **slot == id).for_each(|slot| *slot = NOBODY),
            Self::Many(ids) => _ = ids.remove(&id),
        }
    }

    fn is_empty(&self) -> bool {
        match self {
            Self::Few(ids) => ids.iter().all(|id| *id == NOBODY),
            Self::Many(ids) => ids.is_empty(),
        }
    }

    fn for_each(&self, act: impl FnMut(Id)) {
        match self {
            Self::Few(ids) => ids.iter().copied().filter(|id| *id != NOBODY).for_each(act),
            Self::Many(ids) => ids.iter().copied().for_each(act),
        }
    }
}

/// The recorded reads, their reverse index, and the nodes to compute.
pub struct Graph {
    nodes: Numbering<Node>,
    reads: Numbering<Read>,
    /// By node
    reads_of: Vec<Box<[Id]>>,
    /// By read
    readers: Vec<Readers>,
    dirty: BTreeSet<(u8, Id)>,
}

impl Graph {
    pub fn new() -> Self {
        Self {
            nodes: Numbering::new(),
            reads: Numbering::new(),
            reads_of: Vec::new(),
            readers: Vec::new(),
            dirty: BTreeSet::new(),
        }
    }

    /// Asks for the node to be computed (again).
    pub fn want(&mut self, node: &Node) {
        let id = self.nodes.number(node);
        if self.reads_of.len() <= id as usize {
            self.reads_of.resize_with(id as usize + 1, Box::default);
        }
        self.dirty.insert((node.stratum(), id));
    }

    /// Asks for every node that has read `read`.
    pub fn touch(&mut self, read: &Read) {
        let Some(readers) = self.reads.get(read).and_then(|id| self.readers.get(id as usize)) else { return };
        let (nodes, dirty) = (&self.nodes, &mut self.dirty);
        readers.for_each(|id| {
            if let Some(node) = nodes.name(id) {
                dirty.insert((node.stratum(), id));
            }
        });
    }

    /// The next node to compute: one of the lowest stratum that has any.
    pub fn next(&mut self) -> Option<Node> {
        loop {
            let (_, id) = self.dirty.pop_first()?;
            if let Some(node) = self.nodes.name(id) {
                return Some(node.clone());
            }
        }
    }

    /// Replaces what the node has read. Returns the reads that nobody has any more.
    pub fn record(&mut self, node: &Node, reads: &[Read]) -> Vec<Read> {
        let id = self.nodes.number(node);
        if self.reads_of.len() <= id as usize {
            self.reads_of.resize_with(id as usize + 1, Box::default);
        }
        let mut new: Vec<Id> = reads.iter().map(|read| self.reads.number(read)).collect();
        new.sort_unstable();
        new.dedup();
        self.readers.resize_with(self.reads.names.len().max(self.readers.len()), Readers::new);
        for read in &new {
            if let Some(readers) = self.readers.get_mut(*read as usize) {
                readers.insert(id);
            }
        }
        let Some(slot) = self.reads_of.get_mut(id as usize) else { return Vec::new() };
        let old = std::mem::replace(slot, new.into_boxed_slice());
        let dropped: Vec<Id> = old
            .iter()
            .copied()
            .filter(|read| self.reads_of.get(id as usize).is_some_and(|new| new.binary_search(read).is_err()))
            .collect();
        self.release(id, &dropped)
    }

    /// Forgets the node. Returns the reads that nobody has any more.
    pub fn drop_node(&mut self, node: &Node) -> Vec<Read> {
        let Some(id) = self.nodes.get(node) else { return Vec::new() };
        let reads = self.reads_of.get_mut(id as usize).map(std::mem::take).unwrap_or_default();
        let unread = self.release(id, &reads);
        self.dirty.remove(&(node.stratum(), id));
        self.nodes.forget(id);
        unread
    }

    fn release(&mut self, node: Id, reads: &[Id]) -> Vec<Read> {
        let mut unread = Vec::new();
        for &read in reads {
            let Some(readers) = self.readers.get_mut(read as usize) else { continue };
            readers.remove(node);
            if readers.is_empty() {
                unread.extend(self.reads.name(read).cloned());
                self.reads.forget(read);
            }
        }
        unread
    }

    pub fn has_readers(&self, read: &Read) -> bool {
        self.reads.get(read).is_some()
    }

    pub fn size(&self) -> usize {
        self.nodes.ids.len() + self.reads.ids.len()
    }

    pub fn read_kinds(&self) -> BTreeSet<ReadKind> {
        self.reads.names.iter().flatten().map(|read| read.kind()).collect()
    }
}
