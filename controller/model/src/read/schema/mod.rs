//! What schemas are made of: objects and their fields, lists, strings with a form, numbers with a range, choices.
//!
//! A reader of something is a function from a [`Node`] to a value. It always gives one: what is missing or of the wrong type is
//! reported, a placeholder stands for it, and [`Reader::incomplete`] keeps the object from being used. So one pass finds everything.

mod choice;
mod duration;
mod fields;
mod raw;
mod similar;
mod sketch;
mod text;

use std::sync::Arc;

use super::document::{Entry, Node, Position, Value};
use super::{Channel, Location, Severity, Violation};

pub(super) use choice::Choice;
#[cfg(test)]
pub(super) use duration::DURATION;
pub(super) use duration::duration;
pub use duration::parse_duration;
pub(super) use fields::Fields;
pub(super) use raw::Shape;
pub(super) use similar::similar;
pub(super) use text::{Pattern, Text};

/// Where reading stands, and what it has found.
pub(super) struct Reader {
    file: Arc<str>,
    /// For the violations
    pub object: Option<String>,
    path: Vec<Step>,
    pub violations: Vec<Violation>,
    /// A placeholder stands for something that is missing or that has the wrong type.
    pub incomplete: bool,
    /// Above zero: inside a placeholder, where everything would be reported as missing
    muted: u32,
    /// `Some`: inside a field that only this channel has
    channel: Option<Channel>,
    /// `Some`: nothing is read; what would be read is noted as a JSON schema
    sketch: Option<sketch::Sketch>,
}

enum Step {
    Field(&'static str),
    Key(Arc<str>),
    Index(usize),
}

/// Stands where nothing is given.
pub(super) fn nothing() -> &'static Node {
    &NOTHING
}

static NOTHING: Node = Node { value: Value::Null, at: Position { line: 0, column: 0 } };

impl Reader {
    pub fn new(file: &Arc<str>) -> Self {
        Self {
            file: file.clone(),
            object: None,
            path: Vec::new(),
            violations: Vec::new(),
            incomplete: false,
            muted: 0,
            channel: None,
            sketch: None,
        }
    }

    pub fn location(&self, at: Position) -> Location {
        Location { file: self.file.clone(), line: at.line, column: at.column }
    }

    /// An API server would refuse the object for this.
    pub fn refuse(&mut self, at: Position, field: &str, message: impl Into<String>) {
        self.report(at, field, message.into(), Severity::Error, self.channel);
    }

    /// An API server would refuse the object only if it has the CRDs of this channel.
    pub fn refuse_in(&mut self, channel: Channel, at: Position, field: &str, message: impl Into<String>) {
        match self.channel {
            None => self.report(at, field, message.into(), Severity::Warning, Some(channel)),
            // What the other channel does not even have it cannot refuse.
            Some(here) if here == channel => self.refuse(at, field, message),
            Some(_) => {}
        }
    }

    /// An API server would not refuse the object, and yet something is not as it seems.
    pub fn warn(&mut self, at: Position, field: &str, message: impl Into<String>) {
        self.report(at, field, message.into(), Severity::Warning, None);
    }

    /// The path of a field of where reading stands; of that itself for an empty name.
    fn path_of(&self, field: &str) -> String {
        let mut path = String::new();
        for step in &self.path {
            match step {
                Step::Field(name) if path.is_empty() => path.push_str(name),
                Step::Field(name) => path.extend([".", name]),
                Step::Key(key) => path.extend(["[", key, "]"]),
                Step::Index(index) => path.extend(["[", &index.to_string(), "]"]),
            }
        }
        if !field.is_empty() {
            if !path.is_empty() && !field.starts_with('[') {
                path.push('.');
            }
            path.push_str(field);
        }
        path
    }

    fn report(&mut self, at: Position, field: &str, message: String, severity: Severity, channel: Option<Channel>) {
        if self.muted > 0 {
            return;
        }
        let path = self.path_of(field);
        let message = match channel {
            Some(Channel::Standard) if severity == Severity::Warning => {
                format!("{message} (refused by the standard channel)")
            }
            Some(Channel::Experimental) if severity == Severity::Warning => {
                format!("{message} (refused by the experimental channel)")
            }
            _ => message,
        };
        let (location, object) = (self.location(at), self.object.clone());
        self.violations.push(Violation { location, object, field: path, message, severity, channel });
    }

