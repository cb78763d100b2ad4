//! The parser: one pass over the expression with a stack of open groups.

use std::collections::BTreeSet;
use std::fmt::Write;

use super::{Problem, Re2Error, class, escape, unicode};

/// RE2's limit on a counted repetition, and on the product of nested ones.
const MAX_REPEAT: u64 = 1000;

/// The largest program, in roughly estimated instructions of 16 bytes. RE2 would compile more (measured on Envoy 1.40: `\pL` 30,000
/// times over), and every proxy would keep it; no path or header calls for that.
const MAX_SIZE: u64 = 100_000;

/// What one part of the expression costs.
#[derive(Clone, Copy)]
struct Atom {
    /// Largest product of the counted repetitions along any path
    repeats: u64,
    /// Estimated instructions
    size: u64,
}

/// What repeats an atom.
enum Repetition {
    /// `*`, `+`, `?`
    Operator,
    Counted {
        least: u64,
        most: Option<u64>,
    },
}

/// An open group, or the whole.
struct Group {
    opened: usize,
    repeats: u64,
    size: u64,
    /// What a repetition operator would apply to
    last: Option<Atom>,
}

impl Group {
    const fn new(opened: usize) -> Self {
        Self { opened, repeats: 1, size: 0, last: None }
    }

    fn settle(&mut self) {
        if let Some(atom) = self.last.take() {
            self.repeats = self.repeats.max(atom.repeats);
            self.size = self.size.saturating_add(atom.size);
        }
    }
}

pub(super) struct Parser<'a> {
    pattern: &'a str,
    position: usize,
    /// The open groups within the current one, outermost first
    outer: Vec<Group>,
    group: Group,
    names: BTreeSet<&'a str>,
    /// The expression in Rust's dialect
    out: String,
    /// Flags not yet written: a repetition after `a(?i)` is one of `a`, which Rust does not take
    flags: String,
}

/// Reads an RE2 expression; returns the same in the dialect of Rust's `regex::bytes`.
pub(super) fn translate(pattern: &str) -> Result<String, Re2Error> {
    let mut parser = Parser {
        pattern,
        position: 0,
        outer: Vec::new(),
        group: Group::new(0),
        names: BTreeSet::new(),
        out: String::new(),
        flags: String::new(),
    };
    parser.expression()?;
    Ok(parser.out)
}

