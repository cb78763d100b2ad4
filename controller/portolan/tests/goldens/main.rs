//! What users see of a set of manifests: statuses and Envoy configuration, against files; and the real Envoy loads each.
//!
//! A case is a directory `testdata/<feature>/<case>/` with `in.yaml`; beside it stand `status.yaml` (as `portolan check -o yaml` prints
//! it, without times) and `xds.yaml` (as `portolan translate -o yaml`). `UPDATE_GOLDENS=1 cargo test -p portolan --test goldens` writes
//! them anew.

use std::path::{Path, PathBuf};
use std::process::Command;

use portolan_testkit::envoy;

fn testdata() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata")
}

fn cases() -> Vec<PathBuf> {
    let mut cases: Vec<PathBuf> = directories(&testdata()).iter().flat_map(|feature| directories(feature)).collect();
    cases.sort();
    assert!(cases.len() >= 12, "found only {cases:?}");
    cases
}

fn directories(of: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(of).unwrap().map(|entry| entry.unwrap().path());
    entries.filter(|path| path.is_dir()).collect()
}

/// Output of the program; `check` ends with 1 where conditions are bad, which is what some cases are about.
fn portolan(arguments: &[&str], case: &Path) -> String {
    let output =
        Command::new(env!("CARGO_BIN_EXE_portolan")).args(arguments).arg(case.join("in.yaml")).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(matches!(output.status.code(), Some(0 | 1)), "portolan {arguments:?} {}: {errors}", case.display());
    String::from_utf8(output.stdout).unwrap()
}

/// Compares with the file, or writes it. `None`: as it should be.
fn compare(case: &Path, name: &str, actual: &str) -> Option<String> {
    let file = case.join(name);
    if std::env::var_os("UPDATE_GOLDENS").is_some() {
        std::fs::write(&file, actual).unwrap();
        return None;
    }
    let expected = std::fs::read_to_string(&file).unwrap_or_default();
    if expected == actual {
        return None;
    }
    let line = expected.lines().zip(actual.lines()).position(|(one, other)| one != other);
    let line = line.unwrap_or_else(|| expected.lines().count().min(actual.lines().count()));
    let at = |text: &str| text.lines().nth(line).unwrap_or("(end)").to_owned();
    Some(format!("{}:{}: expected `{}`, is `{}`", file.display(), line + 1, at(&expected), at(actual)))
}

#[test]
fn statuses_are_as_written_down() {
    let wrong: Vec<String> = cases()
        .iter()
        .filter_map(|case| {
            let status = portolan(&["check", "-o", "yaml"], case);
            // The class is the same in all cases, and its features grow.
            let objects: Vec<&str> =
                status.split("---\n").filter(|text| !text.contains("kind: GatewayClass\n")).collect();
            let objects = objects.join("---\n");
            let timeless: Vec<&str> = objects.lines().filter(|line| !line.contains("lastTransitionTime:")).collect();
            compare(case, "status.yaml", &(timeless.join("\n") + "\n"))
        })
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn configuration_is_as_written_down() {
    let wrong: Vec<String> = cases()
        .iter()
        .filter_map(|case| compare(case, "xds.yaml", &portolan(&["translate", "-o", "yaml"], case)))
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_real_envoy_loads_every_configuration() {
    for case in cases() {
        let config = portolan(&["translate", "-o", "envoy", "--show-secrets"], &case);
        envoy::validate(&config).unwrap_or_else(|error| panic!("{}: {error:#}", case.display()));
    }
}
