//! The shape of the workspace, as ARCHITECTURE.md describes it: which crate may depend on which, and what the pure crates may use.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// For each crate, the crates of this workspace that it may depend on. Nothing points upwards:
/// `portolan -> {kubernetes, standalone} -> fleet -> {engine, xds}; engine -> {resolve, translate} -> {model, proto}; xds -> proto`.
const MAY_DEPEND_ON: [(&str, &[&str]); 12] = [
    ("portolan-proto", &[]),
    ("portolan-model", &[]),
    ("portolan-xds", &["proto"]),
    // They meet only in the intermediate representation's types, which belong to model.
    ("portolan-resolve", &["model"]),
    ("portolan-translate", &["model", "proto"]),
    ("portolan-engine", &["model", "proto", "resolve", "translate"]),
    // Between engine and the surfaces: run and controller both use it, also to hear what proxies say.
    ("portolan-fleet", &["model", "proto", "resolve", "translate", "engine", "xds"]),
    ("portolan-kubernetes", &["model", "proto", "engine", "fleet", "xds"]),
    ("portolan-standalone", &["model", "proto", "resolve", "translate", "engine", "fleet", "xds"]),
    ("portolan", &["model", "proto", "resolve", "translate", "engine", "fleet", "xds", "kubernetes", "standalone"]),
    // For development: nothing that ships depends on these two.
    ("portolan-testkit", &[]),
    ("portolan-bench", &["model", "proto", "resolve", "translate", "engine", "xds", "testkit"]),
];

/// The crates whose results depend on their arguments alone.
const PURE: [&str; 4] = ["portolan-model", "portolan-resolve", "portolan-translate", "portolan-engine"];

/// What pure crates may use beside each other: no runtime, client, clock or source of randomness. What these bring along is not judged.
const PURE_MAY_USE: [(&str, &str); 20] = [
    ("base64", "Secrets hold base64"),
    ("bytes", "encoded messages are shared"),
    ("envoy-types", "Envoy's messages"),
    ("gateway-api", "statuses and constants of the API, and the oracle for our own reading"),
    ("indexmap", "maps that keep the order of a manifest"),
    ("k8s-openapi", "types of Kubernetes objects"),
    ("prost", "encoding"),
    ("regex", "patterns of the API's schemas"),
    ("regex-syntax", "the parts of RE2's syntax that both share"),
    ("rpds", "maps that share structure between snapshots"),
    ("rustls-pki-types", "PEM and DER"),
    ("saphyr-parser", "YAML with positions"),
    ("serde", "reading and writing values"),
    ("serde_json", "JSON values"),
    ("ring", "whether a key matches its certificate: verification alone, nothing is generated"),
    ("rustls", "whether a key matches its certificate"),
    ("thiserror", "error values"),
    ("x509-parser", "certificates"),
    ("xxhash-rust", "versions"),
    ("smallvec", "short lists without an allocation"),
];

/// What a source of a pure crate must not say; clippy bans the rest by name (`hack/clippy-pure.toml`).
const PURE_MUST_NOT_SAY: [&str; 8] = [
    "async fn",
    "async move",
    ".await",
    "std::thread",
    "std::env",
    "std::fs",
    "std::process",
    "allow(clippy::disallowed",
];

struct Package {
    directory: PathBuf,
    /// What is compiled into the crate itself; dependencies of tests are free.
    dependencies: BTreeSet<String>,
}

fn packages() -> BTreeMap<String, Package> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--offline", "--format-version", "1"])
        .current_dir(root)
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let package = |package: &Value| {
        let dependencies = package["dependencies"].as_array().unwrap().iter();
        (
            text(&package["name"]),
            Package {
                directory: Path::new(&text(&package["manifest_path"])).parent().unwrap().to_owned(),
                dependencies: dependencies.filter(|one| one["kind"] != "dev").map(|one| text(&one["name"])).collect(),
            },
        )
    };
    metadata["packages"].as_array().unwrap().iter().map(package).collect()
}

fn sources(directory: &Path) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(sources(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path).unwrap();
            found.push((path, text));
        }
    }
    found.sort();
    found
}

/// The text without comments, and without what only tests compile: in this code base that stands at the end of a file, or in a file named `tests.rs`.
fn product_code(text: &str) -> String {
    let end = text.find("#[cfg(test)]\nmod ").unwrap_or(text.len());
    text[..end].lines().map(|line| line.split("//").next().unwrap_or_default()).collect::<Vec<_>>().join("\n")
}

#[test]
fn crates_depend_in_one_direction() {
    let packages = packages();
    let known: BTreeMap<_, _> = MAY_DEPEND_ON.into_iter().collect();
    for (name, package) in &packages {
        let allowed = known.get(name.as_str()).unwrap_or_else(|| panic!("crate {name} has no line in MAY_DEPEND_ON"));
        for dependency in package.dependencies.iter().filter(|dependency| packages.contains_key(*dependency)) {
            let short = dependency.trim_start_matches("portolan-");
            assert!(allowed.contains(&short), "{name} must not depend on {dependency} (ARCHITECTURE.md, crates)");
        }
    }
}

#[test]
fn pure_crates_use_pure_crates() {
    let packages = packages();
    for name in PURE {
        for dependency in &packages[name].dependencies {
            assert!(
                packages.contains_key(dependency) || PURE_MAY_USE.iter().any(|(allowed, _)| allowed == dependency),
                "{name} is pure: {dependency} is not on the list PURE_MAY_USE. If it has no runtime, client, clock or randomness, add it with its reason"
            );
        }
    }
}

#[test]
fn pure_crates_do_no_input_or_output() {
    let packages = packages();
    let mut lines = 0;
    for name in PURE {
        let directory = &packages[name].directory;
        assert!(
            fs::read_to_string(directory.join("clippy.toml")).is_ok_and(|text| text.contains("SystemTime::now")),
            "{name}: clippy.toml is no longer a link to hack/clippy-pure.toml"
        );
        for (path, text) in sources(&directory.join("src")).iter().filter(|(path, _)| !path.ends_with("tests.rs")) {
            let code = product_code(text);
            lines += code.lines().count();
            for banned in PURE_MUST_NOT_SAY {
                assert!(
                    !code.contains(banned),
                    "{} says `{banned}`: {name} is pure, this comes in as an argument",
                    path.display()
                );
            }
        }
    }
    assert!(lines > 100, "only {lines} lines were looked at");
}

#[test]
fn every_crate_takes_the_lints_of_the_workspace() {
    for (name, package) in packages() {
        let manifest = fs::read_to_string(package.directory.join("Cargo.toml")).unwrap();
        assert!(manifest.contains("[lints]\nworkspace = true"), "{name}: add `[lints] workspace = true`");
    }
}

/// The scan itself, so that it cannot pass by seeing nothing.
#[test]
fn the_scan_sees_what_it_should() {
    let code = product_code("fn a() {} // std::fs\nasync fn b() {}\n#[cfg(test)]\nmod tests { use std::env; }\n");
    assert!(code.contains("async fn") && !code.contains("std::fs") && !code.contains("std::env"));
}
