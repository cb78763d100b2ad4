//! The regular expressions that Envoy takes: RE2's dialect.
//!
//! Envoy compiles expressions with RE2 in Perl-like mode and as Latin-1, one character per byte (measured with 1.40: `.{2}` matches
//! `é`, `é+` does not match `éé`, and `\x{100}` is refused), and refuses the whole route table when one does not
//! compile, so each is checked before it is sent. The grammar is RE2's (`re2/parse.cc` and its documentation "Syntax"); Rust's `regex`
//! accepts things that RE2 refuses and reads some differently (`[a&&b]`, `\Q..\E`, `\d` beyond ASCII), so it is no judge. While reading,
//! the parser writes the expression anew in Rust's dialect, which `explain` needs to decide as Envoy does.

mod class;
mod escape;
mod parser;
mod unicode;

use std::fmt;

/// An expression that RE2 refuses.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{problem} at position {position}")]
pub struct Re2Error {
    /// Byte offset of what RE2 does not take, from 0
    pub position: usize,
    pub problem: Problem,
}

/// Why RE2 refuses an expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Problem {
    /// `*`, `+`, `?` or `{n}` with nothing before it
    NothingToRepeat,
    /// `a**`, `a+{2}`
    RepeatedRepetition,
    /// More than 1,000, also as the product of nested ones, or `{3,2}`
    RepetitionSize,
    MissingParenthesis,
    UnexpectedParenthesis,
    MissingBracket,
    /// `[z-a]`, `[[:nope:]]`, `\p{Nope}`
    BadRange,
    /// `\h`, `\1`, `\x{}`
    BadEscape,
    TrailingBackslash,
    /// Look-around, `(?x)`, back references and other forms of `(?`
    UnsupportedGroup,
    /// Bad or repeated name
    BadGroupName,
    /// The compiled program would take more memory than Portolan lets one expression have
    TooLarge,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NothingToRepeat => "nothing to repeat",
            Self::RepeatedRepetition => "a repetition of a repetition",
            Self::RepetitionSize => "a repetition count above 1000 (nested ones multiplied) or out of order",
            Self::MissingParenthesis => "a parenthesis is not closed",
            Self::UnexpectedParenthesis => "a closing parenthesis without an opening one",
            Self::MissingBracket => "a character class is not closed",
            Self::BadRange => "a character class or range that RE2 does not know",
            Self::BadEscape => "an escape sequence that RE2 does not know",
            Self::TrailingBackslash => "a backslash at the end",
            Self::UnsupportedGroup => {
                "a group of a form that RE2 does not have (look-around, back references, other flags than imsU)"
            }
            Self::BadGroupName => "a bad or repeated group name",
            Self::TooLarge => "the compiled expression would be too large",
        })
    }
}

/// Whether RE2 compiles `pattern`.
pub fn check(pattern: &str) -> Result<(), Re2Error> {
    let decoded = latin1(pattern.as_bytes());
    let in_pattern = |position| decoded.get(..position).unwrap_or(&decoded).chars().count();
    parser::translate(&decoded).map(drop).map_err(|error| Re2Error { position: in_pattern(error.position), ..error })
}

/// One character per byte.
fn latin1(bytes: &[u8]) -> String {
    bytes.iter().copied().map(char::from).collect()
}

/// Whether RE2 would match the whole of `text`, as Envoy asks it to. False for a pattern that RE2 refuses.
pub fn matches(pattern: &str, text: &[u8]) -> bool {
    parser::translate(&latin1(pattern.as_bytes()))
        .ok()
        .and_then(|translated| regex::bytes::Regex::new(&format!(r"\A(?:{translated})\z")).ok())
        .is_some_and(|regex| regex.is_match(latin1(text).as_bytes()))
}

#[cfg(test)]
mod tests;
