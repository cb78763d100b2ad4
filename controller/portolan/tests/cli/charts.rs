//! The charts' parts that are made from the source.

use std::path::{Path, PathBuf};

use serde_json::Value;

fn charts() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../charts")
}

/// A list of rules, each on a line of JSON, which is YAML.
fn written(rules: &[Value]) -> String {
    rules.iter().fold(String::new(), |text, rule| text + "- " + &rule.to_string() + "\n")
}

/// `PORTOLAN_UPDATE=1 cargo test -p portolan --test cli charts` writes what is expected.
fn same(path: &Path, expected: &str) {
    if std::env::var_os("PORTOLAN_UPDATE").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, expected).unwrap();
    }
    let there = std::fs::read_to_string(path).unwrap_or_default();
    assert!(there == expected, "{} is not what the source says; PORTOLAN_UPDATE=1 writes it anew", path.display());
}

#[test]
fn roles_are_those_of_the_source() {
    let rules = portolan_fleet::rules();
    for (name, rules) in [("cluster", rules.cluster), ("watched", rules.watched), ("own", rules.own)] {
        same(&charts().join(format!("portolan/rules/{name}.yaml")), &written(&rules));
    }
}

#[test]
fn definitions_are_what_portolan_prints() {
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_portolan")).arg("crds").output().unwrap();
    assert!(output.status.success());
    same(&charts().join("portolan-crds/templates/crds.yaml"), &String::from_utf8(output.stdout).unwrap());
}
