//! The charts, rendered by the real helm (`hack/helm.sh`): goldens in `testdata/charts`, and what the values' schema refuses.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn helm(arguments: &[&str]) -> Output {
    static HELM: OnceLock<String> = OnceLock::new();
    let helm = HELM.get_or_init(|| {
        let output = Command::new(root().join("hack/helm.sh")).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    });
    Command::new(helm).args(arguments).current_dir(root()).output().unwrap()
}

fn rendered(arguments: &[&str]) -> String {
    let all = [&["template", "portolan", "charts/portolan", "--namespace", "portolan-system"], arguments].concat();
    let output = helm(&all);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// `PORTOLAN_UPDATE=1` writes what is expected.
fn golden(name: &str, text: &str) {
    let path = root().join(format!("testdata/charts/{name}.yaml"));
    if std::env::var_os("PORTOLAN_UPDATE").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(text == expected, "{} is not what helm renders; PORTOLAN_UPDATE=1 writes it anew:\n{text}", path.display());
}

#[test]
fn by_default() {
    golden("default", &rendered(&[]));
}

#[test]
fn with_every_value() {
    golden("everything", &rendered(&["--values", "testdata/charts/everything.values.yaml"]));
}

/// Every value is in the schema, in the page about values, and used by a template.
#[test]
fn values_are_known_everywhere() {
    let read = |name: &str| std::fs::read_to_string(root().join("charts/portolan").join(name)).unwrap();
    let schema: serde_json::Value = serde_json::from_str(&read("values.schema.json")).unwrap();
    let page = read("README.md");
    let mut templates = String::new();
    for entry in std::fs::read_dir(root().join("charts/portolan/templates")).unwrap() {
        templates += &std::fs::read_to_string(entry.unwrap().path()).unwrap();
    }
    let mut names = Vec::new();
    for (name, value) in schema["properties"].as_object().unwrap().iter().filter(|(name, _)| *name != "global") {
        match value.get("properties").and_then(|all| all.as_object()) {
            Some(fields) => names.extend(fields.keys().map(|field| (name.clone(), Some(field.clone())))),
            None => names.push((name.clone(), None)),
        }
    }
    assert!(names.len() > 20);
    for (name, field) in names {
        let path = field.as_ref().map_or_else(|| name.clone(), |field| format!("{name}.{field}"));
        assert!(templates.contains(&format!(".Values.{path}")), "no template uses {path}");
        let told =
            page.contains(&format!("`{path}`")) || field.is_some_and(|field| page.contains(&format!("`.{field}`")));
        assert!(told, "README.md does not say what {path} is");
    }
}

#[test]
fn values_that_mean_nothing_are_refused() {
    for (value, words) in [
        ("replica=3", "replica"),
        ("replicas=many", "/replicas"),
        ("xdsPort=80", "/xdsPort"),
        ("imagePullPolicy=Sometimes", "/imagePullPolicy"),
        ("gatewayClass.nam=x", "nam"),
        ("watchNamespaces={A_B}", "/watchNamespaces/0"),
        ("certificates.lifetime=1d", "/certificates/lifetime"),
        ("certificates.authorityLifetime=8760", "/certificates/authorityLifetime"),
    ] {
        let output = helm(&["template", "portolan", "charts/portolan", "--set", value]);
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && told.contains(words), "{value}: {told}");
    }
}

#[test]
fn uninstalling_the_definitions_keeps_them() {
    let output = helm(&["template", "portolan-crds", "charts/portolan-crds"]);
    let text = String::from_utf8(output.stdout).unwrap();
    let count = |words: &str| text.matches(words).count();
    assert_eq!((count("kind: CustomResourceDefinition"), count("helm.sh/resource-policy: keep")), (2, 2));
}
