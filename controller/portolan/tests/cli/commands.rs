//! The commands that read manifests once.

use portolan_testkit::{Dir, envoy};
use serde_json::Value;

use crate::fixture::{err, gateway, out, portolan, route};

fn manifests() -> Dir {
    let dir = Dir::new().unwrap();
    dir.write("gateway.yaml", gateway(8080)).unwrap();
    dir.write("route.yaml", route("shop", "shop.example", "127.0.0.1:9000".parse().unwrap())).unwrap();
    dir
}

#[test]
fn help_and_version() {
    let dir = Dir::new().unwrap();
    insta::assert_snapshot!("help", out(&portolan(&dir.path(), &["--help"])));
    let version = out(&portolan(&dir.path(), &["version"]));
    assert!(version.starts_with("portolan ") && version.contains("Envoy 1.37 to 1.40"), "{version}");
    let version: Value = serde_json::from_str(&out(&portolan(&dir.path(), &["version", "-o", "json"]))).unwrap();
    assert_eq!(version["gatewayApi"], "1.5 to 1.7");
    let output = portolan(&dir.path(), &["chekc"]);
    assert_eq!(output.status.code(), Some(2));
}

/// Before anything is asked of an API server.
#[test]
fn lifetimes_that_cannot_work_are_refused() {
    let dir = Dir::new().unwrap();
    for (arguments, words) in [
        (["--certificate-lifetime", "1d"], "a duration such as"),
        (["--certificate-lifetime", "9m59s"], "must be 10m at least"),
        (["--certificate-lifetime", "2191h"], "must be 8 times --certificate-lifetime at least, here 1051680m"),
        (["--authority-lifetime", "191h"], "here 11520m"),
    ] {
        let output = portolan(&dir.path(), &[&["controller", "--pod", "here"], &arguments[..]].concat());
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(err(&output).contains(words), "{arguments:?}: {}", err(&output));
    }
}

#[test]
fn check_is_a_linter() {
    let dir = manifests();
    let output = portolan(&dir.path(), &["check", "."]);
    assert_eq!((output.status.code(), out(&output).as_str()), (Some(0), ""), "{}", err(&output));
    assert_eq!(err(&output), "4 objects, 0 errors, 0 warnings\n");

    let misspelt = route("cart", "cart.example", "127.0.0.1:9000".parse().unwrap()).replace("hostnames:", "hostname:");
    dir.write("cart.yaml", misspelt.replace("name: web", "name: wbe")).unwrap();
    dir.write("half.yaml", "kind: [\n").unwrap();
    dir.write("twice.yaml", gateway(8080)).unwrap();
    let output = portolan(&dir.path(), &["check", "."]);
    assert_eq!(output.status.code(), Some(1));
    let text = out(&output);
    let line = |start: &str, words: &[&str]| {
        let found = text.lines().any(|line| line.starts_with(start) && words.iter().all(|word| line.contains(word)));
        assert!(found, "no line {start:?} with {words:?} in\n{text}");
    };
    line("./cart.yaml:8:3: ", &["HTTPRoute default/cart", "hostname"]);
    line("./half.yaml:", &["error", "nothing of it is in force"]);
    line("./twice.yaml:", &["GatewayClass portolan", "./gateway.yaml:1"]);

    let report: Value = serde_json::from_str(&out(&portolan(&dir.path(), &["check", ".", "-o", "json"]))).unwrap();
    let findings = report["findings"].as_array().unwrap();
    assert_eq!(findings.len(), text.lines().count());
    assert!(
        findings
            .iter()
            .any(|finding| finding["file"] == "./cart.yaml" && finding["line"] == 8 && finding["column"] == 3)
    );
    let objects = report["objects"].as_array().unwrap();
    let object = |kind: &str, name: &str| {
        objects
            .iter()
            .find(|object| object["kind"] == kind && object["metadata"]["name"] == name)
            .unwrap_or_else(|| panic!("{kind} {name}"))
    };
    let route = object("HTTPRoute", "shop");
    assert_eq!(route["apiVersion"], "gateway.networking.k8s.io/v1");
    assert_eq!(route["metadata"]["namespace"], "default");
    let parent = &route["status"]["parents"][0];
    assert_eq!(parent["controllerName"], "portolan.dev/gateway-controller");
    assert_eq!(parent["parentRef"]["name"], "web");
    let accepted = parent["conditions"].as_array().unwrap().iter().find(|one| one["type"] == "Accepted").unwrap();
    assert_eq!((&accepted["status"], &accepted["observedGeneration"]), (&"True".into(), &1.into()));
    assert!(accepted["lastTransitionTime"].as_str().unwrap().ends_with('Z'));
    assert_eq!(object("Gateway", "web")["status"]["listeners"][0]["attachedRoutes"], 1);

    let yaml = out(&portolan(&dir.path(), &["check", ".", "-o", "yaml"]));
    assert_eq!(yaml.matches("\n---\n").count() + 1, objects.len());
    assert!(yaml.contains("kind: Gateway\nmetadata:\n  namespace: default\n  name: web\n"), "{yaml}");
}

