//! What people read when something is wrong: `kubectl get` and `kubectl describe` of broken objects, against files beside this one.
//!
//! `UPDATE_GOLDENS=1 cargo test -p portolan --test apiserver words` writes them anew.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use portolan_testkit::kube::{Kube, KubeOptions};

use crate::{PATIENCE, controller, until};

/// What there is before anything is wrong.
const WORLD: &str = "
apiVersion: v1
kind: Namespace
metadata: {name: portolan-system}
---
apiVersion: v1
kind: Namespace
metadata: {name: infra}
---
apiVersion: v1
kind: Namespace
metadata: {name: shop}
---
apiVersion: gateway.networking.k8s.io/v1
kind: GatewayClass
metadata: {name: portolan}
spec: {controllerName: portolan.dev/gateway-controller}
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: web, namespace: infra}
spec:
  gatewayClassName: portolan
  listeners:
  - {name: http, port: 80, protocol: HTTP, hostname: '*.example.com', allowedRoutes: {namespaces: {from: All}}}
  - {name: internal, port: 8080, protocol: HTTP}
---
apiVersion: v1
kind: Service
metadata: {name: catalog, namespace: shop}
spec: {ports: [{name: http, port: 80}, {name: grpc, port: 9000}]}
---
apiVersion: v1
kind: Service
metadata: {name: chat, namespace: shop}
spec: {ports: [{name: ws, port: 80, appProtocol: kubernetes.io/ws}]}
---
apiVersion: v1
kind: Service
metadata: {name: vault, namespace: infra}
spec: {ports: [{port: 80}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: portolan-taken, namespace: infra}
spec:
  selector: {matchLabels: {app: theirs}}
  template: {metadata: {labels: {app: theirs}}, spec: {containers: [{name: a, image: theirs}]}}
";

/// A mistake: its object, and what is wrong there.
struct Mistake {
    kind: &'static str,
    namespace: &'static str,
    name: &'static str,
    spec: &'static str,
}

const fn of(kind: &'static str, namespace: &'static str, name: &'static str, spec: &'static str) -> Mistake {
    Mistake { kind, namespace, name, spec }
}

const fn route(name: &'static str, spec: &'static str) -> Mistake {
    of("HTTPRoute", "shop", name, spec)
}

const MISTAKES: [Mistake; 18] = [
    route(
        "no-service",
        "parentRefs: [{name: web, namespace: infra}], rules: [{backendRefs: [{name: cart, port: 80}]}]",
    ),
    route(
        "no-port",
        "parentRefs: [{name: web, namespace: infra}], rules: [{backendRefs: [{name: catalog, port: 8080}]}]",
    ),
    route(
        "no-grant",
        "parentRefs: [{name: web, namespace: infra}], rules: [{backendRefs: [{name: vault, namespace: infra, port: 80}]}]",
    ),
    route(
        "no-listener",
        "parentRefs: [{name: web, namespace: infra, sectionName: htpp}], rules: [{backendRefs: [{name: catalog, port: 80}]}]",
    ),
    route(
        "not-allowed",
        "parentRefs: [{name: web, namespace: infra, sectionName: internal}], rules: [{backendRefs: [{name: catalog, port: 80}]}]",
    ),
    route(
        "other-hostname",
        "parentRefs: [{name: web, namespace: infra, sectionName: http}], hostnames: [shop.example.org], rules: [{backendRefs: [{name: catalog, port: 80}]}]",
    ),
    route(
        "bad-expression",
        "parentRefs: [{name: web, namespace: infra}], rules: [{backendRefs: [{name: catalog, port: 80}]}, {matches: [{path: {type: RegularExpression, value: '/items/(\\d+'}}], backendRefs: [{name: catalog, port: 80}]}]",
    ),
    route(
        "unknown-filter",
        "parentRefs: [{name: web, namespace: infra}], rules: [{filters: [{type: ExtensionRef, extensionRef: {group: example.com, kind: RateLimit, name: slow}}], backendRefs: [{name: catalog, port: 80}]}]",
    ),
    route(
        "no-effect",
        "parentRefs: [{name: web, namespace: infra}], rules: [{retry: {attempts: 3}, backendRefs: [{name: catalog, port: 80}]}]",
    ),
    of(
        "GRPCRoute",
        "shop",
        "no-backend-kind",
        "parentRefs: [{name: web, namespace: infra}], rules: [{backendRefs: [{kind: Pod, name: catalog, port: 9000}]}]",
    ),
    of(
        "GRPCRoute",
        "shop",
        "speaks-websocket",
        "parentRefs: [{name: web, namespace: infra}], rules: [{backendRefs: [{name: chat, port: 80}]}]",
    ),
    of(
        "TCPRoute",
        "shop",
        "not-yet",
        "parentRefs: [{name: web, namespace: infra}], rules: [{backendRefs: [{name: catalog, port: 9000}]}]",
    ),
    of(
        "Gateway",
        "infra",
        "no-certificate",
        "gatewayClassName: portolan, listeners: [{name: https, port: 443, protocol: HTTPS, tls: {certificateRefs: [{name: shop-tls}]}}]",
    ),
    of(
        "Gateway",
        "infra",
        "clash",
        "gatewayClassName: portolan, listeners: [{name: one, port: 80, protocol: HTTP}, {name: other, port: 80, protocol: HTTPS, tls: {certificateRefs: [{name: shop-tls}]}}, {name: fine, port: 81, protocol: HTTP}]",
    ),
    of("Gateway", "infra", "taken", "gatewayClassName: portolan, listeners: [{name: http, port: 80, protocol: HTTP}]"),
    of(
        "ListenerSet",
        "shop",
        "uninvited",
        "parentRef: {name: web, namespace: infra}, listeners: [{name: own, port: 80, protocol: HTTP, hostname: shop.example.com}]",
    ),
    of(
        "BackendTLSPolicy",
        "shop",
        "not-yet",
        "targetRefs: [{group: '', kind: Service, name: secure}], validation: {hostname: secure.shop, wellKnownCACertificates: System}",
    ),
    of(
        "GatewayClass",
        "",
        "strange",
        "controllerName: portolan.dev/gateway-controller, parametersRef: {group: '', kind: ConfigMap, name: portolan, namespace: infra}",
    ),
];

/// So that the policy has an ancestor.
const USES_POLICY: &str = "
apiVersion: v1
kind: Service
metadata: {name: secure, namespace: shop}
spec: {ports: [{port: 443}]}
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: secure, namespace: shop}
spec: {parentRefs: [{name: web, namespace: infra}], rules: [{backendRefs: [{name: secure, port: 443}]}]}
";

