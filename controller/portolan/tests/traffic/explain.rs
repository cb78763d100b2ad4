//! `explain` says what Envoy does: for the requests of every example, and for hundreds of requests to a generated world of overlapping hosts,
//! paths, methods, headers and queries.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context as _, ensure};
use portolan_model::NamespacedName;
use portolan_resolve::explain::{Explanation, Outcome, Request, explain};
use portolan_standalone::binding::BindingOptions;
use portolan_standalone::control_plane::{ControlPlane, Happening};
use portolan_standalone::directory::Directory;
use portolan_testkit::client::Exchange;
use portolan_testkit::examples::{Example, names};
use portolan_testkit::{Dir, Echo, EchoOptions, Portolan, ports};

use crate::generate::{self, RULE};

const READY: Duration = Duration::from_mins(1);

/// The directory as `portolan run` understands it.
fn plane(directory: &Path, port_offset: u16) -> anyhow::Result<ControlPlane> {
    let (_, update) = Directory::open(directory, (SystemTime::now(), Instant::now()))?;
    let mut plane = ControlPlane::new(BindingOptions { port_offset, loopback: false }, &BTreeMap::new());
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?.as_secs();
    plane.apply([Happening::Objects(update.objects)], i64::try_from(now)?, &|_| Ok(()));
    Ok(plane)
}

