//! The Service in front of a fleet.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::settings::Settings;
use super::{ManagedFleet, patch, set, texts};
use crate::{addresses, names};

/// `None` without ports: the API knows no such Service, and one that is there stays, with its address.
pub(super) fn service(fleet: ManagedFleet<'_>, settings: &Settings) -> Option<Value> {
    let given = &settings.service;
    let ports: BTreeSet<u16> = fleet.intent.ports.iter().map(|(port, _)| *port).collect();
    if ports.is_empty() {
        return None;
    }
    let kind = given.kind.as_deref().unwrap_or("LoadBalancer");
    let mut spec = json!({
        "type": kind,
        "selector": names::selector(fleet.gateway),
        "ipFamilyPolicy": "PreferDualStack",
        "ports": ports.iter().map(|port| json!({
            "name": format!("tcp-{port}"),
            "port": port,
            "targetPort": port,
            "protocol": "TCP",
        })).collect::<Vec<_>>(),
    });
    if kind != "ClusterIP" {
        // Keeps the client's address, and a hop less.
        set(&mut spec, &["externalTrafficPolicy"], given.external_traffic_policy.as_deref().unwrap_or("Local"));
    }
    let wanted = addresses::wanted(&fleet.intent.addresses);
    if kind == "LoadBalancer" {
        for (name, value) in &given.spec {
            set(&mut spec, &[name], value.clone());
        }
        if let Some(address) = wanted.first().copied().or(given.load_balancer_ip.as_deref()) {
            set(&mut spec, &["loadBalancerIP"], address);
        }
    } else if !wanted.is_empty() {
        set(&mut spec, &["externalIPs"], wanted);
    }
    let mut object = fleet.object("v1", "Service", json!({"spec": spec}));
    let mut annotations = fleet.annotations();
    annotations.extend(texts(&given.annotations));
    if !annotations.is_empty() {
        set(&mut object, &["metadata", "annotations"], annotations);
    }
    let mut labels = texts(&given.labels);
    labels.extend(fleet.labels());
    set(&mut object, &["metadata", "labels"], labels);
    patch::apply(&mut object, given.patch.as_ref());
    Some(object)
}
