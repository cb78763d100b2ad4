//! A document as a tree of values that know where they stand.

mod scalar;
mod yaml;

use std::sync::Arc;

/// The largest text that is read. Ten thousand routes are about 15 MB; an API server takes 1.5 MB for a single object.
pub const MAX_BYTES: usize = 32 << 20;
/// The deepest nesting of lists and mappings. The Gateway API needs less than 20.
pub const MAX_DEPTH: usize = 100;
/// How many values aliases may add to one text. An alias of aliases of aliases grows without bound ("billion laughs").
pub const MAX_COPIES: usize = 100_000;

/// Where something stands in a text, counted from 1; zeros where there is no text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Position {
    pub line: u32,
    pub column: u32,
}

/// A text that cannot be read, and where.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Unreadable {
    pub at: Position,
    pub message: String,
}

/// A value and its place.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub value: Value,
    pub at: Position,
}

#[derive(Clone, Debug)]
pub(super) enum Value {
    Null,
    Bool(bool),
    Integer(i64),
    Float(f64),
    Text(Arc<str>),
    List(Vec<Node>),
    Map(Vec<Entry>),
}

/// A field of a mapping. Of several with one key the last counts, as for kubectl; whoever reads reports the others.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub key: Arc<str>,
    pub at: Position,
    pub value: Node,
}

impl Node {
    /// The field of this name, if this is a mapping that has it and it is not null: to an API server a null field is an absent one.
    pub fn get(&self, name: &str) -> Option<&Self> {
        let Value::Map(entries) = &self.value else { return None };
        find(entries, name)
    }

    pub fn as_text(&self) -> Option<&Arc<str>> {
        if let Value::Text(text) = &self.value { Some(text) } else { None }
    }

    /// What this is, in words of JSON.
    pub const fn type_name(&self) -> &'static str {
        match self.value {
            Value::Null => "null",
            Value::Bool(_) => "a boolean",
            Value::Integer(_) | Value::Float(_) => "a number",
            Value::Text(_) => "a string",
            Value::List(_) => "a list",
            Value::Map(_) => "an object",
        }
    }
}

/// The field of this name, unless it is null.
pub(super) fn find<'a>(entries: &'a [Entry], name: &str) -> Option<&'a Node> {
    entries
        .iter()
        .rev()
        .find(|entry| &*entry.key == name)
        .map(|entry| &entry.value)
        .filter(|node| !matches!(node.value, Value::Null))
}

impl From<&serde_json::Value> for Node {
    fn from(value: &serde_json::Value) -> Self {
        use serde_json::Value as Json;
        let value = match value {
            Json::Null => Value::Null,
            Json::Bool(value) => Value::Bool(*value),
            Json::Number(number) => {
                number.as_i64().map_or_else(|| Value::Float(number.as_f64().unwrap_or(f64::NAN)), Value::Integer)
            }
            Json::String(text) => Value::Text(Arc::from(text.as_str())),
            Json::Array(items) => Value::List(items.iter().map(Self::from).collect()),
            Json::Object(fields) => Value::Map(
                fields
                    .iter()
                    .map(|(key, value)| Entry {
                        key: Arc::from(key.as_str()),
                        at: Position::default(),
                        value: Self::from(value),
                    })
                    .collect(),
            ),
        };
        Self { value, at: Position::default() }
    }
}

/// What is made of the documents of a text that are not empty, one after the other.
pub(super) fn read<T>(text: &[u8], mut make: impl FnMut(&Node, &mut Vec<T>)) -> Result<Vec<T>, Unreadable> {
    let start = Position { line: 1, column: 1 };
    if text.len() > MAX_BYTES {
        let message = format!("{} bytes are more than the limit of {MAX_BYTES}; split the file", text.len());
        return Err(Unreadable { at: start, message });
    }
    if text.starts_with(&[0xFF, 0xFE]) || text.starts_with(&[0xFE, 0xFF]) {
        return Err(Unreadable { at: start, message: "the text is UTF-16; save it as UTF-8".to_owned() });
    }
    let nul = text.iter().position(|byte| *byte == 0);
    let text = match (std::str::from_utf8(text), nul) {
        (Ok(text), None) => text,
        (Ok(_), Some(offset)) => return Err(binary(text, offset)),
        (Err(error), nul) => return Err(binary(text, error.valid_up_to().min(nul.unwrap_or(usize::MAX)))),
    };
    let text = text.strip_prefix('\u{FEFF}').unwrap_or(text);
    let mut made = Vec::new();
    match yaml::read(text, |document| make(&document, &mut made)) {
        Ok(()) => Ok(made),
        Err(error) => {
            made.clear();
            json(text, |document| make(&document, &mut made)).map(|()| made).ok_or(error)
        }
    }
}

fn binary(text: &[u8], offset: usize) -> Unreadable {
    let before = String::from_utf8_lossy(text.get(..offset).unwrap_or_default()).into_owned();
    let line = before.matches('\n').count() + 1;
    let column = before.chars().rev().take_while(|char| *char != '\n').count() + 1;
    Unreadable {
        at: Position { line: number(line), column: number(column) },
        message: "this is no text in UTF-8: a binary file? Only .yaml, .yml and .json files with manifests belong here"
            .to_owned(),
    }
}

/// JSON that is no YAML, such as one indented by tabs or with surrogate pairs. Its values have no places.
fn json(text: &str, mut sink: impl FnMut(Node)) -> Option<()> {
    if !text.trim_start().starts_with(['{', '[']) {
        return None;
    }
    for value in serde_json::Deserializer::from_str(text).into_iter::<serde_json::Value>() {
        sink(Node { at: Position { line: 1, column: 1 }, ..Node::from(&value.ok()?) });
    }
    Some(())
}

/// A line or column; a text has far fewer than 2^32 of either.
fn number(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}
