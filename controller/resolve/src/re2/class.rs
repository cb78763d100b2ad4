//! Character classes: `[a-z]`, `[^[:alpha:]\d]`.

use super::parser::{Parser, write_literal};
use super::unicode::Set;
use super::{Problem, Re2Error, escape, unicode};

const POSIX: [&str; 14] = [
    "alnum", "alpha", "ascii", "blank", "cntrl", "digit", "graph", "lower", "print", "punct", "space", "upper", "word",
    "xdigit",
];

/// Reads a class from its opening bracket; the result has its brackets too.
pub(super) fn read(parser: &mut Parser<'_>) -> Result<Set, Re2Error> {
    let start = parser.position();
    parser.advance(1);
    let negated = parser.eat("^");
    let mut class = Set { rust: if negated { "[^".into() } else { "[".into() }, size: if negated { 12 } else { 1 } };
    let mut first = true;
    loop {
        match parser.peek() {
            None => return Err(Parser::error(start, Problem::MissingBracket)),
            Some(']') if !first => break,
            Some(_) => {}
        }
        first = false;
        let member = match posix(parser).or_else(|| unicode::group(parser)) {
            Some(set) => set?,
            None => match escape::perl_class(parser) {
                Some(set) => set,
                None => range(parser, start)?,
            },
        };
        class.rust.push_str(&member.rust);
        class.size = class.size.saturating_add(member.size);
    }
    parser.advance(1);
    class.rust.push(']');
    Ok(class)
}

/// `[:alpha:]` or `[:^alpha:]`; `None` where no name of that form begins.
fn posix(parser: &mut Parser<'_>) -> Option<Result<Set, Re2Error>> {
    let (name, _) = parser.rest().strip_prefix("[:")?.split_once(":]")?;
    if !POSIX.contains(&name.strip_prefix('^').unwrap_or(name)) {
        return Some(Err(Parser::error(parser.position(), Problem::BadRange)));
    }
    parser.advance(name.len() + 4);
    Some(Ok(Set { rust: format!("[:{name}:]"), size: if name.starts_with('^') { 14 } else { 4 } }))
}

/// A single character or `a-z`. A dash is a range only where something other than the closing bracket follows it.
fn range(parser: &mut Parser<'_>, start: usize) -> Result<Set, Re2Error> {
    let from = parser.position();
    let low = member(parser, start)?;
    let mut rust = String::new();
    write_literal(&mut rust, low);
    let mut rest = parser.rest().chars();
    let mut high = low;
    if rest.next() == Some('-') && rest.next().is_some_and(|next| next != ']') {
        parser.advance(1);
        high = member(parser, start)?;
        if high < low {
            return Err(Parser::error(from, Problem::BadRange));
        }
        rust.push('-');
        write_literal(&mut rust, high);
    }
    Ok(Set { rust, size: if high.is_ascii() { 1 } else { 16 } })
}

fn member(parser: &mut Parser<'_>, start: usize) -> Result<char, Re2Error> {
    match parser.peek() {
        Some('\\') => escape::character(parser),
        Some(_) => parser.next().ok_or(Parser::error(start, Problem::MissingBracket)),
        None => Err(Parser::error(start, Problem::MissingBracket)),
    }
}
