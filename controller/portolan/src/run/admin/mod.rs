//! The admin endpoint: readiness, metrics, objects, configuration. Without TLS and credentials, on loopback unless told otherwise.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::Sender;

use axum::Router;
use axum::extract::{Path, RawQuery, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use portolan_model::{Kind, NamespacedName, ObjectKey};
use portolan_proto::Resource;
use portolan_proto::json::Secrets;
use prometheus_client::registry::Registry;
use serde_json::{Map, Value};
use tokio::net::TcpListener;
use tokio::sync::{Mutex, oneshot};

use super::pilot::{Message, Pilot};
use crate::command::translate;
use crate::door;
use crate::failure::Failure;
use crate::load::gateway_name;

#[derive(Clone)]
struct Admin {
    pilot: Sender<Message>,
    registry: Arc<Registry>,
    /// One large answer is made at a time: each takes a processor and several times its own size
    rendering: Arc<Mutex<()>>,
}

/// Takes the port.
pub async fn bind(address: SocketAddr) -> Result<TcpListener, Failure> {
    TcpListener::bind(address).await.map_err(|error| {
        Failure::Environment(format!("the admin endpoint cannot listen on {address}: {error}; choose another with --admin ADDRESS:PORT, or --no-admin"))
    })
}

/// Answers until the program ends.
pub async fn serve(listener: TcpListener, pilot: Sender<Message>, registry: Arc<Registry>) {
    let Ok(bound) = listener.local_addr() else {
        tracing::error!("the admin endpoint has no address");
        return;
    };
    let router = Router::new()
        .route("/healthz", get(async || "ok\n"))
        .route("/readyz", get(readyz))
        .route("/metrics", get(metrics))
        .route("/objects", get(objects))
        .route("/objects/{kind}/{name}", get(cluster_object))
        .route("/objects/{kind}/{namespace}/{name}", get(object))
        .route("/config_dump", get(config_dump))
        .with_state(Admin { pilot, registry, rendering: Arc::default() });
    door::serve(listener, door::guarded(router, bound), door::PATIENCE).await;
}

impl Admin {
    /// Asks the pilot. Changes wait meanwhile: a question copies what it is about, and is answered elsewhere.
    async fn ask<T: Send + 'static>(&self, question: impl FnOnce(&Pilot) -> T + Send + 'static) -> Result<T, Response> {
        let (sender, answer) = oneshot::channel();
        let query = Message::Query(Box::new(move |pilot| {
            // Whoever asked may have gone.
            let _gone = sender.send(question(pilot));
        }));
        self.pilot.send(query).map_err(|_| ending())?;
        answer.await.map_err(|_| ending())
    }

    /// Makes a large answer, beside the threads that serve.
    async fn render(&self, answer: impl FnOnce() -> Response + Send + 'static) -> Response {
        let _turn = self.rendering.lock().await;
        tokio::task::spawn_blocking(answer).await.unwrap_or_else(|_| ending())
    }
}

fn ending() -> Response {
    (StatusCode::SERVICE_UNAVAILABLE, "portolan is ending\n").into_response()
}

async fn readyz(State(admin): State<Admin>, RawQuery(query): RawQuery) -> Result<Response, Response> {
    let (all, missing) = admin
        .ask(|pilot| {
            let all: Vec<NamespacedName> = pilot.plane().engine().fleets().cloned().collect();
            (all, pilot.unprogrammed().cloned().collect::<Vec<_>>())
        })
        .await?;
    let verbose =
        query.is_some_and(|query| query.split('&').any(|field| field == "verbose" || field.starts_with("verbose=")));
    let line = |gateway: &NamespacedName| {
        let sign = if missing.contains(gateway) { "[-]" } else { "[+]" };
        format!("{sign} Gateway {gateway}\n")
    };
    let told = all.iter().filter(|gateway| verbose || missing.contains(gateway));
    let text = told.map(line).collect::<Vec<_>>().concat();
    let (status, verdict) =
        if missing.is_empty() { (StatusCode::OK, "ready\n") } else { (StatusCode::SERVICE_UNAVAILABLE, "not ready\n") };
    Ok((status, text + verdict).into_response())
}

