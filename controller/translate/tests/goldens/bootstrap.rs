//! Bootstraps.

use portolan_proto::json::{Secrets, to_json};
use portolan_proto::prost::Message;
use portolan_translate::{
    BootstrapOptions, DEFAULT_CONNECTION_LIMIT, ServerTls, XdsServer, bootstrap, static_bootstrap,
};

use crate::{PEM, assert_golden, cases};

const BOOTSTRAP: &str = "envoy.config.bootstrap.v3.Bootstrap";

fn assert_bootstrap(name: &str, message: &impl Message, secrets: Secrets) {
    let json = to_json(BOOTSTRAP, &message.encode_to_vec(), secrets).unwrap();
    assert_golden(name, &serde_json::to_string_pretty(&json).unwrap());
}

#[test]
fn a_proxy_on_the_same_machine() {
    let options = BootstrapOptions {
        node_id: "infra/edge/1".into(),
        node_cluster: "infra/edge".into(),
        zone: String::new(),
        xds: XdsServer::Unix { path: "/run/portolan/xds.sock".into() },
        admin_socket: "/run/portolan/admin.sock".into(),
        heap_limit: None,
        connection_limit: DEFAULT_CONNECTION_LIMIT,
    };
    assert_bootstrap("bootstrap/unix", &bootstrap(&options), Secrets::Show);
}

#[test]
fn a_proxy_of_a_fleet() {
    let file = |name: &str| format!("/etc/portolan/{name}");
    let tls = ServerTls {
        certificate: file("tls.crt"),
        private_key: file("tls.key"),
        authorities: file("ca.crt"),
        server_name: "portolan.portolan.svc".into(),
        secrets: None,
    };
    let options = BootstrapOptions {
        node_id: "infra/edge/pod-1".into(),
        node_cluster: "infra/edge".into(),
        zone: "zone-a".into(),
        xds: XdsServer::Tcp { host: "portolan.portolan.svc".into(), port: 18_000, tls },
        admin_socket: "/run/envoy/admin.sock".into(),
        heap_limit: Some(512 * 1024 * 1024),
        connection_limit: 10_000,
    };
    assert_bootstrap("bootstrap/tls", &bootstrap(&options), Secrets::Show);
}

#[test]
fn a_static_configuration_hides_keys_when_asked() {
    let https = cases::all(PEM).into_iter().find(|case| case.name == "listener/https").unwrap();
    let message = static_bootstrap(&https.snapshot).unwrap();
    assert_bootstrap("bootstrap/static", &message, Secrets::Redact);
    let shown = to_json(BOOTSTRAP, &message.encode_to_vec(), Secrets::Show).unwrap();
    assert_ne!(shown, to_json(BOOTSTRAP, &message.encode_to_vec(), Secrets::Redact).unwrap());
}
