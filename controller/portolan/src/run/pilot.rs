//! The thread that owns all state: the control plane, what proxies said, what has been told to people.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant, SystemTime};

use portolan_fleet::{Fleet, gateway_of};
use portolan_model::{NamespacedName, ObjectKey};
use portolan_proto::{Origin, ResourceKey};
use portolan_standalone::control_plane::{ControlPlane, Effects, Happening};
use portolan_standalone::directory::Update;
use portolan_standalone::envoy::ports;
use portolan_standalone::{Finding, FindingChanges, problems};
use portolan_xds::{FleetName, Server, Transition};
use tokio::sync::mpsc::UnboundedSender;

use super::fleets::Order;
use super::metrics::Times;
use super::narrator::Narrator;
use crate::failure::Failure;
use crate::load::seconds;

/// What reaches the pilot.
pub enum Message {
    /// The directory changed
    Update(Box<Update>),
    /// A proxy said something
    Transition(Transition),
    /// Somebody asks
    Query(Box<dyn FnOnce(&Pilot) + Send>),
}

/// The longest that the pilot sleeps. It waits for instants of the clock on the wall, which somebody may set meanwhile.
const LOOK_AT_CLOCK: Duration = Duration::from_mins(1);

/// All state of `portolan run`.
pub struct Pilot {
    plane: ControlPlane,
    server: Server,
    orders: UnboundedSender<Order>,
    narrator: Narrator,
    times: Times,
    /// By object, the conditions that say that something is wrong
    problems: BTreeMap<ObjectKey, Vec<Finding>>,
    /// Where each Gateway is said to listen
    announced: BTreeMap<NamespacedName, Vec<String>>,
    open: bool,
    ready: bool,
}

impl Pilot {
    /// Orders about Envoys go to `orders`.
    pub fn new(
        plane: ControlPlane,
        server: Server,
        orders: UnboundedSender<Order>,
        narrator: Narrator,
        times: Times,
    ) -> Self {
        Self {
            plane,
            server,
            orders,
            narrator,
            times,
            problems: BTreeMap::new(),
            announced: BTreeMap::new(),
            open: false,
            ready: false,
        }
    }

    /// Takes messages until nobody sends any more.
    pub fn run(mut self, inbox: &Receiver<Message>) {
        loop {
            let messages = match inbox.recv_timeout(self.until_due()) {
                // What has come in meanwhile makes one batch.
                Ok(first) => std::iter::once(first).chain(inbox.try_iter()).collect(),
                Err(RecvTimeoutError::Timeout) => Vec::new(),
                Err(RecvTimeoutError::Disconnected) => return,
            };
            self.take(messages);
        }
    }

    /// How long the time alone changes nothing.
    fn until_due(&self) -> Duration {
        let Some(due) = self.plane.engine().due() else { return LOOK_AT_CLOCK };
        let due = SystemTime::UNIX_EPOCH + Duration::from_secs(u64::try_from(due).unwrap_or(0));
        due.duration_since(SystemTime::now()).unwrap_or_default().min(LOOK_AT_CLOCK)
    }

    /// Takes a batch of messages; queries are answered after everything before them is in force.
    pub fn take(&mut self, messages: Vec<Message>) {
        let mut happenings = Vec::new();
        let mut findings = FindingChanges::default();
        for message in messages {
            match message {
                Message::Update(update) => {
                    let Update { objects, findings: changes } = *update;
                    happenings.push(Happening::Objects(objects));
                    findings.arisen.extend(changes.arisen);
                    findings.cleared.extend(changes.cleared);
                }
                Message::Transition(transition) => happenings.push(self.hear(transition)),
                Message::Query(answer) => {
                    self.advance(std::mem::take(&mut happenings), std::mem::take(&mut findings));
                    answer(self);
                }
            }
        }
        self.advance(happenings, findings);
    }

    fn advance(&mut self, happenings: Vec<Happening>, mut findings: FindingChanges) {
        let (now, start) = (SystemTime::now(), Instant::now());
        if !happenings.is_empty() || self.plane.engine().is_due(seconds(now)) {
            if happenings
                .iter()
                .any(|happening| matches!(happening, Happening::Objects(objects) if !objects.is_empty()))
            {
                self.times.event(now);
            }
            let effects = self.plane.apply(happenings, seconds(now), &ports::usable);
            self.times.computed(start.elapsed());
            self.publish(effects, &mut findings);
        }
        self.narrator.findings(&findings);
        self.announce();
    }