impl Mistake {
    fn manifest(&self) -> String {
        let Self { kind, namespace, name, spec } = self;
        let namespace = if namespace.is_empty() { String::new() } else { format!(", namespace: {namespace}") };
        format!(
            "---\napiVersion: gateway.networking.k8s.io/v1\nkind: {kind}\nmetadata: {{name: {name}{namespace}}}\nspec: {{{spec}}}\n"
        )
    }

    fn file(&self) -> PathBuf {
        let name = format!("{}-{}.txt", self.kind.to_lowercase(), self.name);
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/apiserver/testdata").join(name)
    }

    /// What kubectl prints, without what differs from one time to the next.
    fn described(&self, kube: &Kube) -> String {
        let kind = self.kind.to_lowercase();
        let mut text = String::new();
        for verb in ["get", "describe"] {
            let mut command = vec![verb, &kind, self.name];
            if !self.namespace.is_empty() {
                command.extend(["-n", self.namespace]);
            }
            let printed = kube.kubectl(&command).unwrap();
            text += &format!("$ kubectl {}\n{}\n", command.join(" "), steady(&printed));
        }
        text
    }
}

/// The same for the same world: without times, ages, identities, and the features that a class claims, which grow.
fn steady(printed: &str) -> String {
    const VOLATILE: [&str; 5] =
        ["Creation Timestamp:", "Last Transition Time:", "Resource Version:", "UID:", "Observed Generation:"];
    let mut lines: Vec<String> = Vec::new();
    let mut events: Option<Vec<String>> = None;
    let mut in_features = false;
    for line in printed.lines() {
        let text = line.trim();
        if let Some(events) = &mut events {
            // Type, reason, age, source, message; in an order by chance.
            let cells: Vec<&str> = text.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect();
            if let [kind, reason, age, source, message @ ..] = &cells[..]
                && !kind.starts_with('-')
            {
                let age = if *age == "Age" { "Age" } else { "(age)" };
                events.push(format!("  {kind}  {reason}  {age}  {source}  {}", message.join("  ")));
            }
            continue;
        }
        in_features = if text == "Supported Features:" { true } else { in_features && text.starts_with("Name:") };
        if in_features || VOLATILE.iter().any(|label| text.starts_with(label)) {
            continue;
        }
        if text.starts_with("Events:") {
            lines.push(text.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect::<Vec<_>>().join(" "));
            events = Some(Vec::new());
            continue;
        }
        // The last column of `get`.
        let aged = line.rsplit_once(' ').filter(|(_, last)| is_age(last)).map(|(before, _)| format!("{before} (age)"));
        lines.push(aged.unwrap_or_else(|| line.trim_end().to_owned()));
    }
    let mut events = events.unwrap_or_default();
    // The heading stays where it is.
    if let Some(told) = events.get_mut(1..) {
        told.sort();
    }
    lines.extend(events);
    lines.join("\n") + "\n"
}

