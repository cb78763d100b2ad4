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
use portolan_proto::json::Secrets;
use prometheus_client::registry::Registry;
use serde_json::{Map, Value};
use tokio::net::TcpListener;
use tokio::sync::oneshot;

use super::pilot::{Message, Pilot};
use crate::command::translate;
use crate::failure::Failure;
use crate::load::gateway_name;

#[derive(Clone)]
struct Admin {
    pilot: Sender<Message>,
    registry: Arc<Registry>,
}

/// Takes the port.
pub async fn bind(address: SocketAddr) -> Result<TcpListener, Failure> {
    TcpListener::bind(address).await.map_err(|error| {
        Failure::Environment(format!("the admin endpoint cannot listen on {address}: {error}; choose another with --admin ADDRESS:PORT, or --no-admin"))
    })
}

/// Answers until the program ends.
pub async fn serve(listener: TcpListener, pilot: Sender<Message>, registry: Arc<Registry>) {
    let router = Router::new()
        .route("/healthz", get(async || "ok\n"))
        .route("/readyz", get(readyz))
        .route("/metrics", get(metrics))
        .route("/objects", get(objects))
        .route("/objects/{kind}/{name}", get(cluster_object))
        .route("/objects/{kind}/{namespace}/{name}", get(object))
        .route("/config_dump", get(config_dump))
        .with_state(Admin { pilot, registry });
    if let Err(error) = axum::serve(listener, router).await {
        tracing::error!(%error, "the admin endpoint has ended");
    }
}

impl Admin {
    /// Asks the pilot.
    async fn ask<T: Send + 'static>(&self, question: impl FnOnce(&Pilot) -> T + Send + 'static) -> Result<T, Response> {
        let (sender, answer) = oneshot::channel();
        let query = Message::Query(Box::new(move |pilot| {
            // Whoever asked may have gone.
            let _gone = sender.send(question(pilot));
        }));
        let ending = || (StatusCode::SERVICE_UNAVAILABLE, "portolan is ending\n").into_response();
        self.pilot.send(query).map_err(|_| ending())?;
        answer.await.map_err(|_| ending())
    }
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
    let objects = admin.ask(|pilot| pilot.plane().ledger().show_all().collect::<Vec<_>>()).await?;
    Ok(json(&Value::Array(objects)))
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
    let bad = |failure: Failure| (StatusCode::BAD_REQUEST, format!("{failure}\n")).into_response();
    let query = query.unwrap_or_default();
    let only = query.split('&').find_map(|field| field.strip_prefix("gateway=")).map(|name| name.replace("%2F", "/"));
    let only = only.map(|name| gateway_name(&name)).transpose().map_err(bad)?;
    let dump = admin
        .ask(move |pilot| {
            let engine = pilot.plane().engine();
            let mut all = Map::new();
            for gateway in engine.fleets().filter(|gateway| only.as_ref().is_none_or(|only| only == *gateway)) {
                if let Some(snapshot) = engine.snapshot(gateway) {
                    all.insert(gateway.to_string(), translate::resources(snapshot, Secrets::Redact)?);
                }
            }
            Ok::<_, Failure>(Value::Object(all))
        })
        .await?;
    dump.map(|value| json(&value)).map_err(bad)
}

fn json(value: &Value) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], format!("{value:#}\n")).into_response()
}
