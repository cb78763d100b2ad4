//! What a scalar without quotes means.

use std::sync::Arc;

use super::Value;

/// As kubectl reads it, which is YAML 1.1: `yes` and `on` are booleans, `0777` is octal. To judge `value: yes` as a string would
/// accept here what a cluster refuses.
pub(super) fn plain(text: &str) -> Value {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Value::Null,
        "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => return Value::Bool(true),
        "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => {
            return Value::Bool(false);
        }
        ".nan" | ".NaN" | ".NAN" => return Value::Float(f64::NAN),
        ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" => return Value::Float(f64::INFINITY),
        "-.inf" | "-.Inf" | "-.INF" => return Value::Float(f64::NEG_INFINITY),
        _ => {}
    }
    if text.starts_with(|char: char| char.is_ascii_digit() || matches!(char, '+' | '-' | '.')) {
        let digits = text.replace('_', "");
        if let Some(integer) = integer(&digits) {
            return Value::Integer(integer);
        }
        if is_float(&digits)
            && let Ok(float) = digits.parse()
        {
            return Value::Float(float);
        }
    }
    Value::Text(Arc::from(text))
}

fn integer(text: &str) -> Option<i64> {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => ("-", digits),
        None => ("", text.strip_prefix('+').unwrap_or(text)),
    };
    if !digits.starts_with(|char: char| char.is_ascii_digit()) {
        return None;
    }
    let (radix, digits) = match digits.get(..2) {
        Some("0x") => (16, digits.get(2..)?),
        Some("0o") => (8, digits.get(2..)?),
        Some("0b") => (2, digits.get(2..)?),
        Some(start) if start.starts_with('0') => (8, digits.get(1..)?),
        _ => (10, digits),
    };
    if !digits.starts_with(|char: char| char.is_ascii_alphanumeric()) {
        return None;
    }
    i64::from_str_radix(&format!("{sign}{digits}"), radix).ok()
}

/// `^[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?$`
fn is_float(text: &str) -> bool {
    let text = text.strip_prefix(['-', '+']).unwrap_or(text);
    let (mantissa, exponent) =
        text.split_once(['e', 'E']).map_or((text, None), |(mantissa, exponent)| (mantissa, Some(exponent)));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let mantissa = match mantissa.split_once('.') {
        None => digits(mantissa),
        Some(("", fraction)) => digits(fraction),
        Some((whole, fraction)) => digits(whole) && (fraction.is_empty() || digits(fraction)),
    };
    mantissa && exponent.is_none_or(|exponent| digits(exponent.strip_prefix(['-', '+']).unwrap_or(exponent)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_kubectl_reads_it() {
        for (text, expected) in [
            ("yes", "Bool(true)"),
            ("off", "Bool(false)"),
            ("~", "Null"),
            ("80", "Integer(80)"),
            ("-5", "Integer(-5)"),
            ("0x1F", "Integer(31)"),
            ("010", "Integer(8)"),
            ("0", "Integer(0)"),
            ("1_000", "Integer(1000)"),
            ("1.5", "Float(1.5)"),
            ("1e3", "Float(1000.0)"),
            ("99999999999999999999", "Float(1e20)"),
            ("1.2.3", "Text(\"1.2.3\")"),
            ("-", "Text(\"-\")"),
            ("08", "Float(8.0)"),
            ("5s", "Text(\"5s\")"),
            ("2026-01-02", "Text(\"2026-01-02\")"),
            ("0x", "Text(\"0x\")"),
            ("+-5", "Text(\"+-5\")"),
        ] {
            assert_eq!(format!("{:?}", plain(text)), expected, "{text}");
        }
    }
}
