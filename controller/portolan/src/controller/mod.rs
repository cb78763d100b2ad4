//! `portolan controller`: the API server in; xDS, statuses and fleets out.
//!
//! ```text
//! API server ──Notice──▶ pilot (thread, owns all state) ─┬─Change─▶ xds server ◀──mutual TLS── Envoys of fleets
//!     own objects ──────▶                                ├─Status─▶ status writer ─┐
//!     xds server ─Transition─▶                           └─Order──▶ fleets ────────┴─▶ API server, while this replica leads
//! ```

mod admin;
mod classes;
mod connections;
mod cut_off;
mod installation;
mod keeper;
mod own;
mod pilot;
mod troubles;

use std::collections::hash_map::RandomState;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::BuildHasher as _;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, SystemTime};

use kube::api::{Api, DynamicObject};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Client, Config};
use portolan_fleet::{Fleet, Identity, LEAVES, Lifetimes, Platform};
use portolan_kubernetes::report::Report;
use portolan_kubernetes::{
    ApplierOptions, Lease, LeaseOptions, Manifests, StatusOptions, Statuses, bounded, events, report, watch,
};
use portolan_model::Name;
use prometheus_client::registry::Registry;
use tokio::task::JoinSet;

use crate::cli::ControllerOptions;
use crate::failure::{Failure, Verdict};
use crate::run::metrics::Times;
use crate::run::signals::Signals;
use keeper::Keeper;
use pilot::{Around, Message, Pilot, Progress};
const BROKEN: &str = "the control plane broke down, a defect of Portolan; proxies go on with what they have";

/// Runs until a signal asks to end.
pub fn controller(options: &ControllerOptions) -> Result<Verdict, Failure> {
    let threads = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    threads.map_err(Failure::environment)?.block_on(serve(options))?;
    Ok(Verdict::Good)
}

