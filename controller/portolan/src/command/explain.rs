//! `portolan explain`: what a request meets.

use http::Uri;
use portolan_model::NamespacedName;
use portolan_model::ir::ClusterKey;
use portolan_resolve::explain::{Choice, Explanation, Outcome, Request, Step, explain as walk};
use serde_json::{Value, json};

use crate::cli::{ExplainOptions, Format};
use crate::failure::{Failure, Verdict};
use crate::load::{gateway_name, load};
use crate::shell::{Shell, Style};
use crate::yaml;

/// Explains the request at every Gateway that listens on its port.
pub fn explain(options: &ExplainOptions, shell: Shell) -> Result<Verdict, Failure> {
    let loaded = load(&options.directory, None)?;
    let engine = loaded.plane.engine();
    let only = options.gateway.as_deref().map(gateway_name).transpose()?;
    let asked: Vec<&NamespacedName> =
        engine.fleets().filter(|gateway| only.as_ref().is_none_or(|only| only == *gateway)).collect();
    if asked.is_empty() {
        return Err(Failure::Usage(match only {
            Some(gateway) => format!("no Gateway {gateway} of Portolan's is in the manifests"),
            None => "no Gateway of Portolan's is in the manifests".into(),
        }));
    }
    let world = engine.world();
    let mut explanations = Vec::new();
    for gateway in asked {
        explanations.push((gateway, walk(&world, &request(options, gateway)?)));
    }
    // Gateways without the port say nothing, unless all are such.
    if explanations.iter().any(|(_, explanation)| explanation.outcome != Outcome::NotListening) {
        explanations.retain(|(_, explanation)| explanation.outcome != Outcome::NotListening);
    }
    match (options.output, explanations.as_slice()) {
        (Format::Text, all) => {
            for (gateway, explanation) in all {
                print(gateway, explanation, shell);
            }
        }
        (format, [(gateway, explanation)]) => print_value(&to_json(gateway, explanation), format, shell),
        (format, all) => {
            let values = all.iter().map(|(gateway, explanation)| to_json(gateway, explanation)).collect();
            print_value(&Value::Array(values), format, shell);
        }
    }
    let taken = explanations.iter().any(|(_, explanation)| explanation.route.is_some());
    Ok(if taken { Verdict::Good } else { Verdict::Findings })
}

fn request(options: &ExplainOptions, gateway: &NamespacedName) -> Result<Request, Failure> {
    let usage = |reason: &str| {
        Failure::Usage(format!("{:?} {reason}; write it like http://shop.example:8080/cart", options.url))
    };
    let uri: Uri = options.url.parse().map_err(|_| usage("is no URL"))?;
    let authority = uri.authority().ok_or_else(|| usage("names no host"))?;
    let tls = match uri.scheme_str() {
        Some("https" | "wss") => true,
        Some("http" | "ws") => false,
        _ => return Err(usage("has another scheme than http and https")),
    };
    let mut headers = Vec::new();
    let mut host = authority.as_str().to_owned();
    for header in &options.headers {
        let (name, value) = header
            .split_once(':')
            .ok_or_else(|| Failure::Usage(format!("{header:?} is no header; write -H 'name: value'")))?;
        let (name, value) = (name.trim().to_owned(), value.trim().to_owned());
        if name.eq_ignore_ascii_case("host") {
            host = value;
        } else {
            headers.push((name, value));
        }
    }
    Ok(Request {
        gateway: gateway.clone(),
        tls,
        sni: tls.then(|| options.sni.clone().unwrap_or_else(|| authority.host().to_owned())),
        port: authority.port_u16().unwrap_or(if tls { 443 } else { 80 }),
        method: options.method.clone(),
        authority: host,
        path: uri.path_and_query().map_or("/", |path| path.as_str()).to_owned(),
        headers,
    })
}