    /// Something has the wrong type.
    pub fn mistyped(&mut self, node: &Node, expected: &str) {
        self.incomplete = true;
        let quotes =
            if expected == "a string" && matches!(node.value, Value::Bool(_) | Value::Integer(_) | Value::Float(_)) {
                ": put it in quotes"
            } else {
                ""
            };
        self.refuse(node.at, "", format!("must be {expected}, is {}{quotes}", node.type_name()));
    }

    fn at_step<T>(&mut self, step: Step, read: impl FnOnce(&mut Self) -> T) -> T {
        self.path.push(step);
        let value = read(self);
        self.path.pop();
        value
    }

    fn placeholder<T>(&mut self, read: impl FnOnce(&mut Self, &Node) -> T) -> T {
        self.incomplete = true;
        self.muted += 1;
        let value = read(self, &NOTHING);
        self.muted -= 1;
        value
    }

    /// An object: every field that nobody asked for is reported.
    pub fn object<T>(&mut self, node: &Node, read: impl FnOnce(&mut Fields<'_>) -> T) -> T {
        self.fields(node, read, true)
    }

    /// An object of which Portolan reads some fields only.
    pub fn part_of_object<T>(&mut self, node: &Node, read: impl FnOnce(&mut Fields<'_>) -> T) -> T {
        self.fields(node, read, false)
    }

    fn fields<T>(&mut self, node: &Node, read: impl FnOnce(&mut Fields<'_>) -> T, closed: bool) -> T {
        if let Some(sketch) = &mut self.sketch {
            sketch.object(closed);
            return read(&mut Fields::new(self, &[], node.at));
        }
        let Value::Map(entries) = &node.value else {
            self.mistyped(node, "an object");
            return self.placeholder(|reader, node| read(&mut Fields::new(reader, &[], node.at)));
        };
        self.duplicates(entries);
        let mut fields = Fields::new(self, entries, node.at);
        let value = read(&mut fields);
        if closed {
            fields.report_unknown();
        }
        value
    }

    /// YAML allows a key once in a mapping; of several, most readers silently take the last.
    fn duplicates(&mut self, entries: &[Entry]) {
        let mut seen = std::collections::BTreeSet::new();
        for entry in entries {
            if !seen.insert(&entry.key) {
                self.refuse(entry.at, &entry.key, "is given twice; remove one");
            }
        }
    }

    /// The items of a list.
    pub fn items<T>(&mut self, node: &Node, mut read: impl FnMut(&mut Self, &Node) -> T) -> Vec<T> {
        if self.sketch.is_some() {
            return vec![self.sketch_items(|reader| read(reader, node))];
        }
        let Value::List(items) = &node.value else {
            self.mistyped(node, "a list");
            return Vec::new();
        };
        let items = items.iter().enumerate();
        items.map(|(index, item)| self.at_step(Step::Index(index), |reader| read(reader, item))).collect()
    }

    pub fn integer(&mut self, node: &Node, range: std::ops::RangeInclusive<i64>) -> i64 {
        if let Some(sketch) = &mut self.sketch {
            sketch.integer(&range);
            return *range.start();
        }
        let integer = match node.value {
            Value::Integer(integer) => integer,
            // JSON has no integers: 80.0 is one.
            #[expect(clippy::cast_possible_truncation, reason = "the range was checked: integers up to 2^53 are exact")]
            Value::Float(float) if float.fract() == 0.0 && float.abs() <= 9_007_199_254_740_992.0 => float as i64,
            _ => {
                self.mistyped(node, "an integer");
                return *range.start();
            }
        };
        if !range.contains(&integer) {
            let (low, high) = (range.start(), range.end());
            self.refuse(node.at, "", format!("must be from {low} to {high}, is {integer}"));
        }
        integer
    }
}