async fn serve(options: &ControllerOptions) -> Result<(), Failure> {
    let lifetimes = lifetimes(options)?;
    let mut signals = Signals::listen().map_err(Failure::environment)?;
    // Where another part of the program has chosen before, it is the same.
    _ = rustls::crypto::ring::default_provider().install_default();
    let no_way = |error: &dyn std::fmt::Display| {
        Failure::Environment(format!(
            "no way to the API server: {error}; run it in a pod with a service account, or set KUBECONFIG"
        ))
    };
    let config = Config::infer().await.map_err(|error| no_way(&error))?;
    let client = portolan_kubernetes::client(config).map_err(|error| no_way(&error))?;

    let mut registry = Registry::default();
    let times = Times::register(&mut registry);
    let (server, mut transitions) = portolan_xds::Server::new(portolan_xds::Options::default(), &mut registry);
    let namespaces: Vec<Name> = options.watch_namespaces.iter().map(|name| Name::from(name.as_str())).collect();
    let places: BTreeSet<watch::Place> =
        if namespaces.is_empty() { [None].into() } else { namespaces.iter().cloned().map(Some).collect() };
    let namespaces = (!namespaces.is_empty()).then(|| namespaces.into_iter().collect());
    // They run for as long as this value lives.
    let mut watches = watch::start(client.clone(), watch::Options { namespaces });
    registry.register_collector(Box::new(cut_off::Ages(watches.freshness.clone())));
    // A container that starts again in its pod is another candidate.
    let identity = format!("{}_{:016x}", options.pod, RandomState::new().hash_one(SystemTime::now()));
    let (lease, leadership) = Lease::new(&client, &options.namespace, &identity, LeaseOptions::default());
    let statuses = Statuses::default();
    let manifests = Manifests::default();
    let (progress, progressing) = tokio::sync::watch::channel(Progress::default());

    let admin = admin::bind(options.metrics_port, "metrics").await?;
    let socket = admin::reserve(options.xds_port, "xDS")?;
    let ipv6 = socket.local_addr().is_ok_and(|address| address.is_ipv6());
    let (config, configured) = tokio::sync::watch::channel(None);
    let registry = Arc::new(registry);
    // None of these ends by itself: without one of them something would not change any more, unnoticed.
    let mut tasks = JoinSet::new();
    tasks.spawn(admin::serve(
        admin,
        admin::Admin {
            registry,
            progress: progressing.clone(),
            freshness: watches.freshness.clone(),
            config: configured.clone(),
        },
    ));

    let platform = Platform {
        xds_host: format!("{}.{}.svc", options.service, options.namespace),
        xds_port: options.xds_port,
        server_name: format!("{}.{}.svc", options.service, options.namespace),
        proxy_image: options.proxy_image.clone(),
        portolan_image: options.portolan_image.clone(),
        probe_port: options.probe_port,
    };
    let (keeping, fleets) = tokio::sync::watch::channel(Arc::default());
    let (unkept, without_identity) = tokio::sync::watch::channel(BTreeMap::new());
    let (holding, classes) = tokio::sync::watch::channel(Arc::default());
    let keeper = Keeper {
        client: client.clone(),
        leadership: leadership.clone(),
        namespace: options.namespace.clone(),
        names: vec![platform.server_name.clone()],
        lifetimes,
        fleets,
        problems: unkept,
        config,
    };
    tasks.spawn(keeper.run());
    let (reporting, reported) = tokio::sync::watch::channel(Report::default());
    let unlisted = own::KINDS.iter().flat_map(|made| places.iter().map(|place| (made.kind, place.clone()))).collect();
    let around = Around {
        server: server.clone(),
        statuses: statuses.clone(),
        following: watches.following.clone(),
        platform,
        manifests: manifests.clone(),
        progress,
        times,
        keeping,
        holding,
        reporting,
        ipv6,
    };
    let pilot = Pilot::new(around, unlisted);
    let (messages, inbox) = channel();
    let (ended, mut pilot_ended) = tokio::sync::oneshot::channel();
    std::thread::Builder::new()
        .name("pilot".into())
        .spawn(move || {
            pilot.run(&inbox);
            _ = ended.send(());
        })
        .map_err(Failure::environment)?;
    tasks.spawn(share(client.clone(), options.namespace.clone(), options.pod.clone(), reported, messages.clone()));
    for kind in own::KINDS {
        for place in &places {
            let (client, freshness, told) = (client.clone(), watches.freshness.clone(), messages.clone());
            // Where nobody listens any more, the program is about to end.
            let tell = move |found| _ = told.send(Message::Own(found));
            tasks.spawn(watch::follow_made(client, kind, place.clone(), own::LABELS, freshness, tell));
        }
    }
    let told = messages.clone();
    tasks.spawn(cut_off::look(watches.freshness.clone(), move |is| told.send(Message::CutOff(is)).is_ok()));
    let told = messages.clone();
    tasks.spawn(async move {
        while let Some(notice) = watches.notices.recv().await {
            if told.send(Message::Notice(notice)).is_err() {
                return;
            }
        }
    });
    let told = messages.clone();
    tasks.spawn(async move {
        while let Some(transition) = transitions.recv().await {
            if told.send(Message::Transition(transition)).is_err() {
                return;
            }
        }
    });
    let told = messages.clone();
    tasks.spawn(troubles::follow(manifests.problems(), without_identity, move |troubles| {
        told.send(Message::Troubles(troubles)).is_ok()
    }));
    tasks.spawn(classes::hold(client.clone(), leadership.clone(), classes));
    let (events, telling) = events(client.clone(), &options.pod);
    tasks.spawn(telling);
    let applying = ApplierOptions { namespaces: options.watch_namespaces.clone(), ..ApplierOptions::default() };
    tasks.spawn(manifests.apply(client.clone(), leadership.clone(), applying));
    tasks.spawn(statuses.write(client.clone(), leadership, events, StatusOptions::default()));
    let incoming = connections::connections(socket, progressing, configured, lasting);
    let (close, closing) = tokio::sync::oneshot::channel::<()>();
    let identify = |peer: &connections::Peer| {
        let identity = Identity::of_certificate(&peer.certificate)?;
        Some(Fleet::of(identity.gateway).server_name_of(&identity.uid))
    };
    let mut serving =
        tokio::spawn(async move { server.serve(incoming, identify, async move { _ = closing.await }).await });
    let (stop, stopping) = tokio::sync::oneshot::channel::<()>();
    let lease = tokio::spawn(lease.run(async move { _ = stopping.await }));

    tokio::select! {
        signal = signals.next() => tracing::info!(signal, "Portolan ends; proxies go on with what they have"),
        _ = &mut pilot_ended => return Err(Failure::Environment(BROKEN.into())),
        _ = &mut serving => return Err(Failure::Environment(BROKEN.into())),
        _ = tasks.join_next() => return Err(Failure::Environment(BROKEN.into())),
    }
    _ = stop.send(());
    // Another replica leads at once if the lease is let go.
    _ = tokio::time::timeout(Duration::from_secs(5), lease).await;
    // Proxies go to another replica.
    _ = close.send(());
    _ = tokio::time::timeout(Duration::from_secs(1), serving).await;
    drop(messages);
    Ok(())
}

