//! A server with one fleet on a Unix socket, and an Envoy on it.

use std::collections::BTreeMap;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use portolan_proto::{Change, Resource, ResourceKey};
use portolan_testkit::client::{Address, Endpoint, get};
use portolan_testkit::envoy::{Envoy, EnvoyOptions};
use portolan_xds::{FleetName, Options, Server, Transition};
use prometheus_client::registry::Registry;
use serde_json::json;
use tokio::net::UnixListener;
use tokio::sync::{mpsc, oneshot};
use tokio_stream::wrappers::UnixListenerStream;
use tonic::transport::server::UdsConnectInfo;

/// Longer than anything here may take, shorter than Envoy's 15 s of waiting for what does not come.
pub const SOON: Duration = Duration::from_secs(8);

pub struct Stage {
    directory: tempfile::TempDir,
    world: BTreeMap<ResourceKey, Arc<Resource>>,
    pub served: Served,
    pub envoy: Envoy,
}

/// A server while it runs.
pub struct Served {
    server: Server,
    registry: Registry,
    transitions: mpsc::UnboundedReceiver<Transition>,
    stop: Option<oneshot::Sender<()>>,
    task: tokio::task::JoinHandle<()>,
}

fn fleet() -> FleetName {
    FleetName::new("default/gateway")
}

impl Served {
    fn start(socket: &std::path::Path, world: &BTreeMap<ResourceKey, Arc<Resource>>, is_cut_off: bool) -> Result<Self> {
        _ = std::fs::remove_file(socket);
        let mut registry = Registry::default();
        let (server, transitions) = Server::new(Options::default(), &mut registry);
        server.set_cut_off(is_cut_off);
        server.publish(&fleet(), world.values().map(set).collect());
        server.open();
        let incoming = UnixListenerStream::new(UnixListener::bind(socket)?);
        let (stop, stopped) = oneshot::channel();
        let serving = server.clone();
        let task = tokio::spawn(async move {
            let identify = |_: &UdsConnectInfo| Some(fleet());
            serving.serve(incoming, identify, async { _ = stopped.await }).await.unwrap();
        });
        Ok(Self { server, registry, transitions, stop: Some(stop), task })
    }

    /// Whether the server knows what is going on.
    pub fn set_cut_off(&self, is_cut_off: bool) {
        self.server.set_cut_off(is_cut_off);
    }

    /// A number of the server's metrics, 0 when it is not there.
    pub fn metric(&self, name: &str, kind: &str) -> u64 {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.registry).unwrap();
        let line = format!("portolan_xds_{name}{{fleet=\"{}\",type=\"{kind}\"}} ", fleet());
        text.lines().find_map(|text| text.strip_prefix(&line)).map_or(0, |number| number.parse().unwrap())
    }

    /// Waits for a transition.
    pub async fn transition(&mut self, is_it: impl Fn(&Transition) -> bool) -> Result<Transition> {
        let search = async {
            loop {
                let transition = self.transitions.recv().await.context("the server is gone")?;
                if is_it(&transition) {
                    return Ok(transition);
                }
            }
        };
        tokio::time::timeout(SOON, search).await.context("no such transition")?
    }
}

pub fn set(resource: &Arc<Resource>) -> Change {
    Change { key: resource.key.clone(), resource: Some(Arc::clone(resource)) }
}

impl Stage {
    /// Serves these resources and starts an Envoy. Waits until it is ready.
    pub async fn new(world: Vec<Arc<Resource>>) -> Result<Self> {
        let directory = tempfile::tempdir()?;
        let world = world.into_iter().map(|resource| (resource.key.clone(), resource)).collect();
        let served = Served::start(&directory.path().join("xds.sock"), &world, false)?;
        let envoy = start_envoy(directory.path()).await?;
        Ok(Self { directory, world, served, envoy })
    }

    /// Ends the Envoy and starts another.
    pub async fn restart_envoy(&mut self) -> Result<()> {
        self.envoy.process.kill()?;
        self.envoy = start_envoy(self.directory.path()).await?;
        Ok(())
    }

    /// Puts resources in force.
    pub fn set(&mut self, resources: &[Arc<Resource>]) {
        self.publish(resources.iter().map(set).collect());
    }

    pub fn publish(&mut self, changes: Vec<Change>) {
        for Change { key, resource } in &changes {
            match resource {
                Some(resource) => self.world.insert(key.clone(), Arc::clone(resource)),
                None => self.world.remove(key),
            };
        }
        self.served.server.publish(&fleet(), changes);
    }