fn print(gateway: &NamespacedName, explanation: &Explanation, shell: Shell) {
    shell.out(shell.on_out(Style::Strong, format_args!("Gateway {gateway}")));
    for Step { text, object, field } in &explanation.steps {
        let by = format!("({object} {field})");
        shell.out(format_args!("  {text} {}", shell.on_out(Style::Dim, by.replace(" )", ")"))));
    }
    let line = |style: Style, text: String| shell.out(format_args!("  {} {}", shell.on_out(style, "=>"), text));
    match &explanation.outcome {
        Outcome::NotListening => line(Style::Error, "connection refused".into()),
        Outcome::Closed => line(Style::Error, "connection closed".into()),
        Outcome::Respond { status, grpc_status: None } => {
            line(Style::Warning, format!("{status} from the proxy itself"));
        }
        Outcome::Respond { grpc_status: Some(status), .. } => {
            line(Style::Warning, format!("grpc-status {status} from the proxy itself"));
        }
        Outcome::Redirect { status, location } => line(Style::Good, format!("{status} to {location}")),
        Outcome::Forward(choices) => choices.iter().for_each(|choice| line(Style::Good, describe(choice, choices))),
    }
}

fn describe(choice: &Choice, all: &[Choice]) -> String {
    let total: u32 = all.iter().map(|choice| choice.weight).sum();
    let share = if all.len() > 1 { format!("{} of {total}: ", choice.weight) } else { String::new() };
    let Some(cluster) = &choice.cluster else { return format!("{share}500, as the backend is not valid") };
    let endpoints = if choice.endpoints.is_empty() { "no endpoint, 503".into() } else { choice.endpoints.join(", ") };
    let backend = &cluster.backend;
    let port = if backend.port > 0 { format!(":{}", backend.port) } else { String::new() };
    format!("{share}{} {}{port} at {endpoints}, as {}{}", backend.kind, backend.name, choice.authority, choice.path)
}

fn to_json(gateway: &NamespacedName, explanation: &Explanation) -> Value {
    let steps = explanation
        .steps
        .iter()
        .map(|step| json!({"text": step.text, "object": step.object.to_string(), "field": step.field}));
    let matched = explanation.route.as_ref().map(|matched| {
        json!({
            "rule": matched.rule,
            "ruleName": matched.rule_name.as_deref(),
            "match": matched.matched,
            "hostname": *matched.hostname,
        })
    });
    json!({
        "gateway": gateway.to_string(),
        "route": explanation.route.as_ref().map(|matched| matched.route.to_string()),
        "matched": matched,
        "outcome": outcome(&explanation.outcome),
        "steps": steps.collect::<Vec<_>>(),
    })
}

fn outcome(outcome: &Outcome) -> Value {
    match outcome {
        Outcome::NotListening => json!({"kind": "NotListening"}),
        Outcome::Closed => json!({"kind": "Closed"}),
        Outcome::Respond { status, grpc_status } => {
            json!({"kind": "Respond", "status": status, "grpcStatus": grpc_status})
        }
        Outcome::Redirect { status, location } => json!({"kind": "Redirect", "status": status, "location": location}),
        Outcome::Forward(choices) => {
            json!({"kind": "Forward", "choices": choices.iter().map(choice).collect::<Vec<_>>()})
        }
    }
}

fn choice(choice: &Choice) -> Value {
    let backend = choice.cluster.as_ref().map(|cluster| &cluster.backend);
    json!({
        "weight": choice.weight,
        "backend": backend.map(|backend| format!("{} {}", backend.kind, backend.name)),
        "port": backend.map(|backend| backend.port),
        "cluster": choice.cluster.as_ref().map(ClusterKey::resource_name),
        "endpoints": choice.endpoints,
        "authority": choice.authority,
        "path": choice.path,
    })
}

fn print_value(value: &Value, format: Format, shell: Shell) {
    if format == Format::Yaml {
        shell.out(yaml::document(value).trim_end());
    } else {
        shell.out(format_args!("{value:#}"));
    }
}
