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
mod lifeline;
pub mod metrics;
mod narrator;
mod pilot;
pub mod signals;

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
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use crate::cli::RunOptions;
use crate::failure::{Failure, Verdict};
use crate::shell::Shell;
use fleets::{Fleets, Order};
use lifeline::{Watched, lifeline};
use metrics::Times;
use narrator::Narrator;
use pilot::{Message, Pilot};
pub use signals::Signals;

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
const DIRECTORY_LOST: &str =
    "the directory is no longer watched, a defect of Portolan; Envoys go on with what they have: start portolan again";

/// Runs until a signal asks to end.
pub fn run(options: &RunOptions, environment: Environment, shell: Shell) -> Result<Verdict, Failure> {
    portolan_standalone::descriptors::raise_limit();
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
    let (manifests, update) = Directory::open(&options.directory, now).map_err(Failure::environment)?;
    let running = runtime.running();
    let plane = ControlPlane::new(options.binding.into(), &assigned(&running));

    let mut registry = Registry::default();
    let (server, mut transitions) = portolan_xds::Server::new(portolan_xds::Options::default(), &mut registry);
    let (orders_in, mut orders) = unbounded_channel();
    let mut pilot = Pilot::new(plane, server.clone(), orders_in, narrator, Times::register(&mut registry));
    pilot.take(vec![Message::Update(Box::new(update))]);
    pilot.check_ports(&running.keys().collect())?;

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
    let (held_by_directory, directory) = lifeline();
    let watch = manifests
        .watch(move |update| {
            let _held = &held_by_directory;
            updates.send(Message::Update(Box::new(update))).is_ok()
        })
        .map_err(Failure::environment)?;
    let told = messages.clone();
    let (held_by_relay, relay) = lifeline();
    tokio::spawn(async move {
        let _held = held_by_relay;
        while let Some(transition) = transitions.recv().await {
            if told.send(Message::Transition(transition)).is_err() {
                return;
            }
        }
    });
    if let Some(listener) = admin {
        tokio::spawn(admin::serve(listener, messages.clone(), Arc::new(registry)));
    }

    let reason = attend(&mut signals, &mut orders, &mut fleets, Vitals { directory, relay }, narrator).await?;
    narrator.ending(reason);
    // Changes of the directory mean nothing any more.
    drop(watch);
    fleets.shut_down(signals).await;
    drop(messages);
    narrator.ended();
    drop(pilot_thread);
    Ok(())
}

/// What nothing would change without, unnoticed.
struct Vitals {
    /// The thread that watches the directory
    directory: Watched,
    /// The task that brings the proxies' words to the pilot
    relay: Watched,
}

/// Does what the pilot orders until a signal asks to end.
async fn attend(
    signals: &mut Signals,
    orders: &mut UnboundedReceiver<Order>,
    fleets: &mut Fleets,
    mut vitals: Vitals,
    narrator: Narrator,
) -> Result<&'static str, Failure> {
    let lost = |what: &str| Err(Failure::Environment(what.into()));
    loop {
        tokio::select! {
            // The pilot before those who end because it is gone.
            biased;
            reason = signals.next() => return Ok(reason),
            order = orders.recv() => {
                // Whoever gives orders lives as long as messages may come.
                let Some(order) = order else { return lost(PILOT_LOST) };
                if let Err(failure) = fleets.carry_out(order) {
                    // One Gateway cannot be served; the others go on.
                    narrator.trouble(&failure.to_string());
                }
            }
            Some((gateway, report)) = fleets.next_report() => narrator.envoy(&gateway, &report),
            () = vitals.directory.lost() => return lost(DIRECTORY_LOST),
            () = vitals.relay.lost() => return lost(PILOT_LOST),
        }
    }
}

fn assigned(running: &BTreeMap<NamespacedName, EnvoyState>) -> BTreeMap<NamespacedName, Vec<IpAddr>> {
    running.iter().map(|(gateway, state)| (gateway.clone(), state.addresses.clone())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::{Colour, Format};

    /// The real threads cannot be made to panic from outside: this one stands for them.
    #[tokio::test(flavor = "multi_thread")]
    async fn the_end_of_a_thread_ends_the_program() {
        let base = tempfile::tempdir().unwrap();
        let runtime = Runtime::open(&base.path().join("p"), base.path()).unwrap();
        let narrator = Narrator::new(Shell::new(Colour::Never, true), Format::Json);
        let supervision =
            SupervisorOptions { binary: "/no/such/envoy".into(), arguments: Vec::new(), drain_limit: Duration::ZERO };
        let (server, _transitions) =
            portolan_xds::Server::new(portolan_xds::Options::default(), &mut Registry::default());
        let mut fleets = Fleets::new(runtime, supervision, server, BTreeMap::new(), narrator);
        let mut signals = Signals::listen().unwrap();
        for (dying, text) in [("directory", DIRECTORY_LOST), ("relay", PILOT_LOST), ("pilot", PILOT_LOST)] {
            let (orders_in, mut orders) = unbounded_channel();
            let ((held_by_directory, directory), (held_by_relay, relay)) = (lifeline(), lifeline());
            let mut held: BTreeMap<&str, Box<dyn Send>> = BTreeMap::from([
                ("directory", Box::new(held_by_directory) as Box<dyn Send>),
                ("relay", Box::new(held_by_relay)),
                ("pilot", Box::new(orders_in)),
            ]);
            let vitals = Vitals { directory, relay };
            let end = attend(&mut signals, &mut orders, &mut fleets, vitals, narrator);
            tokio::pin!(end);
            let early = tokio::time::timeout(Duration::from_millis(50), &mut end).await;
            assert!(early.is_err(), "{dying}: nothing has ended yet");
            let lifeline = held.remove(dying).unwrap();
            let thread = std::thread::Builder::new().name("fake".into()).spawn(move || {
                let _held = lifeline;
                std::panic::resume_unwind(Box::new("as a defect would"));
            });
            thread.unwrap().join().unwrap_err();
            let failure = tokio::time::timeout(Duration::from_secs(10), end).await.unwrap().unwrap_err();
            assert_eq!((failure.code(), failure.to_string().as_str()), (3, text), "{dying}");
        }
    }
}
