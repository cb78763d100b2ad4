//! Goldens: what plans become, as Envoy's JSON. `INSTA_UPDATE=always` writes them; `testdata/epochs.txt` is appended to by hand.

mod bootstrap;
#[path = "../cases/mod.rs"]
mod cases;
mod epochs;
mod versions;

use std::fmt::Write as _;

use portolan_proto::json::{Secrets, to_json};
use portolan_proto::{Content, Resource, ResourceType};

use cases::{Case, Pem};

const PEM: Pem<'_> = Pem { chain: "CHAIN", key: "KEY" };

/// The resource with what stands beside its content.
fn show(resource: &Resource) -> String {
    let mut text = format!("# {}\n", resource.key);
    for reference in resource.references.iter() {
        _ = writeln!(text, "# refers to {reference}");
    }
    if let Content::Table(table) = resource.body.content() {
        for (cluster, hosts) in &table.clusters {
            _ = writeln!(text, "# {hosts} host(s) with Cluster {cluster}");
        }
        for unit in table.hosts.values().flat_map(|host| host.routes.iter()) {
            let origin = &unit.origin;
            _ = writeln!(text, "# {} {}/{} {}", origin.kind, origin.namespace, origin.name, origin.field);
        }
    }
    for origin in resource.origins.iter() {
        _ = writeln!(text, "# from {} {}/{} {}", origin.kind, origin.namespace, origin.name, origin.field);
    }
    text + &json(resource) + "\n"
}

/// What the case is about: clusters and listeners stand in other cases for Envoy's sake only.
fn shown(case: &Case) -> impl Iterator<Item = &Resource> {
    let name = case.name;
    case.snapshot.iter().map(AsRef::as_ref).filter(move |resource| match resource.key.kind {
        ResourceType::Cluster => name.starts_with("cluster/"),
        ResourceType::Listener => name.starts_with("listener/"),
        _ => true,
    })
}

fn json(resource: &Resource) -> String {
    let Some(message) = resource.body.message() else { return "held".into() };
    let json = to_json(resource.key.kind.type_url(), &message, Secrets::Show).unwrap();
    serde_json::to_string_pretty(&json).unwrap()
}

fn assert_golden(name: &str, text: &str) {
    let (folder, case) = name.split_once('/').unwrap();
    insta::with_settings!({
        snapshot_path => format!("../../testdata/{folder}"),
        prepend_module_to_snapshot => false,
        omit_expression => true,
    }, {
        insta::assert_snapshot!(case, text);
    });
}

#[test]
fn plans_become_resources() {
    for case in cases::all(PEM) {
        let text: String = shown(&case).map(show).collect();
        assert_golden(case.name, &text);
    }
}

#[test]
fn equal_plans_have_equal_versions_and_bytes() {
    for (one, other) in cases::all(PEM).iter().zip(&cases::all(PEM)) {
        for (one, other) in one.snapshot.iter().zip(other.snapshot.iter()) {
            assert_eq!((&one.key, one.version), (&other.key, other.version));
            assert_eq!(one.body.message(), other.body.message(), "{}", one.key);
        }
    }
}
