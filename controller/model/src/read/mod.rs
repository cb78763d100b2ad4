//! Manifests as text, or objects as an API server sends them, become [`Object`]s with findings.
//!
//! ```text
//! text ─▶ document (YAML or JSON, with positions) ─▶ kinds (one reader per kind, on the combinators of schema) ─▶ Manifest
//! ```
//!
//! No API server stands in front of files, so reading judges as one would that has the CRDs of Gateway API v1.6.3: structure,
//! unknown fields, enum values, limits, patterns, defaults, uniqueness and the cross-field rules that the CRDs express as CEL
//! (`x-kubernetes-validations`). A test compares the two over the suite's manifests and mutations of them (`conformance/crds`).
//! Fields of both channels are read. Where the channels disagree, what one of them alone refuses is a warning that names it;
//! inside fields that the experimental channel alone has, its word stands.
//!
//! Versions: what 1.5 and 1.7 have beyond 1.6 is read where it does not conflict (`sessionPersistence.cookie` and `.header` of
//! 1.7, `idleTimeout` of 1.5). An object that an API server accepted is judged by the same rules, but it is for the caller to say what a
//! violation means: a value that a newer API defines is kept as `Unknown`.

#[cfg(test)]
mod agreement;
mod defaults;
mod document;
mod kinds;
mod schema;
#[cfg(test)]
mod tests;
mod written;

use std::fmt;
use std::sync::Arc;

use crate::objects::{Bookkeeping, Object};
use crate::{NamespacedName, ObjectKey};

pub use document::{MAX_BYTES, MAX_COPIES, MAX_DEPTH};
pub use schema::parse_duration;
pub use written::REDACTED;

/// A place in a file, both numbers counted from 1. Objects of an API server have no places: the file is empty, both are 0.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Location {
    pub file: Arc<str>,
    pub line: u32,
    /// In characters, not bytes
    pub column: u32,
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.file, self.line, self.column)
    }
}

/// How bad a violation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// An API server would refuse the object.
    Error,
    /// It would take the object, but not all of it as written: an unknown field, for one, is dropped.
    Warning,
}

/// The two forms in which the Gateway API ships its CRDs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Channel {
    Standard,
    Experimental,
}

/// Something wrong with one object, or with a text that is no object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    pub location: Location,
    /// Kind and name, such as `HTTPRoute default/shop`; `None` where the text has not come that far
    pub object: Option<String>,
    /// Such as `spec.rules[0].matches`; empty where the whole object is meant
    pub field: String,
    /// What is wrong, and what would be right
    pub message: String,
    pub severity: Severity,
    /// `Some`: the CRDs of this channel refuse the object for it, those of the other one do not
    pub channel: Option<Channel>,
}

impl Violation {
    /// Whether an API server with the CRDs of this channel would refuse the object for it.
    #[must_use]
    pub fn refused_by(&self, channel: Channel) -> bool {
        self.channel.map_or(self.severity == Severity::Error, |only| only == channel)
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.location.file.is_empty() {
            write!(f, "{}: ", self.location)?;
        }
        if let Some(object) = &self.object {
            write!(f, "{object}: ")?;
        }
        if !self.field.is_empty() {
            write!(f, "{}: ", self.field)?;
        }
        f.write_str(&self.message)
    }
}

/// One object of a file, of any kind.
#[derive(Clone, Debug)]
pub struct Manifest {
    pub location: Location,
    pub api_version: String,
    pub kind: String,
    pub name: NamespacedName,
    /// `None`: a kind that Portolan does not read, such as Deployment; ignored, which is no error
    pub key: Option<ObjectKey>,
    /// `None` also where something required is missing or of the wrong type. With any other violation there is an object: whether to use it is the caller's decision.
    pub object: Option<Object>,
    pub bookkeeping: Bookkeeping,
    pub violations: Vec<Violation>,
}

impl Manifest {
    /// Whether an API server with the CRDs of this channel would refuse the object.
    #[must_use]
    pub fn is_refused_by(&self, channel: Channel) -> bool {
        self.violations.iter().any(|violation| violation.refused_by(channel))
    }

    /// Whether every API server would refuse the object.
    #[must_use]
    pub fn is_refused(&self) -> bool {
        self.violations.iter().any(|violation| violation.severity == Severity::Error)
    }
}

/// Every object of a file: several YAML documents, `kind: List`, JSON. Documents without content are passed over.
///
/// `Err`: the text is neither YAML nor JSON, is too large, or expands to too much; the violation says where.
pub fn manifests(file: &Arc<str>, text: &[u8]) -> Result<Vec<Manifest>, Violation> {
    objects(file, text, |object| kinds::read_one(file, object))
}

/// Every object of a file that Portolan reads, with what an API server would give back for it: as it was written, with defaults, without a
/// status. The values of Secrets are left out ([`REDACTED`]).
pub fn written(file: &Arc<str>, text: &[u8]) -> Result<Vec<(Manifest, serde_json::Value)>, Violation> {
    let all = objects(file, text, |object| {
        let manifest = kinds::read_one(file, object);
        let value = manifest.key.as_ref().map(|key| written::object(key.kind, object));
        Some((manifest, value?))
    })?;
    Ok(all.into_iter().flatten().collect())
}

/// Reads a file one document after the other: the tree of one is gone before that of the next is made.
fn objects<T>(file: &Arc<str>, text: &[u8], mut read: impl FnMut(&document::Node) -> T) -> Result<Vec<T>, Violation> {
    let read = |document: &document::Node, all: &mut Vec<T>| {
        kinds::each_object(document, &mut |object| all.push(read(object)));
    };
    document::read(text, read).map_err(|error| Violation {
        location: Location { file: file.clone(), line: error.at.line, column: error.at.column },
        object: None,
        field: String::new(),
        message: error.message,
        severity: Severity::Error,
        channel: None,
    })
}

/// The JSON schema of `spec` of one of Portolan's own kinds, for its CustomResourceDefinition.
#[must_use]
pub fn schema(kind: crate::Kind) -> serde_json::Value {
    kinds::schema_of_spec(kind)
}

/// The one document of a YAML or JSON text as a JSON value.
///
/// # Errors
/// What keeps it from being read, with line and column.
pub fn yaml(text: &str) -> Result<serde_json::Value, String> {
    let mut documents = document::read(text.as_bytes(), |document, all| all.push(written::json(document)))
        .map_err(|error| format!("line {}, column {}: {}", error.at.line, error.at.column, error.message))?;
    match (documents.pop(), documents.len()) {
        (Some(document), 0) => Ok(document),
        (None, _) => Err("the text is empty".to_owned()),
        (Some(_), others) => Err(format!("there must be one document, there are {}", others + 1)),
    }
}

/// One object as an API server sends it. A list is not taken apart.
#[must_use]
pub fn json(value: &serde_json::Value) -> Manifest {
    kinds::read_one(&Arc::from(""), &document::Node::from(value))
}

/// The versions of a kind that can be read, the one to prefer first.
pub fn versions(kind: crate::Kind) -> impl Iterator<Item = &'static str> {
    let (both, experimental) = kinds::versions(kind);
    // Each list ascends among the versions before v1.
    both.iter().copied().chain(experimental.iter().rev().copied())
}
