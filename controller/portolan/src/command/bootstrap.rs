//! `portolan bootstrap`: for an Envoy that somebody else runs.

use portolan_fleet::Fleet;
use portolan_proto::json::{Secrets, to_json};
use portolan_proto::prost::Message;
use portolan_translate::{BootstrapOptions, ServerTls, XdsServer};
use serde_json::Value;

use super::translate::bootstrap_type;
use crate::cli::BootstrapArguments;
use crate::failure::{Failure, Verdict};
use crate::load::gateway_name;
use crate::shell::Shell;

/// Prints the bootstrap as JSON.
pub fn bootstrap(arguments: &BootstrapArguments, shell: Shell) -> Result<Verdict, Failure> {
    let fleet = Fleet::of(gateway_name(&arguments.gateway)?);
    let options = BootstrapOptions {
        zone: arguments.zone.clone(),
        heap_limit: arguments.heap_limit.map(|megabytes| megabytes.saturating_mul(1_000_000)),
        ..fleet.bootstrap_options(server(arguments)?, arguments.admin_socket.display().to_string())
    };
    shell.out(format_args!("{:#}", render(&options)?));
    Ok(Verdict::Good)
}

/// The bootstrap of these options as JSON.
pub fn render(options: &BootstrapOptions) -> Result<Value, Failure> {
    let message = portolan_translate::bootstrap(options);
    to_json(&bootstrap_type(), &message.encode_to_vec(), Secrets::Show).map_err(Failure::environment)
}

fn server(arguments: &BootstrapArguments) -> Result<XdsServer, Failure> {
    let Some(address) = &arguments.xds else {
        let path = arguments.xds_socket.as_ref().map(|path| path.display().to_string()).unwrap_or_default();
        return Ok(XdsServer::Unix { path });
    };
    let (host, port) = address
        .rsplit_once(':')
        .and_then(|(host, port)| Some((host.trim_matches(['[', ']']), port.parse().ok()?)))
        .ok_or_else(|| Failure::Usage(format!("--xds {address:?} is no HOST:PORT")))?;
    Ok(XdsServer::Tcp {
        host: host.to_owned(),
        port,
        tls: ServerTls {
            certificate: arguments.certificate.clone().unwrap_or_default(),
            private_key: arguments.key.clone().unwrap_or_default(),
            authorities: arguments.ca.clone().unwrap_or_default(),
            server_name: arguments.server_name.clone().unwrap_or_else(|| host.to_owned()),
            secrets: None,
        },
    })
}