/// As `kubectl get -o yaml` would show it.
#[test]
fn check_prints_whole_objects_with_defaults_and_without_secrets() {
    let dir = manifests();
    let last_applied = "kubectl.kubernetes.io/last-applied-configuration: '{\"data\":{\"tls.key\":\"aHVzaA==\"}}'";
    dir.write(
        "secret.yaml",
        format!(
            "apiVersion: v1\nkind: Secret\nmetadata:\n  name: hush\n  annotations:\n    note: kept\n    {last_applied}\n\
             data:\n  tls.key: aHVzaA==\nstringData:\n  token: hush-hush\n"
        ),
    )
    .unwrap();
    let json = out(&portolan(&dir.path(), &["check", ".", "-o", "json"]));
    let yaml = out(&portolan(&dir.path(), &["check", ".", "-o", "yaml"]));
    for output in [&json, &yaml] {
        assert!(!output.contains("aHVzaA==") && !output.contains("hush-hush"), "{output}");
        assert_eq!(output.matches("[redacted]").count(), 2);
    }
    let objects: Value = serde_json::from_str(&json).unwrap();
    let object = |kind: &str| {
        objects["objects"].as_array().unwrap().iter().find(|object| object["kind"] == kind).unwrap().clone()
    };
    assert_eq!(object("Secret")["type"], "Opaque");
    assert_eq!(object("Secret")["metadata"]["annotations"], serde_json::json!({"note": "kept"}));
    assert_eq!(object("GatewayClass")["spec"]["controllerName"], "portolan.dev/gateway-controller");
    let route = object("HTTPRoute");
    assert_eq!(
        route.as_object().unwrap().keys().collect::<Vec<_>>(),
        ["apiVersion", "kind", "metadata", "spec", "status"]
    );
    let rule = &route["spec"]["rules"][0];
    assert_eq!(rule["matches"][0]["path"], serde_json::json!({"type": "PathPrefix", "value": "/"}));
    assert_eq!(rule["backendRefs"][0]["weight"], 1);
    assert_eq!(route["spec"]["parentRefs"][0]["kind"], "Gateway");
    assert_eq!(object("Gateway")["spec"]["listeners"][0]["allowedRoutes"]["namespaces"]["from"], "Same");
    // It is a manifest again, and one that says the same.
    let again = Dir::new().unwrap();
    again.write("all.yaml", yaml.replace("[redacted]", "aHVzaA==")).unwrap();
    assert_eq!(out(&portolan(&again.path(), &["check", ".", "-o", "yaml"])), yaml);
}

#[test]
fn what_is_not_there_is_a_matter_of_the_machine() {
    let dir = Dir::new().unwrap();
    for command in ["check", "translate", "run"] {
        let output = portolan(&dir.path(), &[command, "none", "--color", "never"]);
        let envoy_comes_first = command == "run";
        assert_eq!(output.status.code(), Some(3), "{command}");
        assert!(envoy_comes_first || err(&output).contains("none: No such file or directory"), "{}", err(&output));
    }
}

