//! Escape sequences: what follows a backslash.

use super::parser::Parser;
use super::unicode::Set;
use super::{Problem, Re2Error};

/// `\d`, `\s`, `\w` and their opposites: ASCII only.
pub(super) fn perl_class(parser: &mut Parser<'_>) -> Option<Set> {
    let mut chars = parser.rest().chars();
    let (rust, size) = match (chars.next()?, chars.next()?) {
        ('\\', 'd') => ("0-9", 1),
        ('\\', 'D') => ("[^0-9]", 12),
        ('\\', 's') => (r"\t\n\f\r ", 3),
        ('\\', 'S') => (r"[^\t\n\f\r ]", 14),
        ('\\', 'w') => ("0-9A-Za-z_", 4),
        ('\\', 'W') => ("[^0-9A-Za-z_]", 14),
        _ => return None,
    };
    parser.advance(2);
    Some(Set { rust: rust.into(), size })
}

/// A backslash and the one character that it stands for.
pub(super) fn character(parser: &mut Parser<'_>) -> Result<char, Re2Error> {
    let start = parser.position();
    let bad = || Parser::error(start, Problem::BadEscape);
    parser.advance(1);
    let Some(escaped) = parser.next() else { return Err(Parser::error(start, Problem::TrailingBackslash)) };
    match escaped {
        'a' => Ok('\u{7}'),
        'f' => Ok('\u{c}'),
        'n' => Ok('\n'),
        'r' => Ok('\r'),
        't' => Ok('\t'),
        'v' => Ok('\u{b}'),
        'x' => hexadecimal(parser).ok_or_else(bad),
        // A single digit other than zero would be a back reference, which RE2 does not have.
        '1'..='7' if !parser.peek().is_some_and(|next| next.is_digit(8)) => Err(bad()),
        '0'..='7' => Ok(octal(parser, escaped)),
        // Punctuation stands for itself.
        _ if escaped.is_ascii() && !escaped.is_ascii_alphanumeric() => Ok(escaped),
        _ => Err(bad()),
    }
}

fn octal(parser: &mut Parser<'_>, first: char) -> char {
    let mut code = first.to_digit(8).unwrap_or(0);
    for _ in 0..2 {
        let Some(digit) = parser.peek().and_then(|next| next.to_digit(8)) else { break };
        parser.advance(1);
        code = code * 8 + digit;
    }
    char::from_u32(code).unwrap_or('\0')
}

/// `\x41` or `\x{ff}`. Latin-1 ends there.
fn hexadecimal(parser: &mut Parser<'_>) -> Option<char> {
    let (digits, length) = if parser.rest().starts_with('{') {
        let (digits, _) = parser.rest().get(1..)?.split_once('}')?;
        (digits, digits.len() + 2)
    } else {
        (parser.rest().get(..2)?, 2)
    };
    if digits.is_empty() || !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return None;
    }
    let significant = digits.trim_start_matches('0');
    let code = if significant.is_empty() { 0 } else { u32::from_str_radix(significant, 16).ok()? };
    let code = u8::try_from(code).ok()?;
    parser.advance(length);
    Some(char::from(code))
}
