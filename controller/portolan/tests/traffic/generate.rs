//! A world of overlapping routes and requests to it, from a fixed seed.

use std::net::SocketAddr;

use bytes::Bytes;
use http::Request;
use portolan_testkit::client::{Endpoint, Exchange, send};
use serde_json::{Value, json};

/// The request header in which every rule tells which one it is: `ROUTE/INDEX`.
pub const RULE: &str = "x-rule";

const ROUTES: usize = 24;
const REQUESTS: usize = 600;
const HOSTNAMES: [&str; 7] =
    ["a.example", "b.example", "*.example", "x.a.example", "*.a.example", "deep.x.a.example", "*.other.test"];
const PATHS: [&str; 8] = ["/", "/one", "/one/two", "/one/two/three", "/onetwo", "/two", "/two/", "/three/12"];
const METHODS: [&str; 4] = ["GET", "POST", "PUT", "DELETE"];

/// Numbers that are the same in each run (Knuth's MMIX).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % limit
    }

    fn one_in(&mut self, count: usize) -> bool {
        self.below(count) == 0
    }

    fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())]
    }
}

/// Gateway, three Services (and one without endpoints), and routes, as a `List`.
pub fn world(listen: SocketAddr, backends: &[SocketAddr]) -> Value {
    let api = "gateway.networking.k8s.io/v1";
    let mut items = vec![
        json!({"apiVersion": api, "kind": "GatewayClass", "metadata": {"name": "portolan"},
            "spec": {"controllerName": "portolan.dev/gateway-controller"}}),
        json!({"apiVersion": api, "kind": "Gateway", "metadata": {"name": "web"}, "spec": {
        "gatewayClassName": "portolan",
        "addresses": [{"type": "IPAddress", "value": listen.ip().to_string()}],
        "listeners": [
            {"name": "all", "protocol": "HTTP", "port": listen.port()},
            {"name": "narrow", "protocol": "HTTP", "port": listen.port(), "hostname": "*.a.example"},
        ]}}),
        service("empty"),
    ];
    for (index, backend) in backends.iter().enumerate() {
        let name = format!("service-{index}");
        items.push(service(&name));
        items.push(json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "metadata": {
            "name": format!("{name}-x"), "labels": {"kubernetes.io/service-name": name}}, "addressType": "IPv4",
            "ports": [{"name": "http", "port": backend.port()}],
            "endpoints": [{"addresses": [backend.ip().to_string()]}]}));
    }
    let mut numbers = Numbers(1);
    items.extend((0..ROUTES).map(|number| route(&mut numbers, number)));
    json!({"apiVersion": "v1", "kind": "List", "items": items})
}

fn service(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": {"ports": [{"name": "http", "port": 80}]}})
}

fn route(numbers: &mut Numbers, number: usize) -> Value {
    let name = format!("route-{number}");
    let hostnames: Vec<&str> = (0..numbers.below(3)).map(|_| numbers.of(&HOSTNAMES)).collect();
    let rules: Vec<Value> = (0..=numbers.below(4)).map(|index| rule(numbers, &format!("{name}/{index}"))).collect();
    let mut parent = json!({"name": "web"});
    if numbers.one_in(4) {
        parent["sectionName"] = json!(numbers.of(&["all", "narrow"]));
    }
    // Distinct times, so that precedence between routes is seen.
    let created = format!("2026-01-01T00:00:{:02}Z", (number * 7) % 60);
    json!({"apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute",
        "metadata": {"name": name, "creationTimestamp": created},
        "spec": {"parentRefs": [parent], "hostnames": hostnames, "rules": rules}})
}

fn rule(numbers: &mut Numbers, name: &str) -> Value {
    let matches: Vec<Value> = (0..=numbers.below(2)).map(|_| one_match(numbers)).collect();
    // A prefix can be replaced where every match of the rule has one.
    let prefixes = matches.iter().all(|one| one["path"]["type"] == "PathPrefix");
    let mark =
        json!({"type": "RequestHeaderModifier", "requestHeaderModifier": {"set": [{"name": RULE, "value": name}]}});
    match numbers.below(8) {
        0 | 1 => {
            let mut redirect = json!({"statusCode": numbers.of(&[301, 302])});
            if numbers.one_in(2) {
                redirect["hostname"] = json!("elsewhere.test");
            }
            if numbers.one_in(3) {
                redirect["port"] = json!(numbers.of(&[80, 8080]));
            }
            if numbers.one_in(3) {
                redirect["scheme"] = json!("https");
            }
            if numbers.one_in(2) {
                redirect["path"] = path_modifier(numbers, prefixes, name);
            }
            json!({"matches": matches, "filters": [{"type": "RequestRedirect", "requestRedirect": redirect}]})
        }
        2 | 3 => {
            let mut rewrite = json!({"path": path_modifier(numbers, prefixes, name)});
            if numbers.one_in(2) {
                rewrite["hostname"] = json!("rewritten.test");
            }
            let filters = json!([mark, {"type": "URLRewrite", "urlRewrite": rewrite}]);
            json!({"matches": matches, "filters": filters, "backendRefs": backends(numbers)})
        }
        _ => json!({"matches": matches, "filters": [mark], "backendRefs": backends(numbers)}),
    }
}

