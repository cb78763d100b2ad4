//! The examples of the repository: their backends and requests, as their READMEs list them, so that documentation, demonstration and test are one.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use bytes::Bytes;
use http::Request;

use crate::client::{Endpoint, Exchange, Protocol, send};
use crate::echo::IDENTITY;
use crate::{Dir, Echo, EchoOptions, certs, ports};

/// An example, copied, with its ports moved to free ones so that several can run at once.
pub struct Example {
    /// The directory's name.
    pub name: String,
    /// The copy.
    pub dir: Dir,
    /// Added to every port of a Gateway.
    pub port_offset: u16,
    /// What its README promises.
    pub requests: Vec<Promise>,
    backends: Vec<(String, SocketAddr)>,
}

/// One request of a README, and what it promises about the answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Promise {
    /// The line itself.
    pub line: String,
    /// `GET`, .. or `GRPC`.
    pub method: String,
    /// Absolute, with the port of the listener.
    pub url: String,
    /// Name and value.
    pub headers: Vec<(String, String)>,
    /// The status.
    pub status: u16,
    /// One of these backends answers; empty: none does.
    pub backends: Vec<String>,
    /// The `location` of a redirect.
    pub location: Option<String>,
    /// `HTTPRoute default/hello`; none: no route.
    pub route: Option<String>,
}

/// The directory `examples/` of the repository.
pub fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples")
}

/// The names of all examples.
///
/// # Errors
/// When the directory cannot be listed.
pub fn names() -> anyhow::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(directory())? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            names.push(entry.file_name().to_string_lossy().into_owned());
        }
    }
    names.sort();
    Ok(names)
}

impl Example {
    /// Copies the example of this name and moves its ports.
    ///
    /// # Errors
    /// When it is not there or its README is not in the form that examples/README.md describes.
    pub fn copy(name: &str) -> anyhow::Result<Self> {
        let source = directory().join(name);
        let dir = Dir::copy_of(&source)?;
        let readme = std::fs::read_to_string(source.join("README.md")).with_context(|| format!("{name}/README.md"))?;
        let mut backends = Vec::new();
        let mut moved = BTreeMap::new();
        for line in block(&readme, "backends") {
            let (backend, address) = line.split_once(' ').with_context(|| format!("{line:?}"))?;
            let before: SocketAddr = address.parse().with_context(|| format!("{line:?}"))?;
            let after = ports::free_on(before.ip())?;
            moved.insert(before.port(), after);
            backends.push((backend.to_owned(), SocketAddr::new(before.ip(), after)));
        }
        for entry in std::fs::read_dir(dir.path())? {
            let path = entry?.path();
            let text = std::fs::read_to_string(&path)?;
            let text = moved.iter().fold(text, |text, (before, after)| {
                let line = |key: &str, port: u16| format!("{key}: {port}\n");
                text.replace(&line("port", *before), &line("port", *after))
                    .replace(&line("targetPort", *before), &line("targetPort", *after))
            });
            std::fs::write(&path, text)?;
        }
        let requests: Vec<Promise> = block(&readme, "requests").map(Promise::parse).collect::<anyhow::Result<_>>()?;
        let listeners: Vec<u16> = requests.iter().filter_map(Promise::port).collect();
        Ok(Self { name: name.to_owned(), dir, port_offset: free_offset(&listeners)?, requests, backends })
    }

    /// Starts its backends.
    ///
    /// # Errors
    /// When one of their ports has been taken meanwhile.
    pub async fn backends(&self) -> anyhow::Result<Vec<Echo>> {
        let mut running = Vec::new();
        for (name, address) in &self.backends {
            running.push(Echo::start(EchoOptions { listen: *address, ..EchoOptions::named(name) }).await?);
        }
        Ok(running)
    }
}

impl Promise {
    fn parse(line: &str) -> anyhow::Result<Self> {
        let (request, answer) = line.split_once(" -> ").with_context(|| format!("no -> in {line:?}"))?;
        let mut headers = Vec::new();
        let mut parts = request.split(" -H ");
        let (method, url) =
            parts.next().and_then(|first| first.split_once(' ')).with_context(|| format!("{line:?}"))?;
        for header in parts {
            let (name, value) = header.trim_matches('\'').split_once(": ").with_context(|| format!("{line:?}"))?;
            headers.push((name.to_owned(), value.to_owned()));
        }
        let (rest, route) = match answer.split_once(" by ") {
            Some((rest, route)) => (rest, Some(route.to_owned())),
            None => (answer, None),
        };
        let (rest, location) = match rest.split_once(" to ") {
            Some((rest, location)) => (rest, Some(location.to_owned())),
            None => (rest, None),
        };
        let (status, backends) = match rest.split_once(" from ") {
            Some((status, backends)) => (status, backends.split(" or ").map(ToOwned::to_owned).collect()),
            None => (rest, Vec::new()),
        };
        Ok(Self {
            line: line.to_owned(),
            method: method.to_owned(),
            url: url.to_owned(),
            headers,
            status: status.parse().with_context(|| format!("{line:?}"))?,
            backends,
            location,
            route,
        })
    }

