//! The command line.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use portolan_model::read::parse_duration;

const EXIT_CODES: &str = "\
Exit codes:
  0  done, and nothing is wrong
  1  check: an object is refused, or a condition says that something is wrong; explain: no route takes the request
  2  the command line is wrong
  3  the machine is wrong: no Envoy or not 1.37 to 1.40, a port taken, a directory that is not there, a disk full;
     or run: a part of Portolan broke down (its Envoys go on)

Colours: none when NO_COLOR is set or the output is no terminal.";

/// Gateway API for Envoy, with or without Kubernetes.
#[derive(Parser, Debug)]
#[command(name = "portolan", version, after_help = EXIT_CODES, max_term_width = 120)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
    /// When to use colours
    #[arg(long, global = true, value_enum, default_value_t = Colour::Auto, value_name = "WHEN")]
    pub color: Colour,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Colour {
    Auto,
    Always,
    Never,
}

#[derive(Subcommand, Debug)]
pub enum Command {
    /// Serves a directory of manifests: programs local Envoys, one per Gateway, and follows changes
    #[command(after_help = "\
Examples:
  portolan run examples/quickstart
  portolan run manifests --port-offset 8000        ports 80 and 443 become 8080 and 8443
  curl -s 127.0.0.1:9800/objects | jq .            the status of every object

The first Ctrl-C lets connections finish (--drain-limit), the second ends at once. Envoys outlive a Portolan that is killed;
the next `portolan run` of the directory takes them over.")]
    Run(RunOptions),
    /// Tells what is wrong with manifests, as a linter
    #[command(after_help = "\
Examples:
  portolan check manifests                         file:line:column, object, field, message
  portolan check manifests -o yaml                 every object as kubectl would show it: defaults, status
  portolan check manifests -o json | jq '.findings[] | select(.error)'

Exit code 1 when there is an error.")]
    Check(CheckOptions),
    /// Prints the Envoy configuration that manifests lead to
    #[command(after_help = "\
Examples:
  portolan translate manifests                     all resources by Gateway, with what they come from
  portolan translate manifests -o envoy --gateway shop/web --show-secrets > envoy.json && envoy -c envoy.json
  portolan translate manifests -o envoy -d out     one complete configuration per Gateway

Private keys are printed as [redacted] unless --show-secrets is given.")]
    Translate(TranslateOptions),
    /// Tells what a request meets: listener, route, rule, match, filters, endpoints, and the fields that decided
    #[command(after_help = "\
Examples:
  portolan explain GET http://shop.example:8080/cart -d manifests
  portolan explain POST https://shop.example/cart -H 'x-canary: yes' -d manifests -o json")]
    Explain(ExplainOptions),
    /// Prints the bootstrap for an Envoy that somebody else runs
    #[command(after_help = "\
Examples:
  portolan bootstrap shop/web --xds-socket /run/portolan/xds.sock > envoy.json
  portolan bootstrap shop/web --xds portolan.example:18000 --certificate tls.crt --key tls.key --ca ca.crt")]
    Bootstrap(BootstrapArguments),
    /// Looks after the Envoy of a pod: readiness, and draining before its end. Fleets run it as a sidecar
    #[command(hide = true)]
    Proxy(ProxyOptions),
    /// Prints the CustomResourceDefinitions of Portolan's own kinds
    #[command(after_help = "\
Examples:
  portolan crds | kubectl apply --server-side -f -")]
    Crds,
    /// Serves a Kubernetes cluster: watches its API server, programs a fleet of Envoys per Gateway, writes statuses
    #[command(after_help = "\
Examples:
  helm install portolan charts/portolan            how it is meant to be run
  portolan controller --namespace portolan-system --pod $HOSTNAME

Credentials for the API server come from the pod, or else from KUBECONFIG. Any number of replicas serve proxies; one of them, which
holds the Lease portolan-leader, writes.")]
    Controller(ControllerOptions),
    /// Prints the version, and which versions of the Gateway API and of Envoy it knows
    Version {
        #[arg(short, long, value_enum, default_value_t = Format::Text, value_name = "FORMAT")]
        output: Format,
    },
}

/// Forms of output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people
    Text,
    Json,
    Yaml,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TranslateFormat {
    Json,
    Yaml,
    /// A complete configuration for `envoy -c`
    Envoy,
}