async fn metrics(State(admin): State<Admin>) -> Response {
    let mut text = String::new();
    match prometheus_client::encoding::text::encode(&mut text, &admin.registry) {
        Ok(()) => ([(header::CONTENT_TYPE, "application/openmetrics-text; version=1.0.0; charset=utf-8")], text)
            .into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}

async fn objects(State(admin): State<Admin>) -> Result<Response, Response> {
    let ledger = admin.ask(|pilot| pilot.plane().ledger().clone()).await?;
    Ok(admin.render(move || json(&Value::Array(ledger.show_all().map(|(_, object)| object).collect()))).await)
}

async fn cluster_object(
    State(admin): State<Admin>,
    Path((kind, name)): Path<(String, String)>,
) -> Result<Response, Response> {
    show(&admin, &kind, NamespacedName::new("", name)).await
}

async fn object(
    State(admin): State<Admin>,
    Path((kind, namespace, name)): Path<(String, String, String)>,
) -> Result<Response, Response> {
    show(&admin, &kind, NamespacedName::new(namespace, name)).await
}

async fn show(admin: &Admin, kind: &str, name: NamespacedName) -> Result<Response, Response> {
    let not_found = || (StatusCode::NOT_FOUND, format!("no {kind} {name} is in force\n")).into_response();
    let known = Kind::ALL.into_iter().find(|known| known.as_str().eq_ignore_ascii_case(kind)).ok_or_else(not_found)?;
    let key = ObjectKey::new(known, name.clone());
    admin.ask(move |pilot| pilot.plane().ledger().show(&key)).await?.map(|value| json(&value)).ok_or_else(not_found)
}

/// All resources of one Gateway, or of all, private keys redacted.
async fn config_dump(State(admin): State<Admin>, RawQuery(query): RawQuery) -> Result<Response, Response> {
    let query = query.unwrap_or_default();
    let only = query.split('&').find_map(|field| field.strip_prefix("gateway="));
    let only = only.map(|name| gateway_name(&name.replace("%2F", "/").replace("%2f", "/"))).transpose();
    let only = only.map_err(|failure| failed(StatusCode::BAD_REQUEST, &failure))?;
    let wanted = only.clone();
    let (gateways, others) = admin
        .ask(move |pilot| {
            let engine = pilot.plane().engine();
            let is_wanted = |gateway: &NamespacedName| wanted.as_ref().is_none_or(|wanted| wanted == gateway);
            let (chosen, others): (Vec<_>, Vec<_>) = engine.fleets().cloned().partition(is_wanted);
            let resources = |gateway: NamespacedName| {
                let snapshot = engine.snapshot(&gateway)?;
                let resources: Vec<Arc<Resource>> = snapshot.iter().cloned().collect();
                Some((gateway, resources))
            };
            (chosen.into_iter().filter_map(resources).collect::<Vec<_>>(), others)
        })
        .await?;
    if let (Some(only), []) = (only, gateways.as_slice()) {
        return Err((StatusCode::NOT_FOUND, unknown_gateway(&only, &others)).into_response());
    }
    Ok(admin.render(move || dump(&gateways)).await)
}

fn unknown_gateway(name: &NamespacedName, others: &[NamespacedName]) -> String {
    let others: Vec<String> = others.iter().map(ToString::to_string).collect();
    let others = if others.is_empty() { "there is none".into() } else { format!("there are: {}", others.join(", ")) };
    format!("Portolan has no Gateway {name} in force; {others}\n")
}

fn dump(gateways: &[(NamespacedName, Vec<Arc<Resource>>)]) -> Response {
    let mut all = Map::new();
    for (gateway, resources) in gateways {
        match translate::resources(resources.iter(), Secrets::Redact) {
            Ok(value) => _ = all.insert(gateway.to_string(), value),
            Err(failure) => return failed(StatusCode::INTERNAL_SERVER_ERROR, &failure),
        }
    }
    json(&Value::Object(all))
}

fn failed(status: StatusCode, failure: &Failure) -> Response {
    (status, format!("{failure}\n")).into_response()
}

fn json(value: &Value) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], format!("{value:#}\n")).into_response()
}