/// What is wrong about an explanation, by what Envoy did.
pub fn disagreement(explanation: &Explanation, exchange: &Exchange, location: Option<&str>) -> Option<String> {
    let status = exchange.status.as_u16();
    let identity = exchange.answer().map(|answer| (answer.http_port, answer.path, answer.host, answer.headers));
    match &explanation.outcome {
        Outcome::NotListening | Outcome::Closed => Some("Envoy answered where no connection was expected".into()),
        Outcome::Respond { status: expected, grpc_status } => {
            let grpc = exchange.header("grpc-status").and_then(|status| status.parse::<u8>().ok());
            let right = identity.is_none() && grpc == *grpc_status && (status == *expected || grpc.is_some());
            (!right)
                .then(|| format!("{status} (gRPC {grpc:?}) instead of {expected} ({grpc_status:?}) by Envoy itself"))
        }
        Outcome::Redirect { status: expected, location: to } => {
            let to = location.unwrap_or(to);
            let right = status == *expected && exchange.header("location") == Some(to);
            (!right).then(|| format!("{status} to {:?} instead of {expected} to {to}", exchange.header("location")))
        }
        Outcome::Forward(choices) => {
            let live: Vec<_> = choices.iter().filter(|choice| choice.weight > 0).collect();
            let Some((port, path, host, headers)) = identity else {
                let right = live.iter().any(|choice| match (&choice.cluster, choice.endpoints.is_empty()) {
                    (None, _) => status == 500,
                    (Some(_), true) => status == 503,
                    (Some(_), false) => false,
                });
                return (!right).then(|| format!("{status} by Envoy itself instead of one of {live:?}"));
            };
            let end = format!(":{port}");
            let by = |endpoints: &[String]| endpoints.iter().any(|endpoint| endpoint.ends_with(&end));
            let right =
                live.iter().any(|choice| by(&choice.endpoints) && choice.path == path && choice.authority == host);
            if !right {
                return Some(format!("the backend at {port} got {host}{path} instead of {live:?}"));
            }
            let rule = headers.get(RULE).and_then(|values| values.first());
            let expected = explanation.route.as_ref().map(|route| format!("{}/{}", route.route.name.name, route.rule));
            (rule.is_some() && rule != expected.as_ref()).then(|| format!("rule {rule:?} instead of {expected:?}"))
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn explain_agrees_on_every_request_of_the_examples() -> anyhow::Result<()> {
    let mut requests = 0;
    for name in names()? {
        let example = Example::copy(&name)?;
        let _backends = example.backends().await?;
        let offset = example.port_offset;
        let mut portolan = Portolan::start(
            Path::new(env!("CARGO_BIN_EXE_portolan")),
            &example.dir.path(),
            &["--port-offset", &offset.to_string(), "--envoy-concurrency", "1"],
        )?;
        portolan.ready(READY).await?;
        let plane = plane(&example.dir.path(), offset)?;
        for promise in &example.requests {
            requests += 1;
            let uri: http::Uri = promise.url.parse()?;
            let port = uri.port_u16().context("a port")?;
            let (gateway, address) = gateway(&plane, port + offset)?;
            let exchange = promise.send(address, offset).await?;
            let host = uri.host().unwrap_or_default();
            let grpc = promise.method == "GRPC";
            let mut headers = promise.headers.clone();
            if grpc {
                headers.push(("content-type".into(), "application/grpc".into()));
            }
            let request = Request {
                gateway,
                tls: uri.scheme_str() == Some("https"),
                sni: (uri.scheme_str() == Some("https")).then(|| host.to_owned()),
                port,
                method: if grpc { "POST".into() } else { promise.method.clone() },
                authority: format!("{host}:{}", port + offset),
                path: uri.path_and_query().map_or_else(|| "/".into(), ToString::to_string),
                headers,
            };
            let explanation = explain(&plane.engine().world(), &request);
            // A gRPC answer does not repeat the request: its backend is compared by the README's promise, in the demonstration's test.
            let wrong = if grpc && exchange.status == 200 {
                (!matches!(explanation.outcome, Outcome::Forward(_))).then(|| "a backend answered".to_owned())
            } else {
                disagreement(&explanation, &exchange, None)
            };
            ensure!(wrong.is_none(), "{name}: {}: {}\n{explanation:#?}", promise.line, wrong.unwrap_or_default());
            let route = explanation.route.map(|route| format!("{} {}", route.route.kind.as_str(), route.route.name));
            ensure!(route == promise.route, "{name}: {}: explained by {route:?}", promise.line);
        }
        portolan.stop(READY).await?;
    }
    ensure!(requests >= 15, "only {requests} requests");
    println!("{requests} requests of the examples explained as Envoy answers them");
    Ok(())
}

/// The Gateway that listens on a port, and an address to reach it at.
fn gateway(plane: &ControlPlane, port: u16) -> anyhow::Result<(NamespacedName, IpAddr)> {
    let listens = |gateway: &&NamespacedName| plane.ports(gateway).contains_key(&port);
    let gateway = plane.engine().fleets().find(listens).with_context(|| format!("nothing listens on {port}"))?;
    let address = plane.bindings().get(gateway).and_then(|binding| binding.addresses.first().copied());
    Ok((gateway.clone(), address.unwrap_or(IpAddr::from([127, 0, 0, 1]))))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn explain_agrees_on_a_generated_world() -> anyhow::Result<()> {
    let mut echoes = Vec::new();
    for name in ["a", "b", "c"] {
        echoes.push(Echo::start(EchoOptions::named(name)).await?);
    }
    let addresses: Vec<_> = echoes.iter().map(Echo::address).collect();
    let listen = ports::address()?;
    let dir = Dir::new()?;
    dir.write("world.json", generate::world(listen, &addresses).to_string())?;
    let mut portolan =
        Portolan::start(Path::new(env!("CARGO_BIN_EXE_portolan")), &dir.path(), &["--envoy-concurrency", "1"])?;
    portolan.ready(READY).await?;
    let plane = plane(&dir.path(), 0)?;
    let world = plane.engine().world();

    let (mut wrong, mut rules, mut outcomes) = (Vec::new(), BTreeSet::new(), BTreeMap::<&str, usize>::new());
    let requests = generate::requests();
    for one in &requests {
        let request = Request {
            gateway: NamespacedName::new("default", "web"),
            tls: false,
            sni: None,
            port: listen.port(),
            method: one.method.to_owned(),
            authority: one.host.clone(),
            path: one.path.clone(),
            headers: one.headers.clone(),
        };
        let explanation = explain(&world, &request);
        let exchange = one.send(listen).await?;
        *outcomes
            .entry(match &explanation.outcome {
                Outcome::Forward(_) => "forwarded",
                Outcome::Redirect { .. } => "redirected",
                Outcome::Respond { .. } => "answered by Envoy",
                _ => "no connection",
            })
            .or_default() += 1;
        rules
            .extend(explanation.route.as_ref().map(|route| (route.route.name.name.clone(), route.rule, route.matched)));
        if let Some(why) = disagreement(&explanation, &exchange, None) {
            wrong.push(format!("{one:?}: {why}\n{explanation:#?}"));
        }
    }
    println!("{} generated requests: {outcomes:?}, {} matches met", requests.len(), rules.len());
    ensure!(wrong.is_empty(), "{} of {} differ, such as\n{}", wrong.len(), requests.len(), wrong[0]);
    ensure!(requests.len() >= 300 && rules.len() >= 40, "the world is met: {} matches", rules.len());
    ensure!(outcomes.len() == 3 && outcomes.values().all(|count| *count >= 20), "every kind of outcome: {outcomes:?}");
    Ok(())
}