/// Where Gateways listen.
#[derive(Args, Clone, Copy, Debug)]
pub struct BindingArguments {
    /// Added to every port that Envoy listens on, for users who may not use low ports
    #[arg(long, default_value_t = 0, value_name = "N")]
    pub port_offset: u16,
    /// Give every Gateway without addresses a loopback address of its own, not only those whose ports collide
    #[arg(long)]
    pub loopback: bool,
}

#[derive(Args, Debug)]
pub struct RunOptions {
    /// Directory with manifests (.yaml, .yml, .json; subdirectories too, hidden files not), or one file
    pub directory: PathBuf,
    #[command(flatten)]
    pub binding: BindingArguments,
    /// The Envoy to run; else the one on the PATH, else the one that hack/envoy.sh fetched
    #[arg(long, env = "PORTOLAN_ENVOY", value_name = "PATH")]
    pub envoy: Option<PathBuf>,
    /// Worker threads of each Envoy; else as many as the machine has processors
    #[arg(long, value_name = "N")]
    pub envoy_concurrency: Option<u32>,
    /// Where readiness, metrics and the status of every object are served (without TLS and credentials)
    #[arg(long, default_value = "127.0.0.1:9800", value_name = "ADDRESS:PORT")]
    pub admin: SocketAddr,
    /// Serve no admin endpoint
    #[arg(long)]
    pub no_admin: bool,
    /// Private directory for sockets and the state of Envoys; else below $XDG_RUNTIME_DIR or the temporary directory
    #[arg(long, value_name = "PATH")]
    pub runtime_dir: Option<PathBuf>,
    /// How many seconds to wait for connections to finish at the end
    #[arg(long, default_value_t = 5, value_name = "SECONDS")]
    pub drain_limit: u64,
    /// `text`, or `json`: one object per line
    #[arg(short, long, value_enum, default_value_t = Format::Text, value_name = "FORMAT")]
    pub output: Format,
}

#[derive(Args, Debug)]
pub struct ControllerOptions {
    /// The namespace of Portolan itself: its Lease, its certificate authority and what its replicas tell each other
    #[arg(long, env = "POD_NAMESPACE", default_value = "portolan-system", value_name = "NAME")]
    pub namespace: String,
    /// The pod of this replica, which owns what the replica tells the others. No two processes may have the same: each would take the lead from the other
    #[arg(long, env = "POD_NAME", value_name = "NAME")]
    pub pod: String,
    /// The Service at which proxies find Portolan
    #[arg(long, default_value = "portolan", value_name = "NAME")]
    pub service: String,
    /// Where xDS is served to proxies, with mutual TLS
    #[arg(long, default_value_t = 18000, value_name = "PORT")]
    pub xds_port: u16,
    /// Where /metrics, /livez and /readyz are served
    #[arg(long, default_value_t = 9810, value_name = "PORT")]
    pub metrics_port: u16,
    /// Where kubelet asks proxies whether they are ready. No listener can have this port; fleets that run keep theirs
    #[arg(long, default_value_t = 19001, value_name = "PORT")]
    pub probe_port: u16,
    /// Of the certificates of proxies and replicas, which are renewed when half of it is over; at least 10m
    #[arg(long, default_value = "24h", value_parser = parse_duration, value_name = "DURATION")]
    pub certificate_lifetime: Duration,
    /// Of the authority that signs them, at least eight of those; a new one is introduced when half of it is over
    #[arg(long, default_value = "17520h", value_parser = parse_duration, value_name = "DURATION")]
    pub authority_lifetime: Duration,
    /// Watch only these namespaces; else all
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    pub watch_namespaces: Vec<String>,
    /// Image of the proxies
    #[arg(long, default_value = "envoyproxy/envoy:distroless-v1.40.0", value_name = "IMAGE")]
    pub proxy_image: String,
    /// Image of the proxies' sidecar: Portolan's own
    #[arg(long, env = "PORTOLAN_IMAGE", default_value = concat!("portolan:", env!("CARGO_PKG_VERSION")), value_name = "IMAGE")]
    pub portolan_image: String,
}