/// What the options say, where rotation can work with it.
fn lifetimes(options: &ControllerOptions) -> Result<Lifetimes, Failure> {
    let lifetimes = Lifetimes { authority: options.authority_lifetime, leaf: options.certificate_lifetime };
    let least = lifetimes.bounded();
    if lifetimes.leaf < least.leaf {
        return Err(Failure::Usage(
            "--certificate-lifetime must be 10m at least, or certificates end on their way to proxies".into(),
        ));
    }
    if lifetimes.authority < least.authority {
        let minutes = least.authority.as_secs().div_ceil(60);
        return Err(Failure::Usage(format!(
            "--authority-lifetime must be {LEAVES} times --certificate-lifetime at least, here {minutes}m, or no authority can take over from another"
        )));
    }
    Ok(lifetimes)
}

/// Shares reports with the other replicas. What it needs for that is its pod's UID, and until that can be had it tells them nothing.
async fn share(
    client: Client,
    namespace: String,
    name: String,
    reported: tokio::sync::watch::Receiver<Report>,
    messages: Sender<Message>,
) {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("", "v1", "Pod"));
    let pods: Api<DynamicObject> = Api::namespaced_with(client.clone(), &namespace, &resource);
    let mut told = false;
    let pod = loop {
        match bounded(pods.get(&name)).await {
            Ok(pod) => break pod,
            Err(error) if !told => {
                tracing::warn!("the other replicas are told nothing until the pod {name} can be read: {error}");
                told = true;
            }
            Err(_) => {}
        }
        tokio::time::sleep(Duration::from_secs(5)).await;
    };
    let pod = report::Pod { namespace, name, uid: pod.metadata.uid.unwrap_or_default() };
    let (mut others, sharing) = report::share(&client, pod, reported);
    let hearing = async move {
        while others.changed().await.is_ok() {
            let reports = others.borrow_and_update().clone();
            if messages.send(Message::Reports(reports)).is_err() {
                return;
            }
        }
    };
    tokio::select! {
        () = sharing => {}
        () = hearing => {}
    }
}

/// How long a connection may last: until shortly before the proxy's certificate ends, not at the same moment as all others.
fn lasting(certificate: &[u8]) -> Option<Duration> {
    let (_, parsed) = x509_parser::parse_x509_certificate(certificate).ok()?;
    let left = parsed.validity().not_after.timestamp() - crate::load::seconds(SystemTime::now());
    let left = u64::try_from(left).unwrap_or(0);
    let jitter = RandomState::new().hash_one(certificate) % (left / 10).max(1);
    Some(Duration::from_secs(left.saturating_sub(jitter)))
}