fn path_modifier(numbers: &mut Numbers, prefixes: bool, name: &str) -> Value {
    if prefixes && numbers.one_in(2) {
        json!({"type": "ReplacePrefixMatch", "replacePrefixMatch": numbers.of(&["/", "/new", "/new/", "/a/b"])})
    } else {
        json!({"type": "ReplaceFullPath", "replaceFullPath": format!("/full/{name}")})
    }
}

fn one_match(numbers: &mut Numbers) -> Value {
    let path = match numbers.below(6) {
        0 | 1 => json!({"type": "Exact", "value": numbers.of(&PATHS)}),
        2..=4 => json!({"type": "PathPrefix", "value": numbers.of(&PATHS)}),
        _ => json!({"type": "RegularExpression", "value": numbers.of(&["/one/.*", "/three/[0-9]+", "/(one|two)"])}),
    };
    let mut one = json!({"path": path});
    if numbers.one_in(4) {
        one["method"] = json!(numbers.of(&METHODS));
    }
    if numbers.one_in(3) {
        one["headers"] = match numbers.below(3) {
            0 => json!([{"name": "X-Colour", "value": "red"}]),
            1 => json!([{"name": "x-colour", "type": "RegularExpression", "value": "r.*|blue"}]),
            _ => json!([{"name": "x-colour", "value": "blue"}, {"name": "x-size", "value": "1"}]),
        };
    }
    if numbers.one_in(4) {
        one["queryParams"] = match numbers.below(2) {
            0 => json!([{"name": "q", "value": "1"}]),
            _ => json!([{"name": "q", "type": "RegularExpression", "value": "[0-9]+"}]),
        };
    }
    one
}

/// One to three backends with weights, some of weight 0, without endpoints, or missing.
fn backends(numbers: &mut Numbers) -> Vec<Value> {
    let name = |numbers: &mut Numbers| match numbers.below(12) {
        0 => String::from("missing"),
        1 => String::from("empty"),
        other => format!("service-{}", other % 3),
    };
    let backend =
        |numbers: &mut Numbers| json!({"name": name(numbers), "port": 80, "weight": numbers.of(&[0, 1, 1, 5, 20])});
    (0..=numbers.below(3)).map(|_| backend(numbers)).collect()
}

/// A request to the world.
#[derive(Debug)]
pub struct Generated {
    pub method: &'static str,
    pub host: String,
    pub path: String,
    pub headers: Vec<(String, String)>,
}

impl Generated {
    pub async fn send(&self, at: SocketAddr) -> anyhow::Result<Exchange> {
        let mut request = Request::builder().method(self.method).uri(format!("http://{}{}", self.host, self.path));
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        Ok(send(&Endpoint::http1(at), request.body(Bytes::new())?).await?)
    }
}

pub fn requests() -> Vec<Generated> {
    let mut numbers = Numbers(2);
    let hosts = [
        "a.example",
        "b.example",
        "c.example",
        "x.a.example",
        "y.a.example",
        "deep.x.a.example",
        "x.y.a.example",
        "x.other.test",
        "other.test",
        "unknown.test",
        "A.Example",
        "a.example:8080",
    ];
    let further =
        ["/one/", "/one/two/three/four", "/three/x", "/three/12/13", "/none", "/one%2Ftwo", "/one//two", "/one/../two"];
    let paths: Vec<&str> = PATHS.into_iter().chain(further).collect();
    let request = |_| {
        let query = numbers.of(&["", "", "?q=1", "?q=12", "?q=x", "?a=b&q=1", "?q=2&q=1"]);
        let mut headers = Vec::new();
        if numbers.one_in(2) {
            headers.push((String::from("x-colour"), String::from(numbers.of(&["red", "blue", "rose", "green"]))));
        }
        if numbers.one_in(3) {
            headers.push((String::from("X-Size"), String::from(numbers.of(&["1", "2"]))));
        }
        let path = format!("{}{query}", numbers.of(&paths));
        Generated { method: numbers.of(&METHODS), host: numbers.of(&hosts).to_owned(), path, headers }
    };
    (0..REQUESTS).map(request).collect()
}
