//! The events of a YAML parser become trees.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use saphyr_parser::{Event, Marker, Parser, ScalarStyle, Tag};

use super::{Entry, MAX_COPIES, MAX_DEPTH, Node, Position, Unreadable, Value, number, scalar};

/// Gives the documents of a text that are not empty, each as soon as it is complete: its tree is many times larger than its text.
pub(super) fn read(text: &str, mut sink: impl FnMut(Node)) -> Result<(), Unreadable> {
    let mut builder = Builder::default();
    let mut parser = Parser::new_from_str(text);
    while let Some(event) = parser.next_event() {
        let (event, span) = event.map_err(|error| match (position(error.marker()), error.info()) {
            // The parser's own limit of brackets, which it reaches before the first of them is complete
            (at, "recursion limit exceeded") => too_deep(at),
            (at, message) => Unreadable { at, message: message.to_owned() },
        })?;
        builder.event(event, position(&span.start))?;
        if let Some(document) = builder.document.take() {
            sink(document);
        }
    }
    Ok(())
}

fn position(marker: &Marker) -> Position {
    Position { line: number(marker.line()), column: number(marker.col() + 1) }
}

#[derive(Default)]
struct Builder {
    /// The one that has just been completed
    document: Option<Node>,
    /// The lists and mappings that are open, the innermost last
    open: Vec<Collection>,
    anchors: BTreeMap<usize, Node>,
    /// How many values stand for aliases and what they name
    copies: usize,
}

struct Collection {
    at: Position,
    anchor: usize,
    items: Items,
}

enum Items {
    List(Vec<Node>),
    /// The key is the one that waits for its value.
    Map(Vec<Entry>, Option<(Arc<str>, Position)>),
}

impl Builder {
    fn event(&mut self, event: Event<'_>, at: Position) -> Result<(), Unreadable> {
        match event {
            Event::Scalar(text, style, anchor, tag) => self.scalar(&text, style, anchor, tag.as_deref(), at),
            Event::SequenceStart(anchor, tag) => self.start(Items::List(Vec::new()), anchor, tag.as_ref(), at),
            Event::MappingStart(anchor, tag) => self.start(Items::Map(Vec::new(), None), anchor, tag.as_ref(), at),
            Event::SequenceEnd | Event::MappingEnd => self.end(),
            Event::Alias(anchor) => {
                let Some(node) = self.anchors.get(&anchor).cloned() else {
                    return Err(Unreadable { at, message: "an alias stands inside of what it names".to_owned() });
                };
                self.count(&node, at)?;
                self.add(Node { at, ..node })
            }
            // Anchors do not reach into the next document.
            Event::DocumentStart(_) => {
                self.anchors.clear();
                Ok(())
            }
            Event::DocumentEnd | Event::StreamStart | Event::StreamEnd | Event::Nothing => Ok(()),
        }
    }

    fn scalar(
        &mut self,
        text: &str,
        style: ScalarStyle,
        anchor: usize,
        tag: Option<&Tag>,
        at: Position,
    ) -> Result<(), Unreadable> {
        let is_text = style != ScalarStyle::Plain || tag.is_some_and(is_text_tag);
        check_tag(tag, at)?;
        // A key is a string however it looks: `8080: x` is the field "8080". The merge key alone is none when it is quoted.
        if let Some(Collection { items: Items::Map(_, key @ None), .. }) = self.open.last_mut() {
            let text: Arc<str> = Arc::from(text);
            *key = Some((text.clone(), at));
            if anchor != 0 {
                self.anchors.insert(anchor, Node { value: Value::Text(text), at });
            }
            return Ok(());
        }
        let value = if is_text { Value::Text(Arc::from(text)) } else { scalar::plain(text) };
        self.finish(Node { value, at }, anchor)
    }

    fn start(
        &mut self,
        items: Items,
        anchor: usize,
        tag: Option<&Cow<'_, Tag>>,
        at: Position,
    ) -> Result<(), Unreadable> {
        check_tag(tag.map(AsRef::as_ref), at)?;
        if self.open.len() >= MAX_DEPTH {
            return Err(too_deep(at));
        }
        if let Some(Collection { items: Items::Map(_, None), .. }) = self.open.last() {
            return Err(Unreadable { at, message: "a key must be a string, not a list or an object".to_owned() });
        }
        self.open.push(Collection { at, anchor, items });
        Ok(())
    }

