//! Judges objects: one JSON object per line comes in, one verdict per line goes out.
//!
//! ```text
//! {"standard":true,"experimental":false,"unknown":["spec.foo"],"violations":["…"],"read":true,"written":{…}}
//! ```
//!
//! `conformance/crds` compares these verdicts with an API server's.

#![expect(clippy::disallowed_methods, reason = "a program, not the pure library")]

use std::error::Error;
use std::io::{self, BufRead as _, Write as _};

use portolan_model::read::{self, Channel, Severity};

fn main() -> Result<(), Box<dyn Error>> {
    let mut output = io::BufWriter::new(io::stdout().lock());
    for line in io::stdin().lock().lines() {
        let line = line?;
        let manifest = read::json(&serde_json::from_str(&line)?);
        // JSON is YAML.
        let written = read::written(&"".into(), line.as_bytes()).unwrap_or_default();
        let accepts = |channel| !manifest.is_refused_by(channel);
        let unknown = manifest.violations.iter().filter(|violation| {
            violation.severity == Severity::Warning && violation.message.starts_with("unknown field")
        });
        let unknown: Vec<_> = unknown.map(|violation| violation.field.as_str()).collect();
        let violations: Vec<_> = manifest.violations.iter().map(ToString::to_string).collect();
        let verdict = serde_json::json!({
            "standard": accepts(Channel::Standard),
            "experimental": accepts(Channel::Experimental),
            "unknown": unknown,
            "violations": violations,
            "read": manifest.object.is_some(),
            "written": written.first().map(|(_, value)| value),
        });
        writeln!(output, "{verdict}")?;
    }
    Ok(())
}
