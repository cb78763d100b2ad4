//! `portolan run`: manifests in, running Envoys out.
//!
//! ```text
//! directory (thread) ─Update─▶ pilot (thread, owns all state) ─Change─▶ xds server ◀──Unix socket per Gateway──▶ Envoy
//!                                ▲        │ Order                            │
//!                 admin ──Query──┘        ▼                                  └─Transition─▶ pilot
//!                                       fleets (sockets, supervisor) ──starts, drains, ends──▶ Envoy
//! ```

mod admin;
mod fleets;
mod metrics;
mod narrator;
mod pilot;
mod signals;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant, SystemTime};

use portolan_model::NamespacedName;
use portolan_standalone::control_plane::ControlPlane;
use portolan_standalone::directory::Directory;
use portolan_standalone::envoy::{EnvoyState, Places, Runtime, SupervisorOptions};
use portolan_translate::ENVOY_ARGUMENTS;
use prometheus_client::registry::Registry;
use tokio::sync::mpsc::unbounded_channel;

use crate::cli::RunOptions;
use crate::failure::{Failure, Verdict};
use crate::shell::Shell;
use fleets::Fleets;
use metrics::Times;
use narrator::Narrator;
use pilot::{Message, Pilot};
use signals::Signals;

/// What the environment says; read once, in `main`.
#[derive(Debug, Default)]
pub struct Environment {
    /// `PATH`
    pub path: Option<std::ffi::OsString>,
    /// `XDG_CACHE_HOME`, or `.cache` in the home directory
    pub cache: Option<PathBuf>,
    /// `XDG_RUNTIME_DIR`, or a directory of the user's in the one for temporary files
    pub runtime: PathBuf,
}

const PILOT_LOST: &str =
    "the control plane broke down, a defect of Portolan; Envoys go on with what they have: start portolan again";

/// Runs until a signal asks to end.
pub fn run(options: &RunOptions, environment: Environment, shell: Shell) -> Result<Verdict, Failure> {
    let places = Places { given: options.envoy.clone(), path: environment.path, cache: environment.cache };
    let envoy = places.find().map_err(Failure::environment)?;
    let base = options.runtime_dir.clone().unwrap_or(environment.runtime);
    let runtime = Runtime::open(&base, &options.directory).map_err(Failure::environment)?;
    let narrator = Narrator::new(shell, options.output);
    narrator.starting(&options.directory, &envoy);
    let mut arguments: Vec<String> = ENVOY_ARGUMENTS.iter().map(ToString::to_string).collect();
    arguments.extend(["--log-level".into(), "warning".into()]);
    if let Some(threads) = options.envoy_concurrency {
        arguments.extend(["--concurrency".into(), threads.to_string()]);
    }
    let supervision =
        SupervisorOptions { binary: envoy.path, arguments, drain_limit: Duration::from_secs(options.drain_limit) };
    let threads = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    threads.map_err(Failure::environment)?.block_on(serve(options, runtime, supervision, narrator))?;
    Ok(Verdict::Good)
}

async fn serve(
    options: &RunOptions,
    runtime: Runtime,
    supervision: SupervisorOptions,
    narrator: Narrator,
) -> Result<(), Failure> {
    let mut signals = Signals::listen().map_err(Failure::environment)?;
    let now = (SystemTime::now(), Instant::now());
    let (directory, update) = Directory::open(&options.directory, now).map_err(Failure::environment)?;
    let running = runtime.running();
    let plane = ControlPlane::new(options.binding.into(), &assigned(&running));

    let mut registry = Registry::default();
    let (server, mut transitions) = portolan_xds::Server::new(portolan_xds::Options::default(), &mut registry);
    let (orders_in, mut orders) = unbounded_channel();
    let mut pilot = Pilot::new(plane, server.clone(), orders_in, narrator, Times::register(&mut registry));
    pilot.take(vec![Message::Update(Box::new(update))]);
    // An Envoy that runs already holds its ports.
    pilot.check_ports(|gateway| running.contains_key(gateway))?;

    let admin = if options.no_admin { None } else { Some(admin::bind(options.admin).await?) };
    let mut fleets = Fleets::new(runtime, supervision, server.clone(), running, narrator);
    while let Ok(order) = orders.try_recv() {
        fleets.carry_out(order)?;
    }
    fleets.end_orphans();
    server.open();
    pilot.opened();

    let (messages, inbox) = channel();
    let pilot_thread = std::thread::Builder::new()
        .name("pilot".into())
        .spawn(move || pilot.run(&inbox))
        .map_err(Failure::environment)?;
    let updates = messages.clone();
    let watch = directory
        .watch(move |update| updates.send(Message::Update(Box::new(update))).is_ok())
        .map_err(Failure::environment)?;
    let told = messages.clone();
    tokio::spawn(async move {
        while let Some(transition) = transitions.recv().await {
            if told.send(Message::Transition(transition)).is_err() {
                return;
            }
        }
    });
    if let Some(listener) = admin {
        tokio::spawn(admin::serve(listener, messages.clone(), Arc::new(registry)));
    }

    let reason = loop {
        tokio::select! {
            reason = signals.next() => break reason,
            order = orders.recv() => {
                // Whoever gives orders lives as long as messages may come: without one nothing would change any more, unnoticed.
                let order = order.ok_or_else(|| Failure::Environment(PILOT_LOST.into()))?;
                if let Err(failure) = fleets.carry_out(order) {
                    // One Gateway cannot be served; the others go on.
                    narrator.trouble(&failure.to_string());
                }
            }
            Some((gateway, report)) = fleets.next_report() => narrator.envoy(&gateway, &report),
        }
    };
    narrator.ending(reason);
    // Changes of the directory mean nothing any more.
    drop(watch);
    fleets.shut_down(signals).await;
    drop(messages);
    narrator.ended();
    drop(pilot_thread);
    Ok(())
}

fn assigned(running: &BTreeMap<NamespacedName, EnvoyState>) -> BTreeMap<NamespacedName, Vec<IpAddr>> {
    running.iter().map(|(gateway, state)| (gateway.clone(), state.addresses.clone())).collect()
}
