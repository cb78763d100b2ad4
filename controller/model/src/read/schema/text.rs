//! Strings that have a form.

use std::sync::{Arc, OnceLock};

use regex::Regex;

use super::super::document::Node;
use super::{Channel, Reader};
use crate::Name;

/// Length and form of a string.
pub(in crate::read) struct Text {
    /// In characters
    pub min: usize,
    pub max: usize,
    pub pattern: Option<&'static Pattern>,
    /// Only the experimental channel checks the pattern.
    pub experimental: bool,
}

/// A regular expression as the CRDs have it (RE2's syntax, of which all that they use means the same here), with its meaning in words.
pub(in crate::read) struct Pattern {
    pub source: &'static str,
    pub means: &'static str,
    compiled: OnceLock<Option<Regex>>,
}

impl Pattern {
    pub const fn new(source: &'static str, means: &'static str) -> Self {
        Self { source, means, compiled: OnceLock::new() }
    }

    /// A pattern that does not compile would match everything; a test compiles each.
    pub fn is_match(&self, text: &str) -> bool {
        self.compiled().is_none_or(|regex| regex.is_match(text))
    }

    fn compiled(&self) -> Option<&Regex> {
        self.compiled.get_or_init(|| Regex::new(self.source).ok()).as_ref()
    }
}

impl Text {
    /// Any string.
    pub const ANY: Self = Self::sized(0, usize::MAX);

    pub const fn sized(min: usize, max: usize) -> Self {
        Self { min, max, pattern: None, experimental: false }
    }

    pub const fn formed(min: usize, max: usize, pattern: &'static Pattern) -> Self {
        Self { min, max, pattern: Some(pattern), experimental: false }
    }

    pub const fn formed_in_experimental(min: usize, max: usize, pattern: &'static Pattern) -> Self {
        Self { min, max, pattern: Some(pattern), experimental: true }
    }

    pub fn read(&self, reader: &mut Reader, node: &Node) -> Name {
        if let Some(sketch) = &mut reader.sketch {
            sketch.text(self.min, self.max, self.pattern.map(|pattern| pattern.source));
            return Arc::from("");
        }
        let Some(text) = node.as_text() else {
            reader.mistyped(node, "a string");
            return Arc::from("");
        };
        let length = text.chars().count();
        if length < self.min {
            reader.refuse(node.at, "", "must not be empty");
        } else if length > self.max {
            reader.refuse(node.at, "", format!("must have at most {} characters, has {length}", self.max));
        } else if let Some(pattern) = self.pattern
            && !pattern.is_match(text)
        {
            let message = format!("`{text}` is not {}", pattern.means);
            if self.experimental {
                reader.refuse_in(Channel::Experimental, node.at, "", message);
            } else {
                reader.refuse(node.at, "", message);
            }
        }
        text.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::kinds::PATTERNS;

    #[test]
    fn every_pattern_compiles() {
        for pattern in PATTERNS {
            assert!(pattern.compiled().is_some(), "{}", pattern.source);
        }
    }
}
