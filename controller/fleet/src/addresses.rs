//! Which addresses a Gateway asks for, and which its fleet's Service has got.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use portolan_engine::FleetIntent;
use portolan_model::Name;
use portolan_model::ir::Binding;
use portolan_model::objects::GatewayAddress;
use serde_json::Value;

/// The values of `spec.addresses` that a Service can have; those without a value are for whoever assigns addresses.
pub(crate) fn wanted(addresses: &[GatewayAddress]) -> Vec<&str> {
    addresses.iter().filter(|address| &*address.kind == "IPAddress").filter_map(|it| it.value.as_deref()).collect()
}

/// Where the proxies of a Gateway listen and what `status.addresses` says: for an external fleet what `spec.addresses` says. `service`: the fleet's Service as the API server has it. Proxies
/// listen before it has an address: it is made from what they listen on. `ipv6`: whether the nodes have IPv6; then `::` takes both families, which serves clusters of either
/// family and of both.
#[must_use]
pub fn binding(intent: &FleetIntent, service: Option<&Value>, ipv6: bool) -> Binding {
    let everywhere = if ipv6 { Ipv6Addr::UNSPECIFIED.into() } else { Ipv4Addr::UNSPECIFIED.into() };
    let bound = Binding { addresses: vec![everywhere], logs: true, ..Binding::default() };
    let addresses = &intent.addresses;
    // Without its class's parameters one that has no Service is either an external one or has no proxies at all.
    if is_external(intent) || intent.class_is_lost && service.is_none() {
        let is_of_fleets = |address: &&GatewayAddress| matches!(&*address.kind, "IPAddress" | "Hostname");
        let status =
            addresses.iter().filter(is_of_fleets).filter_map(|one| Some((Name::clone(&one.kind), one.value.clone()?)));
        return Binding { status: status.collect(), ..bound };
    }
    let assigned = service.map(assigned).unwrap_or_default();
    let wanted = wanted(addresses);
    let has = |address: &str| {
        let same = |(_, value): &(Name, Name)| {
            value.parse::<IpAddr>().is_ok_and(|one| address.parse::<IpAddr>().is_ok_and(|other| one == other))
        };
        assigned.iter().any(same)
    };
    let mut unusable: Vec<(Name, Arc<str>)> = Vec::new();
    for (index, address) in wanted.iter().enumerate().filter(|(_, address)| !has(address)) {
        let reason = if index > 0 && is_load_balancer(service) {
            "a Service of type LoadBalancer asks for one address alone; remove the others"
        } else {
            "the cluster has not given it to the fleet's Service; it is taken, or none of the load balancer's"
        };
        unusable.push((Name::from(*address), Arc::from(reason)));
    }
    Binding { status: assigned, unusable, ..bound }
}

/// Whether somebody else runs the proxies.
#[must_use]
pub fn is_external(intent: &FleetIntent) -> bool {
    intent.class_parameters.as_ref().is_some_and(|parameters| parameters.external)
}

fn is_load_balancer(service: Option<&Value>) -> bool {
    service.is_none_or(|service| service.pointer("/spec/type").is_some_and(|kind| kind == "LoadBalancer"))
}

/// Type and value of each address, as `status.addresses` has them.
fn assigned(service: &Value) -> Vec<(Name, Name)> {
    let list = |pointer: &str| service.pointer(pointer).and_then(Value::as_array).into_iter().flatten();
    let typed = |kind: &str, value: &str| (Name::from(kind), Name::from(value));
    let ips = |pointer: &str| -> Vec<(Name, Name)> {
        list(pointer).filter_map(Value::as_str).filter(|ip| *ip != "None").map(|ip| typed("IPAddress", ip)).collect()
    };
    if is_load_balancer(Some(service)) {
        let ingress =
            list("/status/loadBalancer/ingress").filter_map(|one| match (one.get("ip"), one.get("hostname")) {
                (Some(Value::String(ip)), _) if !ip.is_empty() => Some(typed("IPAddress", ip)),
                (_, Some(Value::String(hostname))) if !hostname.is_empty() => Some(typed("Hostname", hostname)),
                _ => None,
            });
        return ingress.collect();
    }
    let external = ips("/spec/externalIPs");
    if external.is_empty() { ips("/spec/clusterIPs") } else { external }
}

#[cfg(test)]
mod tests {
    use portolan_model::objects::Object;
    use serde_json::json;

