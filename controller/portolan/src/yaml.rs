//! JSON values as YAML. Strings that another reader could take for something else are quoted as JSON quotes them, which is YAML too.

use std::fmt::Write;

use serde_json::Value;

/// Documents, each with `---` before it where there are several.
pub fn documents<'a>(values: impl IntoIterator<Item = &'a Value>) -> String {
    let documents: Vec<String> = values.into_iter().map(document).collect();
    documents.join("---\n")
}

/// One document, with a newline at its end.
pub fn document(value: &Value) -> String {
    let mut text = String::new();
    write_value(&mut text, value, 0);
    if !text.ends_with('\n') {
        text.push('\n');
    }
    text
}

fn write_value(text: &mut String, value: &Value, indent: usize) {
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            for (index, (key, value)) in fields.iter().enumerate() {
                if index > 0 {
                    pad(text, indent);
                }
                text.push_str(&scalar(key));
                text.push(':');
                write_nested(text, value, indent);
            }
        }
        Value::Array(items) if !items.is_empty() => {
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    pad(text, indent);
                }
                text.push_str("- ");
                write_value(text, item, indent + 2);
                end_line(text);
            }
        }
        Value::String(string) => text.push_str(&scalar(string)),
        // Numbers, booleans, null, `{}` and `[]` are the same in both.
        other => _ = write!(text, "{other}"),
    }
}

fn write_nested(text: &mut String, value: &Value, indent: usize) {
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            text.push('\n');
            pad(text, indent + 2);
            write_value(text, value, indent + 2);
        }
        Value::Array(items) if !items.is_empty() => {
            text.push('\n');
            pad(text, indent);
            write_value(text, value, indent);
        }
        other => {
            text.push(' ');
            write_value(text, other, indent);
        }
    }
    end_line(text);
}

fn pad(text: &mut String, indent: usize) {
    text.extend(std::iter::repeat_n(' ', indent));
}

fn end_line(text: &mut String) {
    if !text.ends_with('\n') {
        text.push('\n');
    }
}

/// Plain where no reader of YAML 1.1 or 1.2 can misunderstand it.
fn scalar(string: &str) -> String {
    let plain_start = string.starts_with(|first: char| first.is_ascii_alphabetic() || first == '/' || first == '_');
    let plain_rest = string.chars().all(|char| char.is_ascii_alphanumeric() || "/_.-+@() ".contains(char));
    let word = string.to_ascii_lowercase();
    let reserved = matches!(word.as_str(), "true" | "false" | "null" | "yes" | "no" | "on" | "off" | "y" | "n");
    if plain_start && plain_rest && !reserved && !string.ends_with(' ') {
        string.to_owned()
    } else {
        Value::from(string).to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn it_reads_as_yaml_is_written() {
        let value = json!({
            "name": "web", "empty": {}, "none": [], "flag": "yes", "number": "1", "port": 80, "text": "a: b # c\nd",
            "list": [{"a": 1, "b": [true, null]}, "x", ["y"]], "nested": {"deep": {"er": "1.5"}},
        });
        assert_eq!(
            document(&value),
            "name: web\nempty: {}\nnone: []\nflag: \"yes\"\nnumber: \"1\"\nport: 80\ntext: \"a: b # c\\nd\"\nlist:\n- a: 1\n  b:\n  - true\n  - null\n- x\n- - \"y\"\nnested:\n  deep:\n    er: \"1.5\"\n"
        );
        assert_eq!(documents([&json!({"a": 1}), &json!("x")]), "a: 1\n---\nx\n");
    }
}
