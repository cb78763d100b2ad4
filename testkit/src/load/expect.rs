//! What an answer has to be.

use std::sync::Arc;

use bytes::Bytes;
use http::{Request, StatusCode};

use crate::client::{Cause, Exchange, Failure};
use crate::echo::{IDENTITY, body_hash};

/// Judges the answer to a request. What may change while load runs (the backends that are right just now) is state that it shares with the test.
pub type Expect = Arc<dyn Fn(&Request<Bytes>, &Exchange) -> Result<(), Failure> + Send + Sync>;

/// The answer of this backend, to exactly this request.
pub fn backend(name: &str) -> Expect {
    backends(&[name])
}

/// The answer of one of these backends, to exactly this request: status 200 (101 for a websocket), one of these identities, and method and body as
/// they were sent. Path, host and headers are not compared, since routes may change them.
pub fn backends(names: &[&str]) -> Expect {
    let names: Vec<String> = names.iter().map(ToString::to_string).collect();
    Arc::new(move |request, exchange| {
        if exchange.status == StatusCode::SWITCHING_PROTOCOLS {
            return known(&names, exchange.header(IDENTITY).unwrap_or_default());
        }
        if exchange.status != StatusCode::OK {
            return Err(Failure::new(
                Cause::Status,
                format!("{} for {}: {}", exchange.status, request.uri(), start(&exchange.body)),
            ));
        }
        let answer = exchange.answer().ok_or_else(|| {
            Failure::new(Cause::Body, format!("not an echo's answer for {}: {}", request.uri(), start(&exchange.body)))
        })?;
        known(&names, &answer.service)?;
        if answer.method != request.method().as_str() {
            return Err(Failure::new(Cause::Body, format!("{} arrived as {}", request.method(), answer.method)));
        }
        if answer.body_length != request.body().len() || answer.body_hash != body_hash(request.body()) {
            let detail =
                format!("a body of {} bytes arrived as another of {}", request.body().len(), answer.body_length);
            return Err(Failure::new(Cause::Body, detail));
        }
        Ok(())
    })
}

fn known(names: &[String], name: &str) -> Result<(), Failure> {
    if names.iter().any(|known| known == name) {
        return Ok(());
    }
    Err(Failure::new(Cause::Identity, format!("answered by {name:?}, not by {}", names.join(" or "))))
}

fn start(body: &[u8]) -> String {
    String::from_utf8_lossy(body.get(..200).unwrap_or(body)).into_owned()
}