    use super::*;

    fn asked(values: &[Option<&str>]) -> FleetIntent {
        let address = |value: Option<&str>| GatewayAddress { kind: "IPAddress".into(), value: value.map(Name::from) };
        FleetIntent { addresses: values.iter().copied().map(address).collect(), ..FleetIntent::default() }
    }

    fn balanced(addresses: &Value) -> Value {
        json!({"spec": {"type": "LoadBalancer", "clusterIPs": ["10.0.0.1"]}, "status": {"loadBalancer": {"ingress": addresses}}})
    }

    #[test]
    fn a_load_balancer_gives_addresses_or_names() {
        for service in [None, Some(balanced(&json!([])))] {
            let unassigned = binding(&asked(&[]), service.as_ref(), true);
            assert!(unassigned.status.is_empty() && unassigned.unusable.is_empty());
        }
        let service = balanced(&json!([{"ip": "192.0.2.1"}, {"hostname": "lb.test"}]));
        let bound = binding(&asked(&[]), Some(&service), true);
        assert_eq!((&bound.addresses[..], bound.unusable.len()), (&[IpAddr::from([0_u16; 8])][..], 0));
        let status = [("IPAddress", "192.0.2.1"), ("Hostname", "lb.test")];
        assert_eq!(bound.status, status.map(|(kind, value)| (Name::from(kind), Name::from(value))));
        assert_eq!(binding(&asked(&[]), Some(&service), false).addresses, [IpAddr::from([0, 0, 0, 0])]);
    }

    #[test]
    fn what_was_asked_for_and_not_given_is_unusable() {
        let service = balanced(&json!([{"ip": "192.0.2.1"}]));
        let names = |asked: &FleetIntent, service: Option<&Value>| -> Vec<String> {
            let bound = binding(asked, service, true);
            bound.unusable.into_iter().map(|(name, _)| name.to_string()).collect()
        };
        assert_eq!(names(&asked(&[Some("192.0.2.1")]), Some(&service)), [""; 0]);
        assert_eq!(names(&asked(&[None]), Some(&service)), [""; 0]);
        assert_eq!(names(&asked(&[Some("192.0.2.1"), Some("192.0.2.9")]), Some(&service)), ["192.0.2.9"]);
        assert_eq!(names(&asked(&[Some("192.0.2.9")]), None), ["192.0.2.9"]);
    }

    #[test]
    fn other_services_have_addresses_of_the_cluster() {
        let service = json!({"spec": {"type": "ClusterIP", "clusterIPs": ["10.0.0.1", "fd00::1"]}});
        let status = binding(&asked(&[]), Some(&service), true).status;
        assert_eq!(status.len(), 2);
        let external =
            json!({"spec": {"type": "NodePort", "clusterIPs": ["10.0.0.1"], "externalIPs": ["2001:DB8::1"]}});
        let bound = binding(&asked(&[Some("2001:db8::1")]), Some(&external), true);
        assert_eq!((bound.status.len(), bound.unusable.len()), (1, 0));
    }

    #[test]
    fn an_external_fleet_has_the_addresses_that_the_gateway_names() {
        let external = json!({
            "apiVersion": "portolan.dev/v1alpha1",
            "kind": "EnvoyProxy",
            "metadata": {"name": "outside", "namespace": "infra"},
            "spec": {"provider": {"type": "External"}},
        });
        let Some(Object::EnvoyProxy(parameters)) = portolan_model::read::json(&external).object else { panic!() };
        let intent = FleetIntent { class_parameters: Some(parameters), ..asked(&[Some("192.0.2.1"), None]) };
        let bound = binding(&intent, None, true);
        assert_eq!(bound.status, [(Name::from("IPAddress"), Name::from("192.0.2.1"))]);
        assert!(bound.unusable.is_empty());
        // It may be such a one: its parameters are lost.
        let refused = FleetIntent { refused: true, class_parameters: None, ..intent.clone() };
        let lost = |service| binding(&FleetIntent { class_is_lost: true, ..refused.clone() }, service, true);
        assert_eq!(binding(&refused, None, true).status, [], "for another reason: it has no proxies");
        assert_eq!(lost(None), bound);
        let service = balanced(&json!([{"ip": "192.0.2.7"}]));
        assert_eq!(lost(Some(&service)).status, [(Name::from("IPAddress"), Name::from("192.0.2.7"))]);
    }
}