    fn publish(&mut self, effects: Effects, findings: &mut FindingChanges) {
        let Effects { changes, removed, statuses, rebound } = effects;
        for (gateway, changes) in changes {
            let position = self.server.publish(&fleet_name(&gateway), changes.clone());
            self.plane.published(&gateway, &changes, position);
        }
        // A batch is one moment: a Gateway that is deleted and made again in it is not among them.
        for gateway in removed {
            self.server.remove_fleet(&fleet_name(&gateway));
            self.announced.remove(&gateway);
            self.order(Order::Remove(gateway));
        }
        for gateway in rebound {
            if self.plane.engine().snapshot(&gateway).is_some() {
                // A fleet without resources yet: its proxies are answered all the same.
                self.server.publish(&fleet_name(&gateway), Vec::new());
                let addresses = self.addresses(&gateway);
                self.order(Order::Run { gateway, addresses });
            }
        }
        for key in statuses {
            let after = self.plane.engine().status(&key).map(|status| problems(&key, status, self.plane.ledger()));
            let after = after.unwrap_or_default();
            let before = self.problems.remove(&key).unwrap_or_default();
            findings.replace(&before, &after);
            if !after.is_empty() {
                self.problems.insert(key, after);
            }
        }
    }

    /// Tells people what a proxy refuses; what follows from that is up to the control plane.
    fn hear(&self, transition: Transition) -> Happening {
        if let Transition::Refused { fleet, key, origins, text, .. } = &transition {
            self.narrator.trouble(&refusal(&gateway_of(fleet), key, origins, text.trim()));
        }
        Happening::Transition(transition)
    }

    /// The gate is open: what is programmed may be announced.
    pub fn opened(&mut self) {
        self.open = true;
        self.announce();
    }

    /// Says where programmed Gateways listen, when that is news.
    fn announce(&mut self) {
        if !self.open {
            return;
        }
        let gateways: Vec<NamespacedName> = self.plane.engine().fleets().cloned().collect();
        let programmed = |gateway: &&NamespacedName| self.plane.state(gateway).programmed;
        for gateway in gateways.iter().filter(programmed) {
            let urls = self.urls(gateway);
            if self.announced.get(gateway) != Some(&urls) {
                self.narrator.listening(gateway, &urls);
                self.announced.insert(gateway.clone(), urls);
            }
        }
        if !self.ready && self.unprogrammed().next().is_none() {
            self.ready = true;
            self.narrator.ready(gateways.len());
        }
    }

    /// Gateways with listeners that no proxy has taken yet.
    pub fn unprogrammed(&self) -> impl Iterator<Item = &NamespacedName> {
        self.plane
            .engine()
            .fleets()
            .filter(|gateway| !self.plane.state(gateway).programmed && !self.plane.ports(gateway).is_empty())
    }

    /// The control plane, for those who ask.
    pub const fn plane(&self) -> &ControlPlane {
        &self.plane
    }

    /// Fails when a port that a new Envoy is to listen on cannot be had. `running`: the Gateways whose Envoys run already, with their
    /// ports. Where one of these Gateways is gone, its Envoy may have any port until it has drained: then this says nothing, Envoys share
    /// ports meanwhile, and what cannot be had after all is told by the listener's status.
    pub fn check_ports(&self, running: &BTreeSet<&NamespacedName>) -> Result<(), Failure> {
        let fleets: BTreeSet<&NamespacedName> = self.plane.engine().fleets().collect();
        if !running.is_subset(&fleets) {
            return Ok(());
        }
        for gateway in fleets.difference(running) {
            let ports: BTreeSet<u16> = self.plane.ports(gateway).into_keys().collect();
            ports::check(&self.addresses(gateway), &ports)
                .map_err(|error| Failure::Environment(format!("Gateway {gateway}: {error}")))?;
        }
        Ok(())
    }

    fn addresses(&self, gateway: &NamespacedName) -> Vec<IpAddr> {
        self.plane.bindings().get(gateway).map(|binding| binding.addresses.clone()).unwrap_or_default()
    }

    /// What a client on this machine types.
    fn urls(&self, gateway: &NamespacedName) -> Vec<String> {
        let addresses = match self.addresses(gateway) {
            all if all.is_empty() => vec!["0.0.0.0".into()],
            some => some.iter().map(|ip| if ip.is_ipv6() { format!("[{ip}]") } else { ip.to_string() }).collect(),
        };
        let url = |address: &String, (port, tls): (&u16, &bool)| {
            format!("{}://{address}:{port}", if *tls { "https" } else { "http" })
        };
        let ports = self.plane.ports(gateway);
        addresses.iter().flat_map(|address| ports.iter().map(move |port| url(address, port))).collect()
    }

    fn order(&self, order: Order) {
        // Nobody takes orders any more when the program ends.
        let _ending = self.orders.send(order);
    }
}

/// The fleet of a Gateway.
pub fn fleet_name(gateway: &NamespacedName) -> FleetName {
    Fleet::of(gateway.clone()).server_name()
}

/// What Envoy refused, and what to do where that is known.
fn refusal(gateway: &NamespacedName, key: &ResourceKey, origins: &[Origin], text: &str) -> String {
    let from = origins
        .first()
        .map(|origin| format!(", from {} {}/{} {}", origin.kind, origin.namespace, origin.name, origin.field));
    let remedy = if text.contains("Address already in use") || text.contains("cannot bind") {
        "; stop the process that has the port (`ss -ltnp` names it) or choose another port; the listener is tried again until its port is free"
    } else {
        ""
    };
    format!("Envoy of {gateway} refuses {key}{}: {text}{remedy}", from.unwrap_or_default())
}

#[cfg(test)]
mod tests;
