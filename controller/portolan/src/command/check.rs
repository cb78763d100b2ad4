//! `portolan check`: a linter.

use serde_json::{Value, json};

use crate::cli::{CheckOptions, Format};
use crate::failure::{Failure, Verdict};
use crate::load::{Loaded, load};
use crate::shell::{Shell, Style, finding, finding_json};
use crate::yaml;

/// Reads the directory and prints what is wrong with it.
pub fn check(options: &CheckOptions, shell: Shell) -> Result<Verdict, Failure> {
    let loaded = load(&options.directory, None)?;
    let count_of_objects = loaded.plane.ledger().objects().count();
    let errors = loaded.findings.iter().filter(|finding| finding.error).count();
    let warnings = loaded.findings.len() - errors;
    match options.output {
        Format::Text => {
            for one in &loaded.findings {
                shell.out(finding(one, |style, text| shell.on_out(style, text).to_string()));
            }
            let style = if errors > 0 { Style::Error } else { Style::Good };
            let summary = format!(
                "{}, {}, {}",
                count(count_of_objects, "object"),
                count(errors, "error"),
                count(warnings, "warning")
            );
            shell.err(shell.on_err(style, summary));
        }
        Format::Json => {
            let findings: Vec<Value> = loaded.findings.iter().map(finding_json).collect();
            shell.out(format_args!("{:#}", json!({"findings": findings, "objects": objects(&loaded)?})));
        }
        Format::Yaml => {
            shell.out(yaml::documents(&objects(&loaded)?).trim_end());
            for one in &loaded.findings {
                shell.err(finding(one, |style, text| shell.on_err(style, text).to_string()));
            }
        }
    }
    Ok(if errors > 0 { Verdict::Findings } else { Verdict::Good })
}

/// The objects in force as an API server would give them back: as they were written, with defaults, and with their statuses.
fn objects(loaded: &Loaded) -> Result<Vec<Value>, Failure> {
    let mut written = loaded.directory.written().map_err(Failure::environment)?;
    let shown = loaded.plane.ledger().show_all();
    Ok(shown.map(|(key, shown)| whole(shown, written.remove(key))).collect())
}

/// What was written, between what is kept about it: identity in front, status at the end.
fn whole(mut shown: Value, written: Option<Value>) -> Value {
    let (Some(fields), Some(Value::Object(mut written))) = (shown.as_object_mut(), written) else { return shown };
    let status = fields.shift_remove("status");
    for (field, value) in std::mem::take(&mut written) {
        match (fields.get_mut(&field), value) {
            (Some(Value::Object(kept)), Value::Object(metadata)) => {
                for (field, value) in metadata {
                    kept.entry(field).or_insert(value);
                }
            }
            (Some(_), _) => {}
            (None, value) => _ = fields.insert(field, value),
        }
    }
    fields.extend(status.map(|status| ("status".to_owned(), status)));
    shown
}

fn count(number: usize, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}
