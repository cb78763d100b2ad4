//! Envoy accepts everything that is produced.

use portolan_proto::Snapshot;
use portolan_proto::json::{Secrets, to_json};
use portolan_proto::prost::Message;
use portolan_testkit::certs::Authority;
use portolan_testkit::envoy::validate;
use portolan_translate::{
    AUTHORITIES_SECRET, BootstrapOptions, DEFAULT_CONNECTION_LIMIT, IDENTITY_SECRET, SecretFiles, ServerTls, XdsServer,
    bootstrap, static_bootstrap,
};

use crate::cases::{self, Case, Pem};

pub fn json(message: &impl Message) -> String {
    to_json("envoy.config.bootstrap.v3.Bootstrap", &message.encode_to_vec(), Secrets::Show).unwrap().to_string()
}

pub fn configuration(snapshot: &Snapshot) -> String {
    json(&static_bootstrap(snapshot).unwrap())
}

#[test]
fn every_case() {
    let pair = Authority::new("test").unwrap().server(&["shop.example.com"]).unwrap();
    for Case { name, snapshot } in cases::all(Pem { chain: &pair.certificate, key: &pair.key }) {
        validate(&configuration(&snapshot)).unwrap_or_else(|error| panic!("{name}: {error:#}"));
    }
}

#[test]
fn bootstraps() {
    let authority = Authority::new("test").unwrap();
    let pair = authority.server(&["portolan.test"]).unwrap();
    let dir = portolan_testkit::Dir::new().unwrap();
    let file = |name: &str, contents: &str| {
        dir.write(name, contents).unwrap();
        dir.file(name).display().to_string()
    };
    let tls = ServerTls {
        certificate: file("tls.crt", &pair.certificate),
        private_key: file("tls.key", &pair.key),
        authorities: file("ca.crt", &authority.pem()),
        server_name: "portolan.test".into(),
        secrets: None,
    };
    let secret = |name: &str, content: &str| {
        let kind = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret";
        let sds = format!(r#"{{"resources":[{{"@type":"{kind}","name":"{name}",{content}}}]}}"#);
        file(&format!("{}.json", name.replace('/', "-")), &sds)
    };
    let (certificate, key, ca) = (&tls.certificate, &tls.private_key, &tls.authorities);
    let identity = format!(
        r#""tls_certificate":{{"certificate_chain":{{"filename":"{certificate}"}},"private_key":{{"filename":"{key}"}}}}"#
    );
    let trusted = format!(r#""validation_context":{{"trusted_ca":{{"filename":"{ca}"}}}}"#);
    let followed =
        SecretFiles { identity: secret(IDENTITY_SECRET, &identity), authorities: secret(AUTHORITIES_SECRET, &trusted) };
    let followed = ServerTls { secrets: Some(followed), ..tls.clone() };
    for xds in [
        XdsServer::Tcp { host: "portolan.test".into(), port: 18_000, tls: followed },
        XdsServer::Unix { path: dir.file("xds.sock").display().to_string() },
        XdsServer::Tcp { host: "portolan.test".into(), port: 18_000, tls },
    ] {
        let options = BootstrapOptions {
            node_id: "infra/edge/1".into(),
            node_cluster: "infra/edge".into(),
            zone: "a".into(),
            xds,
            admin_socket: dir.file("admin.sock").display().to_string(),
            heap_limit: Some(1 << 30),
            connection_limit: DEFAULT_CONNECTION_LIMIT,
        };
        validate(&json(&bootstrap(&options))).unwrap_or_else(|error| panic!("{options:?}: {error:#}"));
    }
}
