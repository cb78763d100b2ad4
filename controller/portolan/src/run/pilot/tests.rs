//! Batches of messages whose parts are about the same thing. No thread, no Envoy: what they would say comes as messages.

use std::sync::Arc;

use portolan_model::{Kind, read};
use portolan_proto::{Part, ResourceType};
use portolan_standalone::binding::BindingOptions;
use portolan_standalone::directory::Applied;
use prometheus_client::registry::Registry;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use super::*;
use crate::cli::{Colour, Format};
use crate::shell::Shell;

const CLASS: &str = "
apiVersion: gateway.networking.k8s.io/v1
kind: GatewayClass
metadata: {name: portolan}
spec: {controllerName: portolan.dev/gateway-controller}
";
const GATEWAY: &str = "
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: web}
spec: {gatewayClassName: portolan, listeners: [{name: http, port: 80, protocol: HTTP}, {name: alt, port: 8080, protocol: HTTP}]}
";

fn pilot() -> (Pilot, UnboundedReceiver<Order>) {
    let mut registry = Registry::default();
    let plane = ControlPlane::new(BindingOptions::default(), &BTreeMap::new());
    let (server, _transitions) = Server::new(portolan_xds::Options::default(), &mut registry);
    let (orders_in, orders) = unbounded_channel();
    let narrator = Narrator::new(Shell::new(Colour::Never, true), Format::Json);
    (Pilot::new(plane, server, orders_in, narrator, Times::register(&mut registry)), orders)
}

fn written(manifests: &str) -> Message {
    let objects = read::manifests(&"a.yaml".into(), manifests.as_bytes()).unwrap().into_iter().map(|manifest| {
        let applied = Applied {
            object: manifest.object.unwrap(),
            api_version: manifest.api_version.into(),
            location: manifest.location,
            bookkeeping: manifest.bookkeeping,
        };
        (manifest.key.unwrap(), Some(Arc::new(applied)))
    });
    Message::Update(Box::new(Update { objects: objects.collect(), ..Update::default() }))
}

fn removed(key: &ObjectKey) -> Message {
    Message::Update(Box::new(Update { objects: BTreeMap::from([(key.clone(), None)]), ..Update::default() }))
}

fn web() -> ObjectKey {
    ObjectKey::new(Kind::Gateway, NamespacedName::new("default", "web"))
}

/// R for each order to run an Envoy, X for each to remove one.
fn given(orders: &mut UnboundedReceiver<Order>) -> String {
    std::iter::from_fn(|| orders.try_recv().ok())
        .map(|order| if matches!(order, Order::Run { .. }) { 'R' } else { 'X' })
        .collect()
}

#[test]
fn words_of_one_batch_about_one_fleet_add_up() {
    let (mut pilot, _orders) = pilot();
    pilot.take(vec![written(&format!("{CLASS}---{GATEWAY}"))]);
    let fleet = fleet_name(&web().name);
    let listener = |port: u16| ResourceKey::new(ResourceType::Listener, format!("http/{port}"));
    let version = |pilot: &Pilot, port| {
        pilot.plane().engine().snapshot(&web().name).unwrap().get(&listener(port)).unwrap().version
    };
    let versions = [80, 8080].map(|port| (port, version(&pilot, port)));
    let refused = |port| {
        Message::Transition(Transition::Refused {
            fleet: fleet.clone(),
            key: listener(port),
            version: versions.iter().find(|(other, _)| *other == port).map(|(_, version)| *version),
            part: Part::Whole,
            origins: Vec::new(),
            text: "cannot bind".into(),
        })
    };
    let refusals =
        |pilot: &Pilot| -> Vec<u128> { pilot.plane().engine().refused().map(|refused| refused.content).collect() };
    let acked = Transition::Acked { fleet: fleet.clone(), position: u64::MAX, first: true };
    pilot.take(vec![refused(80), Message::Transition(acked), refused(8080)]);
    assert!(pilot.plane().state(&web().name).programmed);
    assert_eq!(refusals(&pilot).len(), 2);
    // One is taken back, in one batch with the other's coming again.
    let cleared = Transition::RefusalCleared { fleet: fleet.clone(), key: listener(80) };
    pilot.take(vec![refused(8080), Message::Transition(cleared)]);
    assert!(pilot.plane().state(&web().name).programmed);
    assert_eq!(refusals(&pilot), [versions[1].1.0]);
}

#[test]
fn a_gateway_that_is_deleted_and_made_again_in_one_batch_keeps_its_envoy() {
    let (mut pilot, mut orders) = pilot();
    pilot.take(vec![written(&format!("{CLASS}---{GATEWAY}"))]);
    assert!(given(&mut orders).starts_with('R'));
    pilot.take(vec![removed(&web()), written(GATEWAY)]);
    assert!(!given(&mut orders).contains('X'), "the Envoy of a Gateway that is there was removed");
    assert!(pilot.plane().engine().snapshot(&web().name).is_some());
    // Asked between the two, it is a removal and a new beginning, in this order.
    pilot.take(vec![removed(&web()), Message::Query(Box::new(|_| ())), written(GATEWAY)]);
    assert!(given(&mut orders).starts_with("XR"));
    pilot.take(vec![removed(&web())]);
    assert_eq!(given(&mut orders), "X");
}