    /// Ends the server and starts another with the same world and no memory.
    pub async fn restart_server(&mut self) -> Result<()> {
        self.restart(false).await
    }

    /// Ends the server and starts one that knows another world.
    pub async fn replace_server(&mut self, world: Vec<Arc<Resource>>, is_cut_off: bool) -> Result<()> {
        self.world = world.into_iter().map(|resource| (resource.key.clone(), resource)).collect();
        self.restart(is_cut_off).await
    }

    async fn restart(&mut self, is_cut_off: bool) -> Result<()> {
        if let Some(stop) = self.served.stop.take() {
            _ = stop.send(());
        }
        // Streams do not end by themselves: removing the fleet ends them, as the death of the process would.
        self.served.server.remove_fleet(&fleet());
        tokio::time::timeout(SOON, &mut self.served.task).await.context("the server does not stop")??;
        self.served = Served::start(&self.directory.path().join("xds.sock"), &self.world, is_cut_off)?;
        self.served.transition(|transition| matches!(transition, Transition::StreamOpened { .. })).await?;
        Ok(())
    }

    /// Waits until Envoy answers `host` and `path` with this status and, where given, backend.
    pub async fn answers(&self, at: SocketAddr, url: &str, status: u16, backend: Option<&str>) -> Result<Duration> {
        until(|| async {
            let exchange = get(&Endpoint::http1(at), url).await?;
            ensure!(exchange.status == status, "{url}: {}", exchange.status);
            let service = exchange.header(portolan_testkit::echo::IDENTITY);
            ensure!(backend.is_none() || service == backend, "{url}: from {service:?}");
            Ok(())
        })
        .await
    }

    /// Waits until a statistic of Envoy's has this value.
    pub async fn stat(&self, name: &str, value: u64) -> Result<Duration> {
        until(|| async {
            let is = self.envoy.stat(name).await?;
            ensure!(is == Some(value), "{name} is {is:?}, not {value}");
            Ok(())
        })
        .await
    }
}

/// Tries until it succeeds; how long that took.
pub async fn until<F: Future<Output = Result<()>>>(attempt: impl Fn() -> F) -> Result<Duration> {
    let start = Instant::now();
    loop {
        match attempt().await {
            Ok(()) => return Ok(start.elapsed()),
            Err(error) if start.elapsed() > SOON => return Err(error.context("still so after waiting")),
            Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
        }
    }
}

async fn start_envoy(directory: &std::path::Path) -> Result<Envoy> {
    let admin = directory.join("admin.sock");
    let bootstrap = bootstrap(&directory.join("xds.sock"), &admin);
    let mut envoy = Envoy::start(&EnvoyOptions::new(bootstrap.to_string(), Address::from(admin.as_path())))?;
    envoy.ready(SOON).await?;
    Ok(envoy)
}

fn bootstrap(xds: &std::path::Path, admin: &std::path::Path) -> serde_json::Value {
    let ads = json!({"ads": {}, "resource_api_version": "V3"});
    let http2 = json!({"envoy.extensions.upstreams.http.v3.HttpProtocolOptions": {
        "@type": "type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions",
        "explicit_http_config": {"http2_protocol_options": {}}
    }});
    let back_off = json!({"retry_back_off": {"base_interval": "0.05s", "max_interval": "0.2s"}});
    json!({
        "node": {"id": "not trusted", "cluster": "not trusted"},
        "admin": {"address": {"pipe": {"path": admin}}},
        "bootstrap_extensions": [{"name": "envoy.bootstrap.internal_listener", "typed_config": {
            "@type": "type.googleapis.com/envoy.extensions.bootstrap.internal_listener.v3.InternalListener"
        }}],
        "dynamic_resources": {
            "ads_config": {
                "api_type": "DELTA_GRPC",
                "transport_api_version": "V3",
                "grpc_services": [{"envoy_grpc": {"cluster_name": "xds", "retry_policy": back_off}}]
            },
            "cds_config": ads,
            "lds_config": ads
        },
        "static_resources": {
            "clusters": [{
                "name": "xds",
                "type": "STATIC",
                "connect_timeout": "1s",
                "typed_extension_protocol_options": http2,
                "load_assignment": {"cluster_name": "xds", "endpoints": [{"lb_endpoints": [
                    {"endpoint": {"address": {"pipe": {"path": xds}}}}
                ]}]}
            }],
            "listeners": [{
                "name": "portolan/probe",
                "internal_listener": {},
                "filter_chains": [{"filters": [crate::resources::manager("probe", portolan_proto::PROBE_TABLE)]}]
            }]
        }
    })
}