    fn end(&mut self) -> Result<(), Unreadable> {
        let Some(Collection { at, anchor, items }) = self.open.pop() else { return Ok(()) };
        let value = match items {
            Items::List(items) => Value::List(items),
            Items::Map(entries, _) => Value::Map(merged(entries)?),
        };
        self.finish(Node { value, at }, anchor)
    }

    fn finish(&mut self, node: Node, anchor: usize) -> Result<(), Unreadable> {
        if anchor != 0 {
            self.count(&node, node.at)?;
            self.anchors.insert(anchor, node.clone());
        }
        self.add(node)
    }

    fn add(&mut self, node: Node) -> Result<(), Unreadable> {
        match self.open.last_mut() {
            None if matches!(node.value, Value::Null) => {}
            None => self.document = Some(node),
            Some(Collection { items: Items::List(items), .. }) => items.push(node),
            Some(Collection { items: Items::Map(entries, key), .. }) => match (key.take(), &node.value) {
                (Some((key, at)), _) => entries.push(Entry { key, at, value: node }),
                (None, Value::Text(text)) => *key = Some((text.clone(), node.at)),
                (None, _) => return Err(Unreadable { at: node.at, message: "a key must be a string".to_owned() }),
            },
        }
        Ok(())
    }

    /// Takes a copy of the node from what aliases may add.
    fn count(&mut self, node: &Node, at: Position) -> Result<(), Unreadable> {
        self.copies += size(node, MAX_DEPTH.saturating_sub(self.open.len())).ok_or_else(|| too_deep(at))?;
        if self.copies > MAX_COPIES {
            return Err(Unreadable {
                at,
                message: format!("aliases add more than {MAX_COPIES} values to this text; write them out"),
            });
        }
        Ok(())
    }
}

/// The number of values in a tree, `None` if it is deeper than this.
fn size(node: &Node, depth: usize) -> Option<usize> {
    let depth = depth.checked_sub(1)?;
    match &node.value {
        Value::List(items) => items.iter().try_fold(1, |sum, item| Some(sum + size(item, depth)?)),
        Value::Map(entries) => entries.iter().try_fold(1, |sum, entry| Some(sum + 1 + size(&entry.value, depth)?)),
        _ => Some(1),
    }
}

fn too_deep(at: Position) -> Unreadable {
    Unreadable {
        at,
        message: format!(
            "lists and objects are nested deeper than {MAX_DEPTH} levels; no object needs so many: look for brackets or indentation that never end"
        ),
    }
}

/// `<<: *base` adds the fields of a mapping, or of several, that are not given (YAML 1.1, as kubectl reads it).
fn merged(entries: Vec<Entry>) -> Result<Vec<Entry>, Unreadable> {
    if !entries.iter().any(|entry| &*entry.key == "<<") {
        return Ok(entries);
    }
    let (merges, mut own): (Vec<_>, Vec<_>) = entries.into_iter().partition(|entry| &*entry.key == "<<");
    for merge in merges {
        let bases = match merge.value.value {
            Value::List(bases) => bases,
            _ => vec![merge.value],
        };
        for base in bases {
            let Value::Map(fields) = base.value else {
                return Err(Unreadable {
                    at: base.at,
                    message: "`<<` takes an object or a list of objects".to_owned(),
                });
            };
            for field in fields {
                if !own.iter().any(|known| known.key == field.key) {
                    own.push(field);
                }
            }
        }
    }
    Ok(own)
}

fn is_text_tag(tag: &Tag) -> bool {
    (tag.is_yaml_core_schema() && tag.suffix == "str") || (tag.handle == "!" && tag.suffix.is_empty())
}

fn check_tag(tag: Option<&Tag>, at: Position) -> Result<(), Unreadable> {
    match tag {
        Some(tag) if !tag.is_yaml_core_schema() && !is_text_tag(tag) && !tag.suffix.is_empty() => {
            Err(Unreadable { at, message: format!("the tag `{tag}` means nothing in a manifest; remove it") })
        }
        _ => Ok(()),
    }
}
