//! One request, one answer.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONNECTION, CONTENT_TYPE, HOST, HeaderName, HeaderValue, UPGRADE};
use http::request::Parts;
use http::{HeaderMap, Request, Response, StatusCode, Version};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use tokio::sync::watch;

use super::answer::{Answer, Tls, body_hash, headers};
use super::{IDENTITY, Phase, Shared, grpc, websocket};

pub(super) type Body = UnsyncBoxBody<Bytes, std::convert::Infallible>;

/// The connection on which a request arrived.
pub(super) struct Arrival {
    pub(super) port: u16,
    pub(super) tls: Option<Tls>,
    pub(super) told: watch::Receiver<Phase>,
    pub(super) shared: Arc<Shared>,
}

/// # Errors
/// An error cuts the connection, which is what `/break` and a broken request body ask for.
pub(super) async fn respond(arrival: Arc<Arrival>, request: Request<Incoming>) -> anyhow::Result<Response<Body>> {
    arrival.shared.requests.fetch_add(1, Ordering::Relaxed);
    let name = HeaderValue::from_str(&arrival.shared.options.name)?;
    let mut response = if is(request.headers(), UPGRADE, "websocket") {
        websocket::accept(request, arrival.told.clone())
    } else if request.headers().get(CONTENT_TYPE).is_some_and(|value| value.as_bytes().starts_with(b"application/grpc"))
    {
        grpc::respond(&arrival, request).await?
    } else {
        echo(&arrival, request).await?
    };
    response.headers_mut().insert(IDENTITY, name);
    Ok(response)
}

async fn echo(arrival: &Arrival, request: Request<Incoming>) -> anyhow::Result<Response<Body>> {
    let (parts, body) = request.into_parts();
    let body = body.collect().await?.to_bytes();
    anyhow::ensure!(parts.uri.path() != "/break", "asked to break");
    if let Some(delay) = delay(&parts) {
        tokio::time::sleep(delay).await;
    }

    let mut answer = answer(arrival, &parts, &body);
    if let Some(alter) = arrival.shared.options.alter {
        alter(&mut answer);
    }
    let json = serde_json::to_vec_pretty(&answer)?;
    let mut response = Response::new(Full::new(Bytes::from(json)).boxed_unsync());
    *response.status_mut() = status(parts.uri.path());
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    set_headers(&parts.headers, response.headers_mut());
    // A header of the connection alone; HTTP/2 forbids it.
    if parts.uri.path() == "/close" && parts.version < Version::HTTP_2 {
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    Ok(response)
}

pub(super) fn answer(arrival: &Arrival, parts: &Parts, body: &[u8]) -> Answer {
    let options = &arrival.shared.options;
    Answer {
        path: parts.uri.path_and_query().map(ToString::to_string).unwrap_or_default(),
        host: authority(parts),
        method: parts.method.to_string(),
        // As Go writes it, which the suite compares with.
        proto: if parts.version == Version::HTTP_2 { "HTTP/2.0".to_owned() } else { format!("{:?}", parts.version) },
        headers: headers(&parts.headers),
        http_port: arrival.port.to_string(),
        namespace: options.namespace.clone(),
        ingress: String::new(),
        service: options.name.clone(),
        pod: options.pod.clone(),
        tls: arrival.tls.clone(),
        body_length: body.len(),
        body_hash: body_hash(body),
    }
}

pub(super) fn authority(parts: &Parts) -> String {
    let header = || parts.headers.get(HOST).map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
    parts.uri.authority().map(ToString::to_string).or_else(header).unwrap_or_default()
}

/// `/status/NNN`; 200 for every other path.
fn status(path: &str) -> StatusCode {
    match path.strip_prefix("/status/") {
        Some(code) => code.parse().unwrap_or(StatusCode::BAD_REQUEST),
        None => StatusCode::OK,
    }
}

/// `/delay?ms=N`, or the suite's `?delay=Ns` and `?delay=Nms` on any path.
fn delay(parts: &Parts) -> Option<Duration> {
    let query = parts.uri.query()?;
    let value = |name: &str| query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='));
    let milliseconds = match value("ms") {
        Some(milliseconds) if parts.uri.path() == "/delay" => milliseconds.parse().ok()?,
        _ => match value("delay")? {
            text if text.ends_with("ms") => text.strip_suffix("ms")?.parse().ok()?,
            text => text.strip_suffix('s')?.parse::<u64>().ok()?.checked_mul(1000)?,
        },
    };
    Some(Duration::from_millis(milliseconds))
}

fn set_headers(asked: &HeaderMap, response: &mut HeaderMap) {
    for list in asked.get_all("x-echo-set-header") {
        for pair in list.to_str().unwrap_or_default().split(',') {
            let Some((name, value)) = pair.split_once(':') else { continue };
            if let (Ok(name), Ok(value)) = (HeaderName::try_from(name.trim()), HeaderValue::from_str(value.trim())) {
                response.append(name, value);
            }
        }
    }
}

fn is(headers: &HeaderMap, name: HeaderName, value: &str) -> bool {
    headers.get(name).is_some_and(|found| found.as_bytes().eq_ignore_ascii_case(value.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_in_both_spellings() {
        let of = |uri: &str| delay(&Request::get(uri).body(()).unwrap().into_parts().0);
        assert_eq!(of("/delay?ms=20"), Some(Duration::from_millis(20)));
        assert_eq!(of("/x?a=b&delay=2s"), Some(Duration::from_secs(2)));
        assert_eq!(of("/x?delay=15ms"), Some(Duration::from_millis(15)));
        assert_eq!(of("/x?ms=20"), None);
        assert_eq!(of("/x?delay=soon"), None);
    }

    #[test]
    fn statuses() {
        assert_eq!(status("/status/503"), StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(status("/status/abc"), StatusCode::BAD_REQUEST);
        assert_eq!(status("/"), StatusCode::OK);
    }
}
