//! `telemetry` of an EnvoyProxy: access logs.

use std::sync::Arc;

use super::super::document::Node;
use super::super::schema::{Choice, Fields, Reader, Text};
use crate::objects::{AccessLog, AccessLogFormat};
use crate::{Name, command_operator};

static FORMAT: Choice = Choice::of(&["Text", "JSON"]);
static SINK: Choice = Choice::of(&["File", "ALS", "OpenTelemetry"]);
static PATH: Text = Text::sized(1, 4096);

/// `None`: nothing is said about access logs.
pub(super) fn telemetry(fields: &mut Fields<'_>, unsupported: &mut Vec<Name>) -> Option<Arc<[AccessLog]>> {
    let logs =
        fields.optional("accessLog", |reader, node| reader.object(node, |fields| access_log(fields, unsupported)));
    fields.unsupported(&["tracing", "metrics", "requestID"], unsupported);
    logs.flatten()
}

fn access_log(fields: &mut Fields<'_>, unsupported: &mut Vec<Name>) -> Option<Arc<[AccessLog]>> {
    let disabled = fields.boolean("disable") == Some(true);
    let settings =
        fields.list("settings", 0..=50, |reader, node| reader.object(node, |fields| setting(fields, unsupported)));
    if disabled {
        return Some(Arc::default());
    }
    (!settings.is_empty()).then(|| settings.into_iter().flatten().collect())
}

/// One log for each of its files.
fn setting(fields: &mut Fields<'_>, unsupported: &mut Vec<Name>) -> Vec<AccessLog> {
    let format = fields.optional("format", |reader, node| reader.object(node, |fields| format(fields, unsupported)));
    let format = format.flatten().unwrap_or_else(AccessLogFormat::standard);
    let paths =
        fields.required_list("sinks", 1..=50, |reader, node| reader.object(node, |fields| sink(fields, unsupported)));
    fields.unsupported(&["matches", "type"], unsupported);
    paths.into_iter().flatten().map(|path| AccessLog { format: format.clone(), path }).collect()
}

/// `None`: the standard one, or none that Envoy would take.
fn format(fields: &mut Fields<'_>, unsupported: &mut Vec<Name>) -> Option<AccessLogFormat> {
    let kind = fields.choice("type", &FORMAT);
    let text = fields.text("text", &Text::ANY);
    let members = fields.text_map("json", 100, &Text::ANY);
    let (field, values): (&'static str, Vec<&Name>) = match kind.as_deref() {
        Some("JSON") => ("json", members.values().collect()),
        _ if text.is_some() => ("text", text.iter().collect()),
        _ => ("json", members.values().collect()),
    };
    // Envoy would refuse every listener for it.
    if let Some(problem) = values.iter().find_map(|value| command_operator::problem(value)) {
        fields.without_effect(field, &format!("{problem}; the standard format is used instead"), unsupported);
        return None;
    }
    match text.filter(|_| field == "text") {
        // A line each, as in a log.
        Some(text) if text.ends_with('\n') => Some(AccessLogFormat::Text(text)),
        Some(text) => Some(AccessLogFormat::Text(format!("{text}\n").into())),
        None => (!members.is_empty()).then_some(AccessLogFormat::Json(members)),
    }
}

fn sink(fields: &mut Fields<'_>, unsupported: &mut Vec<Name>) -> Option<Name> {
    let kind = fields.required_choice("type", &SINK);
    let path = fields.optional("file", |reader: &mut Reader, node: &Node| {
        reader.object(node, |fields| fields.text("path", &PATH).unwrap_or_else(|| Name::from("/dev/stdout")))
    });
    fields.unsupported(&["als", "openTelemetry"], unsupported);
    let of_kind = match &*kind {
        "ALS" => "als",
        "OpenTelemetry" => "openTelemetry",
        _ => "file",
    };
    if !fields.has(of_kind) {
        fields.refuse(of_kind, format!("must be given, for the type is {kind}"));
    }
    path.filter(|_| &*kind == "File")
}