#[test]
fn translate_prints_what_envoy_takes() {
    let dir = manifests();
    let text = out(&portolan(&dir.path(), &["translate", ".", "-o", "json"]));
    let all: Value = serde_json::from_str(&text).unwrap();
    let of_gateway = &all["default/web"];
    for kind in ["clusters", "endpoints", "routes", "listeners"] {
        assert!(of_gateway[kind].as_array().is_some_and(|list| !list.is_empty()), "{kind}: {text}");
    }
    assert_eq!(of_gateway["clusters"][0]["origins"][0], "Backend default/shop");

    let complete = out(&portolan(&dir.path(), &["translate", ".", "-o", "envoy"]));
    envoy::validate(&complete).unwrap();

    // Of several Gateways one must be chosen, or all written.
    dir.write("second.yaml", gateway(8081).split_once("---\n").unwrap().1.replace("name: web", "name: other")).unwrap();
    let output = portolan(&dir.path(), &["translate", ".", "-o", "envoy"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        err(&output).contains("default/other, default/web") && err(&output).contains("--gateway"),
        "{}",
        err(&output)
    );
    let one = out(&portolan(&dir.path(), &["translate", ".", "-o", "envoy", "--gateway", "default/web"]));
    assert_eq!(one, complete);
    assert!(portolan(&dir.path(), &["translate", ".", "-o", "envoy", "-d", "../out"]).status.success());
    for name in ["web", "other"] {
        let written = std::fs::read_to_string(dir.path().join(format!("../out/default.{name}.json"))).unwrap();
        envoy::validate(&written).unwrap();
    }
    let output = portolan(&dir.path(), &["translate", ".", "--gateway", "default/none"]);
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn private_keys_are_redacted_unless_asked_for() {
    let dir = manifests();
    let pair = portolan_testkit::certs::Authority::new("test").unwrap().server(&["shop.example"]).unwrap();
    let secret = pair.secret("default", "cert");
    dir.write("secret.yaml", &secret).unwrap();
    let tls =
        "  - name: https\n    port: 8443\n    protocol: HTTPS\n    tls:\n      certificateRefs:\n      - name: cert\n";
    dir.write("gateway.yaml", gateway(8080) + tls).unwrap();
    // In JSON, bytes are base64, as in the manifest.
    let key = secret.lines().find_map(|line| line.trim().strip_prefix("tls.key: ")).unwrap().to_owned();
    let mark = "W3JlZGFjdGVkXQ==";
    for format in ["json", "yaml", "envoy"] {
        let hidden = out(&portolan(&dir.path(), &["translate", ".", "-o", format]));
        assert!(!hidden.contains(&key) && hidden.contains(mark), "{format}: {hidden}");
        let shown = out(&portolan(&dir.path(), &["translate", ".", "-o", format, "--show-secrets"]));
        assert!(shown.contains(&key) && !shown.contains(mark), "{format}");
    }
}

#[test]
fn explain_names_what_decided() {
    let dir = manifests();
    let output = portolan(&dir.path(), &["explain", "GET", "http://shop.example:8080/cart", "-d", "."]);
    let text = out(&output);
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    for words in ["Gateway default/web", "HTTPRoute default/shop", "spec.rules[0]", "127.0.0.1:9000"] {
        assert!(text.contains(words), "{words} in {text}");
    }
    let output = portolan(&dir.path(), &["explain", "GET", "http://other.example:8080/", "-d", ".", "-o", "json"]);
    assert_eq!(output.status.code(), Some(1));
    let value: Value = serde_json::from_str(&out(&output)).unwrap();
    assert_eq!((&value["route"], &value["outcome"]["status"]), (&Value::Null, &404.into()));
    let output = portolan(&dir.path(), &["explain", "GET", "http://shop.example:81/", "-d", "."]);
    assert!(out(&output).contains("connection refused"), "{}", out(&output));
    for bad in ["shop.example", "/cart", "ftp://shop.example/"] {
        let output = portolan(&dir.path(), &["explain", "GET", bad, "-d", "."]);
        assert_eq!(output.status.code(), Some(2), "{bad}");
    }
}

#[test]
fn bootstrap_is_one_that_envoy_takes() {
    let dir = Dir::new().unwrap();
    let admin = dir.file("admin.sock").display().to_string();
    let text = out(&portolan(
        &dir.path(),
        &["bootstrap", "shop/web", "--xds-socket", "/run/xds.sock", "--admin-socket", &admin],
    ));
    envoy::validate(&text).unwrap();
    let value: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(value["node"]["cluster"], "shop/web");
    let output = portolan(&dir.path(), &["bootstrap", "shop/web"]);
    assert_eq!(output.status.code(), Some(2), "where to find Portolan is needed");
}

#[test]
fn an_offset_beyond_the_last_port_closes_that_listener_alone() {
    let dir = manifests();
    let second = gateway(8080) + "  - name: high\n    port: 60000\n    protocol: HTTP\n";
    dir.write("gateway.yaml", second).unwrap();
    let output = portolan(&dir.path(), &["translate", ".", "-o", "json", "--port-offset", "8000"]);
    assert!(output.status.success());
    let text = err(&output);
    let says = |line: &str| {
        ["gateway.yaml:", "listener high: Programmed=False (Invalid)", "60000", "8000", "at most 5535"]
            .iter()
            .all(|word| line.contains(word))
    };
    assert!(text.lines().any(says), "{text}");
    let all: Value = serde_json::from_str(&out(&output)).unwrap();
    let names = |kind: &str| -> Vec<String> {
        let resources = all["default/web"][kind].as_array().unwrap().iter();
        resources.map(|resource| resource["name"].as_str().unwrap().to_owned()).collect()
    };
    for kind in ["listeners", "routes"] {
        let names = names(kind);
        assert!(names.contains(&"http/8080".into()) && !names.contains(&"http/60000".into()), "{kind}: {names:?}");
    }
}