impl<'a> Parser<'a> {
    pub(super) fn rest(&self) -> &'a str {
        self.pattern.get(self.position..).unwrap_or("")
    }

    pub(super) fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    pub(super) fn next(&mut self) -> Option<char> {
        let next = self.peek()?;
        self.position += next.len_utf8();
        Some(next)
    }

    pub(super) fn eat(&mut self, text: &str) -> bool {
        let found = self.rest().starts_with(text);
        if found {
            self.position += text.len();
        }
        found
    }

    pub(super) const fn position(&self) -> usize {
        self.position
    }

    pub(super) const fn advance(&mut self, bytes: usize) {
        self.position += bytes;
    }

    pub(super) const fn error(position: usize, problem: Problem) -> Re2Error {
        Re2Error { position, problem }
    }

    fn push(&mut self, size: u64) {
        self.group.settle();
        self.group.last = Some(Atom { repeats: 1, size });
    }

    fn literal(&mut self, literal: char) {
        write_literal(&mut self.out, literal);
        self.push(literal.len_utf8() as u64);
    }

    fn expression(&mut self) -> Result<(), Re2Error> {
        let mut after_repetition = false;
        while let Some(next) = self.peek() {
            let start = self.position;
            let repetition = match next {
                '*' | '+' | '?' => {
                    self.advance(1);
                    Some(Repetition::Operator)
                }
                '{' => self.counts(),
                _ => None,
            };
            if let Some(repetition) = repetition {
                let lazy = self.eat("?");
                if after_repetition {
                    return Err(Self::error(start, Problem::RepeatedRepetition));
                }
                self.repeat(start, &repetition)?;
                let operator = self.pattern.get(start..self.position - usize::from(lazy)).unwrap_or("");
                self.out.push_str(operator);
                self.out.push_str(if lazy { "?" } else { "" });
                after_repetition = true;
                continue;
            }
            after_repetition = false;
            self.out.push_str(&std::mem::take(&mut self.flags));
            match next {
                '(' => self.open()?,
                ')' => self.close()?,
                '|' => {
                    self.advance(1);
                    self.group.settle();
                    self.group.size += 1;
                    self.out.push('|');
                }
                '^' | '$' => {
                    self.advance(1);
                    self.push(1);
                    self.out.push(next);
                }
                '.' => {
                    self.advance(1);
                    self.push(unicode::ANY_SIZE);
                    self.out.push('.');
                }
                '[' => {
                    let class = class::read(self)?;
                    self.push(class.size);
                    self.out.push_str(&class.rust);
                }
                '\\' => self.backslash()?,
                _ => {
                    self.advance(next.len_utf8());
                    self.literal(next);
                }
            }
        }
        if !self.outer.is_empty() {
            return Err(Self::error(self.group.opened, Problem::MissingParenthesis));
        }
        self.group.settle();
        if self.group.size > MAX_SIZE {
            return Err(Self::error(0, Problem::TooLarge));
        }
        Ok(())
    }

    /// `{n}`, `{n,}` or `{n,m}`; anything else that begins with a brace is literal text.
    fn counts(&mut self) -> Option<Repetition> {
        let (inner, _) = self.rest().strip_prefix('{')?.split_once('}')?;
        let number = |text: &str| {
            let plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
            // RE2 reads no leading zeros, and digits beyond its limit as too many.
            (plain && (text.len() == 1 || !text.starts_with('0'))).then(|| text.parse().unwrap_or(u64::MAX))
        };
        let (least, most) = match inner.split_once(',') {
            None => (number(inner)?, Some(number(inner)?)),
            Some((least, "")) => (number(least)?, None),
            Some((least, most)) => (number(least)?, Some(number(most)?)),
        };
        self.advance(inner.len() + 2);
        Some(Repetition::Counted { least, most })
    }

    fn repeat(&mut self, start: usize, repetition: &Repetition) -> Result<(), Re2Error> {
        let count = match repetition {
            Repetition::Operator => 1,
            Repetition::Counted { least, most } => {
                if *least > MAX_REPEAT || most.is_some_and(|most| most > MAX_REPEAT || most < *least) {
                    return Err(Self::error(start, Problem::RepetitionSize));
                }
                most.unwrap_or(*least).max(1)
            }
        };
        let Some(atom) = &mut self.group.last else { return Err(Self::error(start, Problem::NothingToRepeat)) };
        atom.repeats = atom.repeats.saturating_mul(count);
        atom.size = atom.size.saturating_mul(count).saturating_add(count);
        if count > 1 && atom.repeats > MAX_REPEAT {
            return Err(Self::error(start, Problem::RepetitionSize));
        }
        Ok(())
    }

    fn open(&mut self) -> Result<(), Re2Error> {
        let start = self.position;
        self.advance(1);
        if self.eat("?P<") || (self.rest().starts_with("?<") && !self.looks_behind() && self.eat("?<")) {
            let Some((name, _)) = self.rest().split_once('>') else {
                return Err(Self::error(start, Problem::BadGroupName));
            };
            let valid = !name.is_empty() && name.chars().all(|part| part == '_' || part.is_alphanumeric());
            if !valid || !self.names.insert(name) {
                return Err(Self::error(start, Problem::BadGroupName));
            }
            self.advance(name.len() + 1);
            self.out.push('(');
        } else if self.eat("?") {
            if !self.flags(start)? {
                return Ok(());
            }
        } else {
            self.out.push('(');
        }
        self.outer.push(std::mem::replace(&mut self.group, Group::new(start)));
        Ok(())
    }

    fn looks_behind(&self) -> bool {
        self.rest().starts_with("?<=") || self.rest().starts_with("?<!")
    }

    /// The flags after `(?`: `i`, `m`, `s`, `U`, with `-` before those to switch off. True where they open a group, false where they
    /// stand alone: `(?i)`.
    fn flags(&mut self, start: usize) -> Result<bool, Re2Error> {
        let (mut negated, mut any) = (false, false);
        let from = self.position;
        loop {
            match self.next() {
                Some('i' | 'm' | 's' | 'U') => any = true,
                Some('-') if !negated => (negated, any) = (true, false),
                Some(end @ (':' | ')')) if !negated || any => {
                    let flags = self.pattern.get(from..self.position - 1).unwrap_or("");
                    if end == ':' {
                        let _ = write!(self.out, "(?{flags}:");
                    } else if !flags.is_empty() {
                        let _ = write!(self.flags, "(?{flags})");
                    }
                    return Ok(end == ':');
                }
                None => return Err(Self::error(start, Problem::MissingParenthesis)),
                Some(_) => return Err(Self::error(start, Problem::UnsupportedGroup)),
            }
        }
    }

    fn close(&mut self) -> Result<(), Re2Error> {
        let Some(outer) = self.outer.pop() else {
            return Err(Self::error(self.position, Problem::UnexpectedParenthesis));
        };
        self.advance(1);
        self.group.settle();
        let closed = std::mem::replace(&mut self.group, outer);
        self.group.settle();
        self.group.last = Some(Atom { repeats: closed.repeats, size: closed.size.saturating_add(2) });
        self.out.push(')');
        Ok(())
    }

    fn backslash(&mut self) -> Result<(), Re2Error> {
        let start = self.position;
        let mut assertion = |rust: &str| {
            self.position += 2;
            self.out.push_str(rust);
            self.group.settle();
            self.group.last = Some(Atom { repeats: 1, size: 1 });
            Ok(())
        };
        match self.pattern.get(start + 1..).and_then(|rest| rest.chars().next()) {
            // RE2's word boundaries know ASCII letters only.
            Some('b') => return assertion(r"(?-u:\b)"),
            Some('B') => return assertion(r"(?-u:\B)"),
            Some('A') => return assertion(r"\A"),
            Some('z') => return assertion(r"\z"),
            // Any byte, which is any character here
            Some('C') => return assertion(r"(?s:.)"),
            Some('Q') => {
                self.advance(2);
                while !self.rest().is_empty() && !self.eat(r"\E") {
                    if let Some(literal) = self.next() {
                        self.literal(literal);
                    }
                }
                return Ok(());
            }
            _ => {}
        }
        if let Some(set) = escape::perl_class(self).map(Ok).or_else(|| unicode::group(self)).transpose()? {
            let _ = write!(self.out, "[{}]", set.rust);
            self.push(set.size);
            return Ok(());
        }
        let literal = escape::character(self)?;
        self.literal(literal);
        Ok(())
    }
}

/// Writes a character so that Rust's dialect takes it literally, in and out of classes.
pub(super) fn write_literal(out: &mut String, literal: char) {
    if literal.is_ascii_alphanumeric() || literal == '_' || literal == '/' {
        out.push(literal);
    } else {
        let _ = write!(out, r"\x{{{:X}}}", literal as u32);
    }
}
