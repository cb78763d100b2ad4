//! One broken object at a time in a healthy set, under load: a clear finding, and nothing else is disturbed.

use std::net::SocketAddr;
use std::time::Duration;

use portolan_testkit::certs::{Authority, Pair};
use portolan_testkit::load::{Load, Mix, backend};
use portolan_testkit::{Dir, Echo, EchoOptions, ports};

use crate::fixture::{PATIENCE, Portolan, gateway, route};

/// Requests that the load sends beside each broken object.
const REQUESTS: u64 = 400;

struct Case {
    what: &'static str,
    file: &'static str,
    text: Vec<u8>,
    /// Words of the line that tells of it
    words: Vec<&'static str>,
}

fn cases(authority: &Authority, https: u16) -> Vec<Case> {
    let one = authority.server(&["broken.example"]).unwrap();
    let other = authority.server(&["broken.example"]).unwrap();
    let mixed = Pair { certificate: one.certificate.clone(), key: other.key };
    let address: SocketAddr = "127.0.0.1:1".parse().unwrap();
    let plain = || route("broken", "broken.example", address);
    let with = |rule: &str| plain().replacen("  - backendRefs:\n", &format!("  - {rule}\n    backendRefs:\n"), 1);
    let listener_set = |listeners: &str| {
        format!(
            "apiVersion: gateway.networking.k8s.io/v1\nkind: ListenerSet\nmetadata:\n  name: broken\nspec:\n  parentRef:\n    name: web\n  listeners:\n{listeners}"
        )
    };
    let tls = |secret: &str| {
        listener_set(&format!(
            "  - name: broken\n    port: {https}\n    protocol: HTTPS\n    hostname: broken.example\n    tls:\n      certificateRefs:\n      - name: {secret}\n"
        ))
    };
    let case = |what, file, text: String, words: &[&'static str]| Case {
        what,
        file,
        text: text.into_bytes(),
        words: words.to_vec(),
    };
    let mut huge = plain().into_bytes();
    huge.extend(b"#".repeat(50 << 20));
    vec![
        case(
            "bad regex",
            "broken.yaml",
            with("matches:\n    - path:\n        type: RegularExpression\n        value: /a(b"),
            &["broken.yaml:", "HTTPRoute default/broken"],
        ),
        case(
            "regex that RE2 has no word for",
            "broken.yaml",
            with("matches:\n    - path:\n        type: RegularExpression\n        value: /a(?=b)"),
            &["broken.yaml:", "HTTPRoute default/broken"],
        ),
        case(
            "mismatched key",
            "broken.yaml",
            format!("{}---\n{}", mixed.secret("default", "mixed"), tls("mixed")),
            &["broken.yaml:", "ListenerSet default/broken", "mixed"],
        ),
        case("missing Secret", "broken.yaml", tls("none"), &["broken.yaml:", "ListenerSet default/broken", "none"]),
        case(
            "unknown filter",
            "broken.yaml",
            with("filters:\n    - type: Unheard"),
            &["broken.yaml:", "HTTPRoute default/broken", "spec.rules[0].filters[0].type", "Unheard"],
        ),
        case(
            "duplicate hostname",
            "broken.yaml",
            listener_set(&format!(
                "  - name: broken\n    port: {https}\n    protocol: HTTPS\n    hostname: shop.example\n    tls:\n      certificateRefs:\n      - name: cert\n"
            )),
            &["broken.yaml:", "ListenerSet default/broken", "Conflict"],
        ),
        case(
            "the same object twice",
            "zz.yaml",
            route("shop", "elsewhere.example", address),
            &["zz.yaml:", "HTTPRoute default/shop", "shop.yaml:1"],
        ),
        Case { what: "50 MB manifest", file: "broken.yaml", text: huge, words: vec!["broken.yaml", "50 MiB"] },
        Case {
            what: "binary file",
            file: "broken.yaml",
            text: (0..100_000u32).flat_map(|number| number.wrapping_mul(2_654_435_761).to_le_bytes()).collect(),
            words: vec!["broken.yaml", "error"],
        },
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn one_broken_object_disturbs_nothing_else() {
    let authority = Authority::new("test").unwrap();
    let echo = Echo::start(EchoOptions::named("shop")).await.unwrap();
    let (http, https) = (ports::free().unwrap(), ports::free().unwrap());
    let dir = Dir::new().unwrap();
    let tls = format!(
        "  - name: https\n    port: {https}\n    protocol: HTTPS\n    hostname: shop.example\n    tls:\n      certificateRefs:\n      - name: cert\n  allowedListeners:\n    namespaces:\n      from: Same\n"
    );
    let secret = authority.server(&["shop.example"]).unwrap().secret("default", "cert");
    let files = || {
        dir.write("gateway.yaml", gateway(http) + &tls).unwrap();
        dir.write("secret.yaml", &secret).unwrap();
        dir.write("shop.yaml", route("shop", "shop.example", echo.address())).unwrap();
    };
    files();
    let mut portolan = Portolan::start(&dir, &[]);
    portolan.ready().await;

    let local = |port| SocketAddr::from(([127, 0, 0, 1], port));
    let expect = backend("shop");
    let mix = Mix { http: local(http), https: Some((local(https), &authority)), host: "shop.example", expect: &expect };
    let load = Load::start(&mix.workers().unwrap());
    load.further(REQUESTS, PATIENCE).await.unwrap();
    assert_eq!(load.failed(), 0, "before anything is broken");

    for Case { what, file, text, words } in cases(&authority, https) {
        let from = portolan.log().len();
        dir.write(file, &text).unwrap();
        let line = portolan.line(from, &words).await;
        assert!(line.contains("error"), "{what}: {line}");
        load.further(REQUESTS, PATIENCE).await.unwrap();
        assert_eq!(load.failed(), 0, "{what}: {line}");
        let from = portolan.log().len();
        dir.remove(file).unwrap();
        let mut cleared = vec!["cleared:"];
        cleared.extend(words);
        portolan.line(from, &cleared).await;
        load.further(REQUESTS / 4, PATIENCE).await.unwrap();
        assert_eq!(load.failed(), 0, "{what}, mended");
    }

    let from = portolan.log().len();
    std::fs::remove_dir_all(dir.path()).unwrap();
    portolan.line(from, &["cannot be listed", "stays in force"]).await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    load.further(REQUESTS, PATIENCE).await.unwrap();
    assert_eq!(load.failed(), 0, "deleted directory");
    let from = portolan.log().len();
    std::fs::create_dir(dir.path()).unwrap();
    files();
    portolan.line(from, &["cleared:", "cannot be listed"]).await;
    load.further(REQUESTS, PATIENCE).await.unwrap();

    let report = load.stop().await.unwrap();
    assert_eq!(report.failed(), 0, "{report}");
    assert!(report.sent() > 12 * REQUESTS, "{report}");
    portolan.stop().await;
}
