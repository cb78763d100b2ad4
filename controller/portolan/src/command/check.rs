//! `portolan check`: a linter.

use serde_json::{Value, json};

use crate::cli::{CheckOptions, Format};
use crate::failure::{Failure, Verdict};
use crate::load::load;
use crate::shell::{Shell, Style, finding, finding_json};
use crate::yaml;

/// Reads the directory and prints what is wrong with it.
pub fn check(options: &CheckOptions, shell: Shell) -> Result<Verdict, Failure> {
    let loaded = load(&options.directory, None)?;
    let objects: Vec<Value> = loaded.plane.ledger().show_all().collect();
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
                count(objects.len(), "object"),
                count(errors, "error"),
                count(warnings, "warning")
            );
            shell.err(shell.on_err(style, summary));
        }
        Format::Json => {
            let findings: Vec<Value> = loaded.findings.iter().map(finding_json).collect();
            shell.out(format_args!("{:#}", json!({"findings": findings, "objects": objects})));
        }
        Format::Yaml => {
            shell.out(yaml::documents(&objects).trim_end());
            for one in &loaded.findings {
                shell.err(finding(one, |style, text| shell.on_err(style, text).to_string()));
            }
        }
    }
    Ok(if errors > 0 { Verdict::Findings } else { Verdict::Good })
}

fn count(number: usize, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}
