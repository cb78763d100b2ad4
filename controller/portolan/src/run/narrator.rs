//! What `portolan run` says while it runs: lines for people, or one JSON object per line.

use std::fmt::Display;
use std::path::Path;

use portolan_model::NamespacedName;
use portolan_standalone::envoy::{EnvoyBinary, Report};
use portolan_standalone::{Finding, FindingChanges};
use serde_json::{Value, json};

use crate::cli::Format;
use crate::shell::{Shell, Style, finding, finding_json, one_line};

/// Says it.
#[derive(Clone, Copy, Debug)]
pub struct Narrator {
    shell: Shell,
    json: bool,
}

impl Narrator {
    /// Of a form.
    pub fn new(shell: Shell, format: Format) -> Self {
        Self { shell, json: format == Format::Json }
    }

    /// The line for people, or the event for programs.
    fn say(self, style: Style, text: impl Display, event: impl FnOnce() -> Value) {
        if self.json {
            self.shell.out(event());
        } else {
            self.shell.err(self.shell.on_err(style, text));
        }
    }

    pub fn starting(self, directory: &Path, envoy: &EnvoyBinary) {
        let directory = directory.display();
        let text = format!("portolan: serving {directory} with Envoy {} ({})", envoy.version, envoy.path.display());
        self.say(
            Style::Dim,
            text,
            || json!({"event": "starting", "directory": directory.to_string(), "envoy": envoy.version.to_string()}),
        );
    }

    pub fn findings(self, changes: &FindingChanges) {
        let coloured = |style, text| self.shell.on_err(style, text).to_string();
        let event = |kind: &str, one: &Finding| json!({"event": kind, "finding": finding_json(one)});
        for one in &changes.cleared {
            if self.json {
                self.shell.out(event("cleared", one));
            } else {
                let text = finding(one, |_, text| text);
                self.shell.err(format_args!(
                    "{} {}",
                    coloured(Style::Good, "cleared:".into()),
                    coloured(Style::Dim, text)
                ));
            }
        }
        for one in &changes.arisen {
            if self.json {
                self.shell.out(event("finding", one));
            } else {
                self.shell.err(finding(one, coloured));
            }
        }
    }

    /// The proxies of a Gateway have taken their listeners.
    pub fn listening(self, gateway: &NamespacedName, urls: &[String]) {
        let at =
            if urls.is_empty() { "no port: it has no listener that can be served".into() } else { urls.join(", ") };
        self.say(
            Style::Good,
            format!("Gateway {gateway} listens on {at}"),
            || json!({"event": "listening", "gateway": gateway.to_string(), "urls": urls}),
        );
    }

    /// Every Gateway has been programmed.
    pub fn ready(self, gateways: usize) {
        let text = if gateways == 0 {
            "ready, but there is no Gateway of Portolan's yet".into()
        } else {
            String::from("ready")
        };
        self.say(Style::Good, text, || json!({"event": "ready", "gateways": gateways}));
    }

    pub fn envoy(self, gateway: &NamespacedName, report: &Report) {
        let (style, text) = match report {
            Report::Started { pid } => (Style::Dim, format!("started (pid {pid})")),
            Report::Adopted { pid } => (Style::Dim, format!("still runs and is taken over (pid {pid})")),
            Report::Ended { how, wait } => {
                (Style::Error, format!("ended ({how}); started again {}", soon(wait.as_millis())))
            }
            Report::NotStarted { reason, wait } => {
                (Style::Error, format!("cannot be started: {reason}; tried again {}", soon(wait.as_millis())))
            }
            Report::Line(line) => (Style::Dim, format!("| {}", one_line(line))),
            Report::Stopped => (Style::Dim, "stopped".into()),
        };
        self.say(
            style,
            format!("Envoy of {gateway} {text}"),
            || json!({"event": "envoy", "gateway": gateway.to_string(), "text": text}),
        );
    }

    /// Something is wrong that belongs to no object.
    pub fn trouble(self, text: &str) {
        self.say(Style::Error, format!("error: {}", one_line(text)), || json!({"event": "error", "text": text}));
    }

    pub fn ending(self, reason: &str) {
        let text = format!("{reason}: letting connections finish; once more ends at once");
        self.say(Style::Strong, text, || json!({"event": "ending", "reason": reason}));
    }

    pub fn ended(self) {
        self.say(Style::Dim, "portolan: ended", || json!({"event": "ended"}));
    }
}

fn soon(milliseconds: u128) -> String {
    if milliseconds == 0 { "at once".into() } else { format!("in {:.1} s", milliseconds as f64 / 1000.0) }
}
