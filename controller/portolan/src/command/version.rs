//! `portolan version`.

use serde_json::json;

use crate::cli::Format;
use crate::shell::Shell;
use crate::yaml;

/// Releases of the Gateway API whose objects are read.
const GATEWAY_API: &str = "1.5 to 1.7";
/// Releases of Envoy that are supported.
const ENVOY: &str = "1.37 to 1.40";

/// Prints versions.
pub fn version(format: Format, shell: Shell) {
    let portolan = env!("CARGO_PKG_VERSION");
    let value = json!({"portolan": portolan, "gatewayApi": GATEWAY_API, "envoy": ENVOY});
    match format {
        Format::Text => shell.out(format_args!("portolan {portolan} (Gateway API {GATEWAY_API}, Envoy {ENVOY})")),
        Format::Json => shell.out(format_args!("{value:#}")),
        Format::Yaml => shell.out(yaml::document(&value).trim_end()),
    }
}
