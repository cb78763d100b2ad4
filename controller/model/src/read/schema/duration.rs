//! Durations in the Gateway API's form (GEP-2257).

use std::time::Duration;

use super::super::document::Node;
use super::{Pattern, Reader, Text};

/// One to four numbers of at most five digits, each with its unit: `1h`, `500ms`, `1m30s`.
pub(in crate::read) static DURATION: Pattern = Pattern::new(
    r"^([0-9]{1,5}(h|m|s|ms)){1,4}$",
    "a duration such as `10s`, `500ms` or `1m30s`: one to four numbers of up to five digits, each with h, m, s or ms",
);

/// A duration in the Gateway API's form (GEP-2257), such as `1h30m`.
///
/// # Errors
/// In words, when it is none.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let parsed = if DURATION.is_match(text) { parse(text) } else { None };
    parsed.ok_or_else(|| format!("must be {}", DURATION.means))
}

static TEXT: Text = Text::formed(0, usize::MAX, &DURATION);

pub(in crate::read) fn duration(reader: &mut Reader, node: &Node) -> Duration {
    let text = TEXT.read(reader, node);
    parse(&text).unwrap_or_else(|| {
        reader.incomplete = true;
        Duration::ZERO
    })
}

fn parse(text: &str) -> Option<Duration> {
    let mut rest = text;
    let mut sum = Duration::ZERO;
    while !rest.is_empty() {
        let (digits, unit) = rest.split_at(rest.find(|char: char| !char.is_ascii_digit())?);
        let (milliseconds, after) = match unit.strip_prefix("ms") {
            Some(after) => (1, after),
            None => match unit.chars().next()? {
                'h' => (3_600_000, unit.get(1..)?),
                'm' => (60_000, unit.get(1..)?),
                's' => (1_000, unit.get(1..)?),
                _ => return None,
            },
        };
        sum = sum.checked_add(Duration::from_millis(digits.parse::<u64>().ok()?.checked_mul(milliseconds)?))?;
        rest = after;
    }
    Some(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_none_is_told() {
        assert_eq!(parse_duration("2160h"), Ok(Duration::from_hours(2160)));
        for text in ["", "5", "1d", "123456s", "1s1s1s1s1s", "-1s", "1.5h", " 1s"] {
            let told = parse_duration(text).unwrap_err();
            assert!(told.contains("a duration such as"), "{text}: {told}");
        }
    }

    #[test]
    fn parses() {
        for (text, expected) in [
            ("0s", Some(0)),
            ("10s", Some(10_000)),
            ("500ms", Some(500)),
            ("1m30s", Some(90_000)),
            ("1h1ms", Some(3_600_001)),
            ("5", None),
            ("s", None),
            ("5d", None),
        ] {
            assert_eq!(parse(text), expected.map(Duration::from_millis), "{text}");
        }
    }
}
