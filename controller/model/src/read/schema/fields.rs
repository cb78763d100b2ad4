//! The fields of an object.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use super::super::document::{Entry, Node, Position, Value, find};
use super::{Channel, Choice, Reader, Shape, Step, Text, similar};
use crate::Name;

/// The fields of one object, asked for by name. To ask is to know: what was never asked for is unknown.
pub(in crate::read) struct Fields<'a> {
    reader: &'a mut Reader,
    entries: &'a [Entry],
    at: Position,
    known: Vec<&'static str>,
}

impl<'a> Fields<'a> {
    pub(super) fn new(reader: &'a mut Reader, entries: &'a [Entry], at: Position) -> Self {
        Self { reader, entries, at, known: Vec::new() }
    }

    /// A part of Kubernetes' own API, unread.
    pub fn raw(&mut self, name: &'static str, shape: Shape) -> Option<serde_json::Value> {
        self.optional(name, |reader, node| reader.raw(node, shape))
    }

    pub fn raws(&mut self, names: &[(&'static str, Shape)]) -> BTreeMap<Name, serde_json::Value> {
        names.iter().filter_map(|(name, shape)| Some((Name::from(*name), self.raw(name, *shape)?))).collect()
    }

    /// Fields that the API has and Portolan does not support: they are named, and their paths below `spec` are noted.
    pub fn unsupported(&mut self, names: &[&'static str], noted: &mut Vec<Name>) {
        for name in names {
            if self.optional(name, |reader, _| reader.sketch_anything()).is_some() && self.has(name) {
                self.warn(name, "is not supported by Portolan: ignored");
                let path = self.reader.path_of(name);
                noted.push(Name::from(path.strip_prefix("spec.").unwrap_or(&path)));
            }
        }
    }

    /// What is given cannot be done: a warning, and noted with its path.
    pub fn without_effect(&mut self, name: &'static str, message: &str, noted: &mut Vec<Name>) {
        self.warn(name, message);
        let path = self.reader.path_of(name);
        noted.push(Name::from(format!("{} ({message})", path.strip_prefix("spec.").unwrap_or(&path))));
    }

    /// Marks a field as known that is not read.
    pub fn skip(&mut self, name: &'static str) {
        self.known.push(name);
    }

    /// Whether the field is given.
    pub fn has(&self, name: &str) -> bool {
        find(self.entries, name).is_some()
    }

    /// Inside of fields that only the experimental channel has: an API server with the standard CRDs drops them unread.
    pub fn experimental<T>(&mut self, read: impl FnOnce(&mut Self) -> T) -> T {
        let outer = self.reader.channel.replace(Channel::Experimental);
        let value = read(self);
        self.reader.channel = outer;
        value
    }

    pub fn optional<T>(&mut self, name: &'static str, read: impl FnOnce(&mut Reader, &Node) -> T) -> Option<T> {
        self.known.push(name);
        if self.reader.sketch.is_some() {
            return Some(self.reader.sketch_field(name, false, read));
        }
        let node = find(self.entries, name)?;
        Some(self.reader.at_step(Step::Field(name), |reader| read(reader, node)))
    }

    pub fn required<T>(&mut self, name: &'static str, read: impl FnOnce(&mut Reader, &Node) -> T) -> T {
        self.known.push(name);
        if self.reader.sketch.is_some() {
            return self.reader.sketch_field(name, true, read);
        }
        if let Some(node) = find(self.entries, name) {
            return self.reader.at_step(Step::Field(name), |reader| read(reader, node));
        }
        self.reader.refuse(self.at, name, "is required");
        self.reader.placeholder(read)
    }

    pub fn text(&mut self, name: &'static str, text: &Text) -> Option<Name> {
        self.optional(name, |reader, node| text.read(reader, node))
    }

    pub fn required_text(&mut self, name: &'static str, text: &Text) -> Name {
        self.required(name, |reader, node| text.read(reader, node))
    }

    pub fn choice(&mut self, name: &'static str, choice: &Choice) -> Option<Name> {
        self.optional(name, |reader, node| choice.read(reader, node))
    }

    pub fn required_choice(&mut self, name: &'static str, choice: &Choice) -> Name {
        self.required(name, |reader, node| choice.read(reader, node))
    }

    pub fn boolean(&mut self, name: &'static str) -> Option<bool> {
        self.optional(name, |reader, node| {
            if let Some(sketch) = &mut reader.sketch {
                sketch.boolean();
                return false;
            }
            if let Value::Bool(value) = node.value {
                return value;
            }
            reader.mistyped(node, "true or false");
            false
        })
    }

    pub fn integer(&mut self, name: &'static str, range: RangeInclusive<i64>) -> Option<i64> {
        self.optional(name, |reader, node| reader.integer(node, range))
    }

    /// An integer from 0 that fits 32 bits.
    pub fn unsigned(&mut self, name: &'static str, range: RangeInclusive<i64>) -> Option<u32> {
        let value = self.integer(name, range)?;
        Some(u32::try_from(value).unwrap_or_else(|_| {
            self.reader.incomplete = true;
            0
        }))
    }

    pub fn port(&mut self, name: &'static str) -> Option<u16> {
        self.optional(name, port)
    }

    pub fn required_port(&mut self, name: &'static str) -> u16 {
        self.required(name, port)
    }

    pub fn list<T>(
        &mut self,
        name: &'static str,
        sizes: RangeInclusive<usize>,
        read: impl FnMut(&mut Reader, &Node) -> T,
    ) -> Vec<T> {
        self.optional(name, |reader, node| list(reader, node, sizes, read)).unwrap_or_default()
    }

    pub fn required_list<T>(
        &mut self,
        name: &'static str,
        sizes: RangeInclusive<usize>,
        read: impl FnMut(&mut Reader, &Node) -> T,
    ) -> Vec<T> {
        self.required(name, |reader, node| list(reader, node, sizes, read))
    }

    /// `x-kubernetes-list-type: set`, or with a key `map`: no two items are the same, or have the same key.
    pub fn distinct(&mut self, name: &'static str, key: Option<&'static str>) {
        let Some(Node { value: Value::List(items), .. }) = find(self.entries, name) else { return };
        let mut seen = std::collections::BTreeSet::new();
        for (index, item) in items.iter().enumerate() {
            let value = match key {
                None => Some(item),
                Some(key) => item.get(key),
            };
            let value = match value.map(|node| &node.value) {
                Some(Value::Text(text)) => text.to_string(),
                Some(Value::Integer(integer)) => integer.to_string(),
                Some(Value::Float(float)) => float.to_string(),
                _ => continue,
            };
            if seen.contains(&value) {
                let what = key.map_or_else(|| format!("`{value}`"), |key| format!("{key} `{value}`"));
                self.reader.refuse(item.at, &format!("{name}[{index}]"), format!("{what} is given twice; remove one"));
            }
            seen.insert(value);
        }
    }

    pub fn texts(&mut self, name: &'static str, sizes: RangeInclusive<usize>, text: &Text) -> Vec<Name> {
        self.list(name, sizes, |reader, node| text.read(reader, node))
    }

    /// A mapping of strings to strings.
    pub fn text_map(&mut self, name: &'static str, max: usize, text: &Text) -> BTreeMap<Name, Name> {
        self.map(name, max, |reader, node| text.read(reader, node))
    }

    /// A mapping of strings to something.
    pub fn map<T>(
        &mut self,
        name: &'static str,
        max: usize,
        mut read: impl FnMut(&mut Reader, &Node) -> T,
    ) -> BTreeMap<Name, T> {
        let read = |reader: &mut Reader, node: &Node| {
            if reader.sketch.is_some() {
                return BTreeMap::from([("".into(), reader.sketch_values(|reader| read(reader, node)))]);
            }
            let Value::Map(entries) = &node.value else {
                reader.mistyped(node, "an object");
                return BTreeMap::new();
            };
            reader.duplicates(entries);
            if entries.len() > max {
                reader.refuse(node.at, "", format!("must have at most {max} entries, has {}", entries.len()));
            }
            let mut map = BTreeMap::new();
            for entry in entries {
                if !matches!(entry.value.value, Value::Null) {
                    let step = Step::Key(entry.key.clone());
                    map.insert(entry.key.clone(), reader.at_step(step, |reader| read(reader, &entry.value)));
                }
            }
            map
        };
        self.optional(name, read).unwrap_or_default()
    }

    /// An API server would refuse the object for this field. An empty name means the object that has the fields.
    pub fn refuse(&mut self, name: &str, message: impl Into<String>) {
        let at = self.position(name);
        self.reader.refuse(at, name, message);
    }

    pub fn refuse_in(&mut self, channel: Channel, name: &str, message: impl Into<String>) {
        let at = self.position(name);
        self.reader.refuse_in(channel, at, name, message);
    }

    pub fn warn(&mut self, name: &str, message: impl Into<String>) {
        let at = self.position(name);
        self.reader.warn(at, name, message);
    }

    /// The place of a field given as `name`, `name[0]` or `name[0].other`; of the object if there is no such field.
    fn position(&self, path: &str) -> Position {
        let mut steps = path.split(['.', '[', ']']).filter(|step| !step.is_empty());
        let Some(mut node) = steps.next().and_then(|name| find(self.entries, name)) else { return self.at };
        for step in steps {
            let next = match &node.value {
                Value::List(items) => step.parse().ok().and_then(|index: usize| items.get(index)),
                _ => node.get(step),
            };
            let Some(next) = next else { break };
            node = next;
        }
        node.at
    }

    pub fn incomplete(&mut self) {
        self.reader.incomplete = true;
    }

    pub(super) fn report_unknown(mut self) {
        self.known.sort_unstable();
        for entry in self.entries {
            let name = &*entry.key;
            if self.known.binary_search(&name).is_ok() {
                continue;
            }
            let hint = similar(name, self.known.iter().copied());
            let hint = hint.map_or_else(String::new, |known| format!("; did you mean `{known}`?"));
            self.reader.warn(entry.at, name, format!("unknown field, ignored{hint}"));
        }
    }
}

fn list<T>(
    reader: &mut Reader,
    node: &Node,
    sizes: RangeInclusive<usize>,
    read: impl FnMut(&mut Reader, &Node) -> T,
) -> Vec<T> {
    if let Some(sketch) = &mut reader.sketch {
        sketch.sizes(&sizes);
    }
    if let Value::List(items) = &node.value
        && !sizes.contains(&items.len())
    {
        let (min, max, count) = (*sizes.start(), *sizes.end(), items.len());
        let plural = |count| if count == 1 { "" } else { "s" };
        let message = if count > max {
            format!("must have at most {max} item{}, has {count}", plural(max))
        } else {
            format!("must have at least {min} item{}", plural(min))
        };
        reader.refuse(node.at, "", message);
    }
    reader.items(node, read)
}

fn port(reader: &mut Reader, node: &Node) -> u16 {
    let port = u16::try_from(reader.integer(node, 1..=65535)).unwrap_or_default();
    if port == 0 {
        reader.incomplete = true;
    }
    port
}