#[derive(Args, Debug)]
pub struct CheckOptions {
    /// Directory with manifests, or one file
    pub directory: PathBuf,
    #[arg(short, long, value_enum, default_value_t = Format::Text, value_name = "FORMAT")]
    pub output: Format,
}

#[derive(Args, Debug)]
pub struct TranslateOptions {
    /// Directory with manifests, or one file
    pub directory: PathBuf,
    #[arg(short, long, value_enum, default_value_t = TranslateFormat::Yaml, value_name = "FORMAT")]
    pub output: TranslateFormat,
    /// Only this Gateway
    #[arg(long, value_name = "NAMESPACE/NAME")]
    pub gateway: Option<String>,
    /// Write one file per Gateway into this directory
    #[arg(short = 'd', long, value_name = "PATH")]
    pub output_dir: Option<PathBuf>,
    /// Print private keys as they are
    #[arg(long)]
    pub show_secrets: bool,
    #[command(flatten)]
    pub binding: BindingArguments,
}

#[derive(Args, Debug)]
pub struct ExplainOptions {
    /// GET, POST, ..
    pub method: String,
    /// Absolute: scheme, host, the port of the listener (without a port offset), path
    pub url: String,
    /// A header of the request; repeatable
    #[arg(short = 'H', long = "header", value_name = "NAME: VALUE")]
    pub headers: Vec<String>,
    /// Directory with manifests, or one file
    #[arg(short = 'd', long, default_value = ".", value_name = "PATH")]
    pub directory: PathBuf,
    /// Only this Gateway; else every Gateway with such a port is tried
    #[arg(long, value_name = "NAMESPACE/NAME")]
    pub gateway: Option<String>,
    /// Server name of the TLS handshake; else the host of the URL
    #[arg(long, value_name = "NAME")]
    pub sni: Option<String>,
    #[arg(short, long, value_enum, default_value_t = Format::Text, value_name = "FORMAT")]
    pub output: Format,
}

#[derive(Args, Debug)]
pub struct BootstrapArguments {
    /// The Gateway whose proxy it is
    #[arg(value_name = "NAMESPACE/NAME")]
    pub gateway: String,
    /// Unix socket where Portolan serves xDS
    #[arg(long, value_name = "PATH", conflicts_with = "xds", required_unless_present = "xds")]
    pub xds_socket: Option<PathBuf>,
    /// Host and port where Portolan serves xDS, with mutual TLS
    #[arg(long, value_name = "HOST:PORT", requires_all = ["certificate", "key", "ca"])]
    pub xds: Option<String>,
    /// The proxy's certificate, PEM
    #[arg(long, value_name = "FILE")]
    pub certificate: Option<String>,
    /// The key of the proxy's certificate, PEM
    #[arg(long, value_name = "FILE")]
    pub key: Option<String>,
    /// The authorities of Portolan's certificate, PEM
    #[arg(long, value_name = "FILE")]
    pub ca: Option<String>,
    /// The name in Portolan's certificate; else the host of --xds
    #[arg(long, value_name = "NAME")]
    pub server_name: Option<String>,
    /// Unix socket for Envoy's admin interface
    #[arg(long, default_value = "/tmp/portolan-envoy-admin.sock", value_name = "PATH")]
    pub admin_socket: PathBuf,
    /// Zone of the proxy
    #[arg(long, default_value = "", value_name = "ZONE")]
    pub zone: String,
    /// Megabytes of memory above which Envoy sheds load
    #[arg(long, value_name = "MB")]
    pub heap_limit: Option<u64>,
}

#[derive(Args, Debug)]
pub struct ProxyOptions {
    /// Unix socket of Envoy's admin interface
    #[arg(long, value_name = "PATH")]
    pub admin_socket: PathBuf,
    /// Where kubelet asks: GET /ready, GET /drain
    #[arg(long, default_value_t = 19001, value_name = "PORT")]
    pub port: u16,
    /// How many seconds to go on before draining, until load balancers have let go
    #[arg(long, default_value_t = 10, value_name = "SECONDS")]
    pub drain_wait: u64,
    /// When draining is over, connections or not; counted from its beginning
    #[arg(long, default_value_t = 60, value_name = "SECONDS")]
    pub drain_limit: u64,
    /// What whoever asks for draining has to show
    #[arg(long, value_name = "TOKEN")]
    pub drain_token: String,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