fn is_age(text: &str) -> bool {
    !text.is_empty()
        && text.starts_with(|char: char| char.is_ascii_digit())
        && text.ends_with(['s', 'm', 'h'])
        && text.chars().all(|char| char.is_ascii_digit() || "smh".contains(char))
}

#[tokio::test(flavor = "multi_thread")]
async fn words_tell_what_is_wrong_and_where() {
    let kube = Kube::start(&KubeOptions::default()).await.unwrap();
    // All of it is there before Portolan is: it tells each thing once.
    kube.apply(WORLD).unwrap();
    kube.apply(USES_POLICY).unwrap();
    kube.apply(&MISTAKES.iter().map(Mistake::manifest).collect::<String>()).unwrap();
    let mut controller = controller(&kube);
    for gateway in ["web", "clash", "no-certificate"] {
        let name = format!("portolan-{gateway}");
        until(&kube, &controller, "service", &format!("infra/{name}"), |_| true).await;
        let address = r#"{"status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.7"}]}}}"#;
        kube.kubectl(&[
            "patch",
            "service",
            &name,
            "-n",
            "infra",
            "--subresource=status",
            "--type=merge",
            "-p",
            address,
        ])
        .unwrap();
    }
    until(&kube, &controller, "gateway", "infra/taken", |gateway| gateway.to_string().contains("NoResources")).await;
    until(&kube, &controller, "gateway", "infra/web", |gateway| gateway.to_string().contains("192.0.2.7")).await;

    if std::env::var_os("UPDATE_GOLDENS").is_some() {
        tokio::time::sleep(Duration::from_secs(10)).await;
        for mistake in &MISTAKES {
            std::fs::write(mistake.file(), mistake.described(&kube)).unwrap();
        }
        return;
    }
    // Events are written one after the other.
    let end = Instant::now() + PATIENCE / 2;
    for mistake in &MISTAKES {
        let expected = std::fs::read_to_string(mistake.file()).unwrap();
        loop {
            let described = mistake.described(&kube);
            if described == expected {
                break;
            }
            let file = mistake.file();
            assert!(Instant::now() < end, "{}: expected\n{expected}\nis\n{described}", file.display());
            tokio::time::sleep(Duration::from_millis(300)).await;
        }
    }
    let status = controller.terminate(PATIENCE).await.unwrap();
    assert!(status.success(), "{status}\n{}", controller.log());
}

#[test]
fn what_kubectl_prints_is_made_steady() {
    let get = "NAME   HOSTNAMES   AGE\na      [\"x\"]       2m3s\n";
    assert_eq!(steady(get), "NAME   HOSTNAMES   AGE\na      [\"x\"]       (age)\n");
    let describe = "Name: a\n  UID:  1-2\nEvents:\n  Type     Reason  Age               From  Message\n  ----     ------  ----              ----  -------\n  Warning  B  3s (x2 over 5s)  p/a  two  spaces\n  Warning  A  1s  p/a  first\n";
    let expected = "Name: a\nEvents:\n  Type  Reason  Age  From  Message\n  Warning  A  (age)  p/a  first\n  Warning  B  (age)  p/a  two  spaces\n";
    assert_eq!(steady(describe), expected);
}
