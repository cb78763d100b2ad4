//! Each example does what its README promises, and `explain` agrees.

use std::net::{IpAddr, Ipv4Addr};

use portolan_testkit::examples::{Example, names};
use serde_json::Value;

use crate::fixture::{Portolan, err, out, portolan};

async fn keeps_its_promises(name: &str) {
    let example = Example::copy(name).unwrap();
    let _backends = example.backends().await.unwrap();
    let mut running = Portolan::start(&example.dir, &["--port-offset", &example.port_offset.to_string()]);
    running.ready().await;
    for promise in &example.requests {
        let answer = promise.send(IpAddr::V4(Ipv4Addr::LOCALHOST), example.port_offset).await.unwrap();
        assert_eq!(promise.judge(&answer, example.port_offset), None, "{}", promise.line);

        let mut arguments = vec![
            "explain",
            if promise.method == "GRPC" { "POST" } else { &promise.method },
            &promise.url,
            "-o",
            "json",
        ];
        let headers: Vec<String> = promise.headers.iter().map(|(name, value)| format!("{name}: {value}")).collect();
        arguments.extend(headers.iter().flat_map(|header| ["-H", header]));
        if promise.method == "GRPC" {
            arguments.extend(["-H", "content-type: application/grpc"]);
        }
        let output = portolan(&example.dir.path(), &arguments);
        let explanation: Value = serde_json::from_str(&out(&output)).unwrap_or_else(|_| panic!("{}", err(&output)));
        assert_eq!(explanation["route"].as_str(), promise.route.as_deref(), "{}: {explanation:#}", promise.line);
        agrees(&explanation["outcome"], promise, &promise.line);
    }
    running.stop().await;
}

fn agrees(outcome: &Value, promise: &portolan_testkit::examples::Promise, line: &str) {
    if promise.backends.is_empty() {
        assert_eq!(outcome["status"], promise.status, "{line}: {outcome:#}");
        assert_eq!(outcome["location"].as_str(), promise.location.as_deref(), "{line}");
    } else {
        let choices = outcome["choices"].as_array().unwrap_or_else(|| panic!("{line}: {outcome:#}"));
        let mut chosen: Vec<&str> =
            choices.iter().map(|one| one["backend"].as_str().unwrap().rsplit('/').next().unwrap()).collect();
        chosen.sort_unstable();
        assert_eq!(chosen, promise.backends, "{line}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn quickstart() {
    keeps_its_promises("quickstart").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn routing() {
    keeps_its_promises("routing").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn https_grpc() {
    keeps_its_promises("https-grpc").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn shop() {
    keeps_its_promises("shop").await;
}

#[test]
fn every_example_is_tested_and_has_only_the_findings_it_is_about() {
    assert_eq!(names().unwrap(), ["https-grpc", "quickstart", "routing", "shop"]);
    for name in names().unwrap() {
        let directory = portolan_testkit::examples::directory().join(&name);
        let output = portolan(&directory, &["check", "."]);
        if name == "shop" {
            let text = out(&output);
            assert!(text.contains("HTTPRoute cart/steal") && text.contains("ListenerSet intruder/intruder"), "{text}");
            assert!(text.lines().all(|line| line.contains("steal") || line.contains("intruder")), "{text}");
        } else {
            assert_eq!(output.status.code(), Some(0), "{name}: {}", out(&output));
        }
    }
}
