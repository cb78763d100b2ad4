//! Everything that the program prints goes through here: it knows about colours and closed pipes.

use std::fmt;
use std::io::{self, IsTerminal, Write};

use portolan_standalone::Finding;

use crate::cli::Colour;

/// The terminal, or what stands in its place.
#[derive(Clone, Copy, Debug)]
pub struct Shell {
    out: bool,
    err: bool,
}

/// How a piece of text looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    Error,
    Warning,
    Good,
    Strong,
    Dim,
}

impl Style {
    /// The SGR parameters of ECMA-48.
    const fn code(self) -> &'static str {
        match self {
            Self::Error => "1;31",
            Self::Warning => "33",
            Self::Good => "32",
            Self::Strong => "1",
            Self::Dim => "2",
        }
    }
}

/// Text with a style where there are colours.
pub struct Styled<T> {
    text: T,
    style: Option<Style>,
}

impl<T: fmt::Display> fmt::Display for Styled<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.style {
            Some(style) => write!(f, "\u{1b}[{}m{}\u{1b}[0m", style.code(), self.text),
            None => self.text.fmt(f),
        }
    }
}

impl Shell {
    /// `no_color`: whether the variable NO_COLOR is set to anything (no-color.org).
    pub fn new(colour: Colour, no_color: bool) -> Self {
        let wanted = |terminal: bool| match colour {
            Colour::Always => true,
            Colour::Never => false,
            Colour::Auto => terminal && !no_color,
        };
        Self { out: wanted(io::stdout().is_terminal()), err: wanted(io::stderr().is_terminal()) }
    }

    /// Prints a result. A reader that has gone away is no error: it had enough.
    #[expect(clippy::unused_self, reason = "whoever prints has a shell, whatever printing comes to need")]
    pub fn out(self, text: impl fmt::Display) {
        let _closed = writeln!(io::stdout().lock(), "{text}");
    }

    /// Prints what goes on.
    #[expect(clippy::unused_self, reason = "as out")]
    pub fn err(self, text: impl fmt::Display) {
        let _closed = writeln!(io::stderr().lock(), "{text}");
    }

    /// Text for [`Shell::out`].
    pub fn on_out<T: fmt::Display>(self, style: Style, text: T) -> Styled<T> {
        Styled { text, style: self.out.then_some(style) }
    }

    /// Text for [`Shell::err`].
    pub fn on_err<T: fmt::Display>(self, style: Style, text: T) -> Styled<T> {
        Styled { text, style: self.err.then_some(style) }
    }
}

/// `file:line:column: error: object: field: message`, as linters print it.
pub fn finding(finding: &Finding, style: impl Fn(Style, String) -> String) -> String {
    let mut place = one_line(&finding.file);
    for number in [finding.line, finding.column].into_iter().take_while(|number| *number > 0) {
        place = format!("{place}:{number}");
    }
    let severity =
        if finding.error { style(Style::Error, "error".into()) } else { style(Style::Warning, "warning".into()) };
    let object = finding.object.as_deref().map(|object| style(Style::Strong, one_line(object)));
    let meanwhile = finding.meanwhile.as_ref().map(|meanwhile| style(Style::Dim, format!(" [{meanwhile}]")));
    let parts = [place, severity, object.unwrap_or_default(), one_line(&finding.field), one_line(&finding.message)];
    let parts: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    parts.join(": ") + &meanwhile.unwrap_or_default()
}

/// Text that others wrote, harmless on a terminal: manifests may hold sequences that colour, overwrite or retitle it, line breaks that
/// pretend to be further lines, and characters that turn the direction of writing (Unicode technical report 36, section 2.6).
pub fn one_line(text: &str) -> String {
    let harmful = |c: char| c.is_control() || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    text.chars().fold(String::with_capacity(text.len()), |mut line, c| {
        if harmful(c) {
            line.extend(c.escape_default());
        } else {
            line.push(c);
        }
        line
    })
}

/// A finding for programs.
pub fn finding_json(finding: &Finding) -> serde_json::Value {
    let place = |number: u32| (number > 0).then_some(number);
    serde_json::json!({
        "error": finding.error,
        "file": (!finding.file.is_empty()).then(|| finding.file.to_string()),
        "line": place(finding.line),
        "column": place(finding.column),
        "object": finding.object,
        "field": (!finding.field.is_empty()).then_some(&finding.field),
        "message": finding.message,
        "meanwhile": finding.meanwhile,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn findings_look_like_those_of_linters() {
        let mut one = Finding {
            file: "a.yaml".into(),
            line: 3,
            column: 5,
            object: Some("HTTPRoute shop/cart".into()),
            field: "spec.rules[0]".into(),
            message: "is wrong; correct it".into(),
            meanwhile: Some("it is not in force".into()),
            error: true,
        };
        let plain = |_, text: String| text;
        assert_eq!(
            finding(&one, plain),
            "a.yaml:3:5: error: HTTPRoute shop/cart: spec.rules[0]: is wrong; correct it [it is not in force]"
        );
        (one.line, one.column, one.object, one.meanwhile, one.error) = (0, 0, None, None, false);
        one.field.clear();
        assert_eq!(finding(&one, plain), "a.yaml: warning: is wrong; correct it");
        one.message = "`\u{1b}[2J\n\u{202e}é` is no name".into();
        assert_eq!(finding(&one, plain), "a.yaml: warning: `\\u{1b}[2J\\n\\u{202e}é` is no name");
        let shell = Shell::new(Colour::Always, true);
        assert_eq!(shell.on_out(Style::Error, "x").to_string(), "\u{1b}[1;31mx\u{1b}[0m");
        assert_eq!(Shell::new(Colour::Never, false).on_err(Style::Error, "x").to_string(), "x");
    }
}
