//! The sockets and Envoys of all Gateways.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;

use portolan_fleet::Fleet;
use portolan_model::NamespacedName;
use portolan_standalone::envoy::{
    EnvoyFiles, EnvoyState, Report, Runtime, RuntimeError, Start, Supervisor, SupervisorOptions,
};
use portolan_translate::{BootstrapOptions, XdsServer};
use portolan_xds::Server;
use tokio::net::UnixListener;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::task::JoinHandle;
use tokio_stream::wrappers::UnixListenerStream;

use super::narrator::Narrator;
use super::pilot::fleet_name;
use super::signals::Signals;
use crate::command::bootstrap;
use crate::failure::Failure;

/// What is to be done about a Gateway's Envoy.
#[derive(Debug)]
pub enum Order {
    /// Have one running; these are the addresses of its listeners (none: all)
    Run { gateway: NamespacedName, addresses: Vec<IpAddr> },
    /// Drain and end it
    Remove(NamespacedName),
}

/// The Envoys and the sockets on which they are served.
pub struct Fleets {
    runtime: Runtime,
    server: Server,
    supervisor: Supervisor,
    reports: UnboundedReceiver<(NamespacedName, Report)>,
    /// Envoys of earlier processes that nobody has asked for yet
    running: BTreeMap<NamespacedName, EnvoyState>,
    /// How many Envoys of each Gateway, one that drains and the one that waits for its end, have not been reported as stopped
    unstopped: BTreeMap<NamespacedName, usize>,
    sockets: BTreeMap<NamespacedName, Socket>,
    narrator: Narrator,
}

/// A socket on which a fleet is served, until dropped.
struct Socket {
    path: PathBuf,
    task: JoinHandle<()>,
}

impl Drop for Socket {
    fn drop(&mut self) {
        self.task.abort();
        // A file that stays is in nobody's way: it is removed before the next socket is made.
        let _stays = std::fs::remove_file(&self.path);
    }
}

impl Fleets {
    /// `running`: Envoys of earlier processes.
    pub fn new(
        runtime: Runtime,
        options: SupervisorOptions,
        server: Server,
        running: BTreeMap<NamespacedName, EnvoyState>,
        narrator: Narrator,
    ) -> Self {
        let (sender, reports) = unbounded_channel();
        let supervisor = Supervisor::new(options, sender);
        let (unstopped, sockets) = (BTreeMap::new(), BTreeMap::new());
        Self { runtime, server, supervisor, reports, running, unstopped, sockets, narrator }
    }

    /// Does what the pilot wants.
    pub fn carry_out(&mut self, order: Order) -> Result<(), Failure> {
        match order {
            Order::Run { gateway, addresses } if self.supervisor.has(&gateway) => {
                self.supervisor.set_addresses(&gateway, addresses);
                Ok(())
            }
            Order::Run { gateway, addresses } => self.run(&gateway, addresses),
            Order::Remove(gateway) => {
                self.supervisor.stop(&gateway);
                self.sockets.remove(&gateway);
                // One that never ran is never reported as stopped.
                if !self.unstopped.contains_key(&gateway) {
                    told(self.narrator, self.runtime.remove(&gateway));
                }
                Ok(())
            }
        }
    }

    fn run(&mut self, gateway: &NamespacedName, addresses: Vec<IpAddr>) -> Result<(), Failure> {
        let files = self.runtime.files(gateway).map_err(Failure::environment)?;
        let bootstrap = bootstrap::render(&options(gateway, &files))?;
        self.listen(gateway, &files)?;
        let running = self.running.remove(gateway);
        let start = Start { files, bootstrap: bootstrap.to_string().into_bytes(), addresses, running };
        self.supervisor.run(gateway, start);
        *self.unstopped.entry(gateway.clone()).or_default() += 1;
        Ok(())
    }

    /// Serves xDS on the Gateway's own socket: whoever can connect to it is of its fleet.
    fn listen(&mut self, gateway: &NamespacedName, files: &EnvoyFiles) -> Result<(), Failure> {
        // The one before has the same path.
        self.sockets.remove(gateway);
        let path = files.xds_socket();
        let failed = |error| Failure::Environment(format!("{}: {error}", path.display()));
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(failed(error)),
            _ => {}
        }
        let incoming = UnixListenerStream::new(UnixListener::bind(&path).map_err(failed)?);
        let (server, fleet, narrator) = (self.server.clone(), fleet_name(gateway), self.narrator);
        let task = tokio::spawn(async move {
            let served = server.serve(incoming, move |_| Some(fleet.clone()), std::future::pending()).await;
            if let Err(error) = served {
                narrator.trouble(&format!("xDS is no longer served: {error}"));
            }
        });
        self.sockets.insert(gateway.clone(), Socket { path, task });
        Ok(())
    }

    /// Ends Envoys of earlier processes whose Gateway is gone, and removes what they left.
    pub fn end_orphans(&mut self) {
        let running = std::mem::take(&mut self.running);
        let orphans: Vec<NamespacedName> = running.keys().cloned().collect();
        for (gateway, state) in running {
            let Ok(files) = self.runtime.files(&gateway) else { continue };
            let start = Start { files, bootstrap: Vec::new(), addresses: Vec::new(), running: Some(state) };
            self.supervisor.end(&gateway, start);
            *self.unstopped.entry(gateway).or_default() += 1;
        }
        told(self.narrator, self.runtime.remove_others(self.unstopped.keys().chain(&orphans)));
    }

    /// What happens to Envoys.
    pub async fn next_report(&mut self) -> Option<(NamespacedName, Report)> {
        let (gateway, report) = self.reports.recv().await?;
        if report == Report::Stopped && self.was_last(&gateway) && !self.supervisor.has(&gateway) {
            told(self.narrator, self.runtime.remove(&gateway));
        }
        Some((gateway, report))
    }

    /// Counts one Envoy less. True: there is none left, and none that waits to be started.
    fn was_last(&mut self, gateway: &NamespacedName) -> bool {
        let Some(count) = self.unstopped.get_mut(gateway) else { return false };
        *count -= 1;
        let last = *count == 0;
        if last {
            self.unstopped.remove(gateway);
        }
        last
    }

    /// Drains and ends all Envoys; at once when another signal comes.
    pub async fn shut_down(self, mut signals: Signals) {
        // The sockets stay to the end: a proxy that drains may still be told something.
        let Self { runtime, supervisor, mut reports, narrator, unstopped, sockets: _sockets, .. } = self;
        let gone: Vec<NamespacedName> = unstopped.into_keys().filter(|gateway| !supervisor.has(gateway)).collect();
        let relay = tokio::spawn(async move {
            while let Some((gateway, report)) = reports.recv().await {
                narrator.envoy(&gateway, &report);
            }
        });
        let hurry = async {
            signals.next().await;
        };
        supervisor.shut_down(hurry).await;
        // All senders are gone with the supervisor.
        let _panicked = relay.await;
        for gateway in gone {
            told(narrator, runtime.remove(&gateway));
        }
    }
}

/// What is left behind harms nobody, but somebody has to know.
fn told(narrator: Narrator, removed: Result<(), RuntimeError>) {
    if let Err(error) = removed {
        narrator.trouble(&error.to_string());
    }
}

fn options(gateway: &NamespacedName, files: &EnvoyFiles) -> BootstrapOptions {
    let xds = XdsServer::Unix { path: files.xds_socket().display().to_string() };
    Fleet::of(gateway.clone()).bootstrap_options(xds, files.admin_socket().display().to_string())
}
