//! `portolan run` from start to end.

use std::net::SocketAddr;
use std::process::Command;
use std::time::{Duration, Instant};

use portolan_testkit::client::{Endpoint, get};
use portolan_testkit::{Dir, Echo, EchoOptions, ports};
use serde_json::Value;

use crate::fixture::{PATIENCE, Portolan, gateway, route};

async fn scene() -> (Dir, u16, Echo) {
    let echo = Echo::start(EchoOptions::named("shop")).await.unwrap();
    let port = ports::free().unwrap();
    let dir = Dir::new().unwrap();
    dir.write("gateway.yaml", gateway(port)).unwrap();
    dir.write("shop.yaml", route("shop", "shop.example", echo.address())).unwrap();
    (dir, port, echo)
}

async fn ask(port: u16, host: &str) -> Option<(u16, Option<String>)> {
    let endpoint = Endpoint::http1(SocketAddr::from(([127, 0, 0, 1], port)));
    let answer = get(&endpoint, &format!("http://{host}/")).await.ok()?;
    Some((answer.status.as_u16(), answer.answer().map(|answer| answer.service)))
}

/// Asks until the answer is this.
async fn until(port: u16, host: &str, status: u16, backend: Option<&str>) {
    let end = Instant::now() + PATIENCE;
    loop {
        let answer = ask(port, host).await;
        if answer == Some((status, backend.map(Into::into))) {
            return;
        }
        assert!(Instant::now() < end, "{host}: {answer:?} instead of {status} {backend:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

fn is_alive(pid: u32) -> bool {
    Command::new("kill").args(["-0", &pid.to_string()]).stderr(std::process::Stdio::null()).status().unwrap().success()
}

#[tokio::test(flavor = "multi_thread")]
async fn it_serves_follows_changes_and_ends_clean() {
    let (dir, port, echo) = scene().await;
    let mut portolan = Portolan::start(&dir, &[]);
    portolan.ready().await;
    assert!(
        portolan.log().contains(&format!("Gateway default/web listens on http://0.0.0.0:{port}")),
        "{}",
        portolan.log()
    );
    // Ready means ready: no waiting.
    assert_eq!(ask(port, "shop.example").await, Some((200, Some("shop".into()))));
    assert_eq!(ask(port, "cart.example").await.unwrap().0, 404);

    dir.write("cart.yaml", route("cart", "cart.example", echo.address())).unwrap();
    until(port, "cart.example", 200, Some("shop")).await;

    let from = portolan.log().len();
    let wrong = route("cart", "cart.example", echo.address())
        .replace("  hostnames:\n  - cart.example", "  hostnames: cart.example");
    dir.write("cart.yaml", wrong).unwrap();
    portolan
        .line(from, &["cart.yaml:", "HTTPRoute default/cart", "spec.hostnames", "last accepted version stays in force"])
        .await;
    assert_eq!(ask(port, "cart.example").await, Some((200, Some("shop".into()))));
    let from = portolan.log().len();
    dir.remove("cart.yaml").unwrap();
    portolan.line(from, &["cleared:", "HTTPRoute default/cart"]).await;
    until(port, "cart.example", 404, None).await;

    let envoys = portolan.envoys();
    assert_eq!(envoys.len(), 1);
    portolan.stop().await;
    assert!(!is_alive(envoys[0]) && portolan.envoys().is_empty());
    assert!(ask(port, "shop.example").await.is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_admin_endpoint_shows_what_kubernetes_would() {
    let (dir, port, _echo) = scene().await;
    let mut portolan = Portolan::start(&dir, &[]);
    portolan.ready().await;
    let (status, text) = portolan.admin("/readyz?verbose").await;
    assert_eq!((status, text.as_str()), (200, "[+] Gateway default/web\nready\n"));
    assert_eq!(portolan.admin("/healthz").await, (200, "ok\n".into()));

    let gateway = portolan.json("/objects/Gateway/default/web").await;
    let condition = |object: &Value, kind: &str| {
        object["status"]["conditions"].as_array().unwrap().iter().find(|one| one["type"] == kind).cloned().unwrap()
    };
    assert_eq!(condition(&gateway, "Programmed")["status"], "True", "{gateway:#}");
    assert_eq!(gateway["status"]["addresses"][0]["value"], "127.0.0.1");
    assert_eq!(gateway["status"]["listeners"][0]["attachedRoutes"], 1);
    let class = portolan.json("/objects/gatewayclass/portolan").await;
    assert_eq!(condition(&class, "Accepted")["status"], "True");
    let all = portolan.json("/objects").await;
    assert_eq!(all.as_array().unwrap().len(), 4);
    assert_eq!(portolan.admin("/objects/HTTPRoute/default/none").await.0, 404);
    assert_eq!(portolan.admin("/objects/Nonsense/default/none").await.0, 404);

    // Generations count changes; times of conditions stay where the condition does.
    let before = portolan.json("/objects/HTTPRoute/default/shop").await;
    assert_eq!(before["metadata"]["generation"], 1);
    tokio::time::sleep(Duration::from_millis(1100)).await;
    let moved = std::fs::read_to_string(dir.file("shop.yaml"))
        .unwrap()
        .replace("- shop.example", "- shop.example\n  - www.example");
    dir.write("shop.yaml", moved).unwrap();
    until(port, "www.example", 200, Some("shop")).await;
    let after = portolan.json("/objects/HTTPRoute/default/shop").await;
    assert_eq!(after["metadata"]["generation"], 2);
    let (before, after) =
        (&before["status"]["parents"][0]["conditions"][0], &after["status"]["parents"][0]["conditions"][0]);
    assert_eq!(after["observedGeneration"], 2);
    assert_eq!(before["lastTransitionTime"], after["lastTransitionTime"]);

    let (status, metrics) = portolan.admin("/metrics").await;
    assert!(status == 200 && metrics.contains("# TYPE") && metrics.ends_with("# EOF\n"), "{metrics}");
    let dump = portolan.json("/config_dump?gateway=default/web").await;
    let listeners = dump["default/web"]["listeners"].as_array().unwrap();
    assert!(listeners.iter().any(|listener| listener["name"] == format!("http/{port}")), "{dump:#}");
    assert_eq!(portolan.json("/config_dump?gateway=default%2fweb").await, dump);
    let (status, text) = portolan.admin("/config_dump?gateway=default/wbe").await;
    assert_eq!(
        (status, text.as_str()),
        (404, "Portolan has no Gateway default/wbe in force; there are: default/web\n")
    );
    assert_eq!(portolan.admin("/config_dump?gateway=a/b/c").await.0, 400);
    portolan.stop().await;
}

/// Whoever looks at a large configuration does not hold up those who change it: readiness is asked of the pilot as changes are.
#[tokio::test(flavor = "multi_thread")]
async fn the_pilot_goes_on_while_a_dump_is_made() {
    let (dir, _port, echo) = scene().await;
    let many = |number: usize| route(&format!("r{number}"), &format!("r{number}.example"), echo.address());
    dir.write("many.yaml", (0..2_000).map(many).collect::<Vec<_>>().join("---\n")).unwrap();
    let mut portolan = Portolan::start(&dir, &[]);
    portolan.ready().await;
    let began = Instant::now();
    portolan.admin("/config_dump").await;
    let alone = began.elapsed();
    let dump = portolan.admin_task("/config_dump");
    // The question is with the pilot by then, and the answer far from made.
    tokio::time::sleep(alone / 20).await;
    let began = Instant::now();
    assert_eq!(portolan.admin("/readyz").await.0, 200);
    let readiness = began.elapsed();
    assert!(readiness < alone / 4, "the dump took {alone:?}, readiness {readiness:?}");
    dump.await.unwrap();
    portolan.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn envoy_goes_on_without_portolan_and_the_next_takes_it_over() {
    let (dir, port, echo) = scene().await;
    let mut portolan = Portolan::start(&dir, &[]);
    portolan.ready().await;
    let envoys = portolan.envoys();
    portolan.process().kill().unwrap();
    assert_eq!(ask(port, "shop.example").await, Some((200, Some("shop".into()))));
    dir.write("cart.yaml", route("cart", "cart.example", echo.address())).unwrap();
    portolan.again();
    portolan.ready().await;
    assert!(portolan.log().contains("is taken over"), "{}", portolan.log());
    assert_eq!(portolan.envoys(), envoys);
    until(port, "cart.example", 200, Some("shop")).await;
    // A Gateway that went while nobody watched takes its Envoy with it.
    portolan.process().kill().unwrap();
    dir.write("gateway.yaml", gateway(port).split_once("---").unwrap().0).unwrap();
    portolan.again();
    portolan.ready().await;
    let end = Instant::now() + PATIENCE;
    while is_alive(envoys[0]) || !portolan.gateway_directories().is_empty() {
        assert!(Instant::now() < end, "the Envoy of a Gateway that is gone still runs, or its files are there");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    portolan.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_that_was_renamed_while_nobody_watched_gets_the_port_of_its_orphan() {
    let (dir, port, _echo) = scene().await;
    let mut portolan = Portolan::start(&dir, &[]);
    portolan.ready().await;
    let orphan = portolan.envoys()[0];
    portolan.process().kill().unwrap();
    dir.write("gateway.yaml", gateway(port).replace("name: web", "name: other")).unwrap();
    portolan.again();
    portolan.ready().await;
    let end = Instant::now() + PATIENCE;
    while is_alive(orphan) {
        assert!(Instant::now() < end, "the Envoy of the old name still runs");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    // No route names the new one.
    until(port, "shop.example", 404, None).await;
    portolan.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_files_of_an_envoy_go_with_its_gateway_unless_that_is_made_again_meanwhile() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let (dir, port, _echo) = scene().await;
    let mut portolan = Portolan::start(&dir, &[]);
    // Of a Gateway that went while no Portolan ran, and whose Envoy died.
    portolan.ready().await;
    portolan.process().kill().unwrap();
    let left = portolan.gateway_directories()[0].with_file_name("default.old");
    std::fs::create_dir(&left).unwrap();
    std::fs::write(left.join("envoy.log"), "").unwrap();
    portolan.again();
    portolan.ready().await;
    assert!(!left.exists());

    let [directory] = portolan.gateway_directories().try_into().unwrap();
    let without = gateway(port).split_once("---").unwrap().0.to_owned();
    // Keeps the Envoy draining.
    let mut idle = tokio::net::TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    idle.write_all(b"GET / HTTP/1.1\r\nhost: shop.example\r\n\r\n").await.unwrap();
    assert!(idle.read(&mut [0; 1024]).await.unwrap() > 0);
    let gone = async |what: &str| {
        let end = Instant::now() + PATIENCE;
        while directory.join(what).exists() {
            assert!(Instant::now() < end, "{what} is still there");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    dir.write("gateway.yaml", &without).unwrap();
    gone("xds.sock").await;
    dir.write("gateway.yaml", gateway(port)).unwrap();
    let from = portolan.log().len();
    portolan.line(from, &["Envoy of default/web started"]).await;
    until(port, "shop.example", 200, Some("shop")).await;
    assert!(portolan.log().contains("Envoy of default/web stopped"), "{}", portolan.log());
    for file in ["xds.sock", "admin.sock", "state.json"] {
        assert!(directory.join(file).exists(), "{file}");
    }

    dir.write("gateway.yaml", &without).unwrap();
    gone("").await;
    assert!(portolan.gateway_directories().is_empty());
    portolan.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_envoy_that_dies_is_back_at_once() {
    let (dir, port, _echo) = scene().await;
    let mut portolan = Portolan::start(&dir, &[]);
    portolan.ready().await;
    let envoys = portolan.envoys();
    let from = portolan.log().len();
    assert!(Command::new("kill").args(["-KILL", &envoys[0].to_string()]).status().unwrap().success());
    portolan.line(from, &["Envoy of default/web ended", "signal: 9", "at once"]).await;
    until(port, "shop.example", 200, Some("shop")).await;
    assert_ne!(portolan.envoys(), envoys);
    portolan.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn colliding_gateways_get_addresses_of_their_own() {
    let (dir, port, echo) = scene().await;
    dir.write("other.yaml", gateway(port).split_once("---\n").unwrap().1.replace("name: web", "name: other")).unwrap();
    let to_other = route("other", "other.example", echo.address()).replace("- name: web", "- name: other");
    dir.write("route.yaml", to_other).unwrap();
    let mut portolan = Portolan::start(&dir, &[]);
    portolan.ready().await;
    for (name, host) in [("web", "shop.example"), ("other", "other.example")] {
        let gateway = portolan.json(&format!("/objects/Gateway/default/{name}")).await;
        let address = gateway["status"]["addresses"][0]["value"].as_str().unwrap().to_owned();
        assert!(address.starts_with("127.0.0.") && address != "127.0.0.1", "{address}");
        assert!(portolan.log().contains(&format!("Gateway default/{name} listens on http://{address}:{port}")));
        let socket: SocketAddr = format!("{address}:{port}").parse().unwrap();
        let answer = get(&Endpoint::http1(socket), &format!("http://{host}/")).await.unwrap();
        assert_eq!(answer.status.as_u16(), 200, "{name}");
    }
    portolan.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_of_another_machine_is_reported_and_not_all_addresses() {
    let (dir, port, _echo) = scene().await;
    // TEST-NET-3: no machine has it.
    let addresses = "  addresses:\n  - value: 203.0.113.7\n";
    dir.write("gateway.yaml", gateway(port) + addresses).unwrap();
    let mut portolan = Portolan::start(&dir, &[]);
    portolan.ready().await;
    portolan.line(0, &["gateway.yaml:", "Gateway default/web", "AddressNotUsable", "203.0.113.7"]).await;
    assert!(ask(port, "shop.example").await.is_none(), "nothing listens");
    // One that this machine has is served all the same.
    let from = portolan.log().len();
    dir.write("gateway.yaml", gateway(port) + addresses + "  - value: 127.0.0.1\n").unwrap();
    portolan.line(from, &[&format!("listens on http://127.0.0.1:{port}")]).await;
    until(port, "shop.example", 200, Some("shop")).await;
    portolan.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_machine_lacks_is_said_in_one_line() {
    let (dir, port, _echo) = scene().await;
    let taken = std::net::TcpListener::bind(("0.0.0.0", port)).unwrap();
    let mut portolan = Portolan::start(&dir, &[]);
    assert_eq!(portolan.process().wait(PATIENCE).await.unwrap().code(), Some(3));
    let log = portolan.log();
    let last = log.lines().last().unwrap();
    assert!(
        last.contains(&format!("port {port} ")) && last.contains("--port-offset") && last.contains("default/web"),
        "{last}"
    );
    drop(taken);

    let mut portolan = Portolan::start(&dir, &["--envoy", "/no/such/envoy"]);
    assert_eq!(portolan.process().wait(PATIENCE).await.unwrap().code(), Some(3));
    assert!(portolan.log().contains("/no/such/envoy does not run"), "{}", portolan.log());

    // Twice on the same directory
    let mut first = Portolan::start(&dir, &[]);
    first.ready().await;
    let mut command = Command::new(env!("CARGO_BIN_EXE_portolan"));
    command.arg("run").arg(dir.path()).arg("--no-admin").arg("--runtime-dir").arg(first.runtime_dir());
    command.env("PORTOLAN_ENVOY", portolan_testkit::envoy::find().unwrap());
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(3));
    assert!(text.contains(&format!("process {} already runs", first.process().id())), "{text}");
    first.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn programs_read_one_object_per_line() {
    let (dir, _port, _echo) = scene().await;
    dir.write("half.yaml", "kind: [\n").unwrap();
    let mut portolan = Portolan::start(&dir, &["-o", "json"]);
    portolan.line(0, &[r#""event":"ready""#]).await;
    portolan.stop().await;
    let events: Vec<Value> =
        portolan.log().lines().map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("{line}"))).collect();
    let kinds: Vec<&str> = events.iter().map(|event| event["event"].as_str().unwrap()).collect();
    for kind in ["starting", "finding", "envoy", "listening", "ready", "ending", "ended"] {
        assert!(kinds.contains(&kind), "{kind} in {kinds:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_port_that_is_taken_later_is_named_and_served_once_it_is_free() {
    let (dir, port, _echo) = scene().await;
    let mut portolan = Portolan::start(&dir, &[]);
    portolan.ready().await;
    let taken = std::net::TcpListener::bind(("0.0.0.0", 0)).unwrap();
    let second = taken.local_addr().unwrap().port();
    let from = portolan.log().len();
    let listener = format!("  - name: second\n    port: {second}\n    protocol: HTTP\n");
    dir.write("gateway.yaml", gateway(port) + &listener).unwrap();
    let line = portolan.line(from, &["gateway.yaml:", "listener second: Programmed=False (Invalid)"]).await;
    for word in ["Address already in use", "stop the process", "tried again"] {
        assert!(line.contains(word), "{word} in {line}");
    }
    // Several attempts fail, quietly, and the first listener is served all the while.
    let end = Instant::now() + Duration::from_secs(4);
    while Instant::now() < end {
        assert_eq!(ask(port, "shop.example").await, Some((200, Some("shop".into()))));
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let told = portolan.log()[from..].lines().filter(|line| line.contains("listener second: Programmed")).count();
    assert_eq!(told, 1, "{}", portolan.log());

    let from = portolan.log().len();
    drop(taken);
    portolan.line(from, &["cleared:", "listener second: Programmed=False (Invalid)"]).await;
    assert_eq!(ask(second, "shop.example").await, Some((200, Some("shop".into()))));
    portolan.stop().await;
}