    /// Sends the request to a Gateway at `address`, whose ports are moved by `offset`.
    ///
    /// # Errors
    /// When no answer comes.
    pub async fn send(&self, address: IpAddr, offset: u16) -> anyhow::Result<Exchange> {
        let uri: http::Uri = self.url.parse()?;
        let (host, port) = (uri.host().unwrap_or_default(), uri.port_u16().unwrap_or(80) + offset);
        let grpc = self.method == "GRPC";
        let socket = SocketAddr::new(address, port);
        let mut endpoint = if grpc { Endpoint::http2(socket) } else { Endpoint::http1(socket) };
        if uri.scheme_str() == Some("https") {
            let alpn = if endpoint.protocol == Protocol::Http2 { "h2" } else { "http/1.1" };
            endpoint = endpoint.tls(certs::trust_anything(&[alpn])?, host)?;
        }
        let path = uri.path_and_query().map_or("/", |path| path.as_str());
        let scheme = uri.scheme_str().unwrap_or("http");
        let mut request = Request::builder()
            .method(if grpc { "POST" } else { self.method.as_str() })
            .uri(format!("{scheme}://{host}:{port}{path}"));
        if grpc {
            request = request.header("content-type", "application/grpc").header("te", "trailers");
        }
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        // A gRPC message without content: not compressed, of length 0.
        let body = if grpc { Bytes::from_static(&[0; 5]) } else { Bytes::new() };
        Ok(send(&endpoint, request.body(body)?).await?)
    }

    /// What is wrong with an answer.
    pub fn judge(&self, answer: &Exchange, offset: u16) -> Option<String> {
        let status = answer.status.as_u16();
        if status != self.status {
            return Some(format!("status {status} instead of {}", self.status));
        }
        let backend = answer.header(IDENTITY);
        let expected = if self.backends.is_empty() {
            backend.is_none()
        } else {
            backend.is_some_and(|one| self.backends.iter().any(|other| other == one))
        };
        if !expected {
            return Some(format!("answered by {} instead of {:?}", backend.unwrap_or("no backend"), self.backends));
        }
        if self.method == "GRPC" {
            let status = answer.trailers.as_ref().and_then(|trailers| trailers.get("grpc-status"));
            if status.is_none_or(|status| status != "0") {
                return Some(format!("gRPC status {status:?}"));
            }
        }
        let location = answer.header("location");
        // Where the redirect says no port, it is that of the listener, which is moved; where it does, it is as written.
        let moved = self.location.as_ref().and_then(|location| {
            let uri: http::Uri = location.parse().ok()?;
            let port = uri.port_u16()?;
            Some(location.replace(&format!(":{port}/"), &format!(":{}/", port + offset)))
        });
        (location != self.location.as_deref() && location != moved.as_deref())
            .then(|| format!("location {location:?} instead of {:?}", self.location))
    }

    /// The port of its URL.
    pub fn port(&self) -> Option<u16> {
        self.url.parse::<http::Uri>().ok()?.port_u16()
    }
}

/// The lines of a fenced block.
fn block<'a>(text: &'a str, name: &str) -> impl Iterator<Item = &'a str> {
    let fence = format!("```{name}");
    let mut lines = text.lines();
    lines.find(|line| *line == fence);
    lines.take_while(|line| *line != "```").filter(|line| !line.is_empty())
}

/// A number to add to every port so that all are free.
fn free_offset(listeners: &[u16]) -> anyhow::Result<u16> {
    for _ in 0..100 {
        let Some(first) = listeners.iter().min() else { return Ok(0) };
        let offset = ports::free()?.saturating_sub(*first);
        let free = |port: &u16| {
            port.checked_add(offset).is_some_and(|port| std::net::TcpListener::bind(("0.0.0.0", port)).is_ok())
        };
        if listeners.iter().all(free) {
            return Ok(offset);
        }
    }
    anyhow::bail!("no offset makes the ports {listeners:?} free")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_request_and_answer() {
        let promise =
            Promise::parse("GET http://a:8080/x -H 'a: b' -H 'c: d' -> 200 from one or two by HTTPRoute n/r").unwrap();
        assert_eq!(promise.headers, [("a".into(), "b".into()), ("c".into(), "d".into())]);
        assert_eq!((promise.status, promise.backends), (200, vec!["one".into(), "two".into()]));
        assert_eq!(promise.route.as_deref(), Some("HTTPRoute n/r"));
        let promise = Promise::parse("GET http://a:8080/x -> 301 to http://b/y by HTTPRoute n/r").unwrap();
        assert_eq!((promise.status, promise.location.as_deref()), (301, Some("http://b/y")));
        let promise = Promise::parse("GET http://a:8080/x -> 404").unwrap();
        assert_eq!((promise.status, promise.port(), promise.route), (404, Some(8080), None));
        assert!(Promise::parse("GET http://a:8080/x").is_err());
    }

    #[test]
    fn every_example_has_backends_and_requests() {
        let names = names().unwrap();
        assert!(names.len() >= 4, "{names:?}");
        for name in names {
            let example = Example::copy(&name).unwrap();
            assert!(!example.backends.is_empty() && !example.requests.is_empty(), "{name}");
            let all: String = std::fs::read_dir(example.dir.path())
                .unwrap()
                .map(|entry| std::fs::read_to_string(entry.unwrap().path()).unwrap())
                .collect();
            for (backend, address) in &example.backends {
                assert!(all.contains(&format!("ort: {}\n", address.port())), "{name}: {backend} was moved nowhere");
            }
        }
    }
}
