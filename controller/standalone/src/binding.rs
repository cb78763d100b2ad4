//! Where each Gateway listens when there is one machine for all of them. Pure: what the machine says comes in as a function.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use portolan_model::NamespacedName;
use portolan_model::ir::Binding;
use portolan_model::objects::GatewayAddress;

/// What a Gateway asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// Ports of its listeners
    pub ports: BTreeSet<u16>,
    /// `spec.addresses`
    pub addresses: Vec<GatewayAddress>,
}

/// How to bind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BindingOptions {
    /// Added to every port
    pub port_offset: u16,
    /// Every Gateway gets a loopback address of its own, whether ports collide or not
    pub loopback: bool,
}

/// The addresses that Gateways have got. What is assigned once stays, whatever other Gateways come and go; a fresh start assigns in
/// the order of names.
#[derive(Debug, Default)]
pub struct Bindings {
    options: BindingOptions,
    /// Loopback addresses by Gateway
    own: BTreeMap<NamespacedName, IpAddr>,
    /// Gateways on all addresses
    everywhere: BTreeSet<NamespacedName>,
    in_force: BTreeMap<NamespacedName, Binding>,
}

/// Whether the machine has the address; if not, why.
pub type Usable<'a> = &'a dyn Fn(IpAddr) -> Result<(), String>;

impl Bindings {
    /// `assigned`: the addresses that Gateways already listen on (empty: all), from an earlier process.
    #[must_use]
    pub fn new(options: BindingOptions, assigned: &BTreeMap<NamespacedName, Vec<IpAddr>>) -> Self {
        let mut bindings = Self { options, ..Self::default() };
        for (gateway, addresses) in assigned {
            match addresses.as_slice() {
                [] => _ = bindings.everywhere.insert(gateway.clone()),
                [address] if address.is_loopback() => _ = bindings.own.insert(gateway.clone(), *address),
                _ => {}
            }
        }
        bindings
    }

    /// Decides anew for all Gateways that are there; returns the bindings that differ.
    pub fn update(
        &mut self,
        gateways: &BTreeMap<NamespacedName, Wanted>,
        usable: Usable<'_>,
    ) -> Vec<(NamespacedName, Option<Binding>)> {
        self.own.retain(|gateway, _| gateways.contains_key(gateway));
        self.everywhere.retain(|gateway| gateways.contains_key(gateway));
        let asked: BTreeSet<IpAddr> = gateways.values().flat_map(addresses).collect();
        let mut next = BTreeMap::new();
        for (gateway, wanted) in gateways {
            next.insert(gateway.clone(), self.bind(gateway, wanted, gateways, &asked, usable));
        }
        let mut changes = Vec::new();
        for gateway in self.in_force.keys().filter(|gateway| !next.contains_key(*gateway)) {
            changes.push((gateway.clone(), None));
        }
        for (gateway, binding) in &next {
            if self.in_force.get(gateway) != Some(binding) {
                changes.push((gateway.clone(), Some(binding.clone())));
            }
        }
        self.in_force = next;
        changes
    }

    /// Whether the Gateway listens somewhere, or did in an earlier process.
    #[must_use]
    pub fn knows(&self, gateway: &NamespacedName) -> bool {
        self.in_force.contains_key(gateway) || self.own.contains_key(gateway) || self.everywhere.contains(gateway)
    }

    /// The bindings in force.
    #[must_use]
    pub const fn in_force(&self) -> &BTreeMap<NamespacedName, Binding> {
        &self.in_force
    }

    fn bind(
        &mut self,
        gateway: &NamespacedName,
        wanted: &Wanted,
        gateways: &BTreeMap<NamespacedName, Wanted>,
        asked: &BTreeSet<IpAddr>,
        usable: Usable<'_>,
    ) -> Binding {
        let mut binding = Binding { port_offset: self.options.port_offset, ..Binding::default() };
        for address in &wanted.addresses {
            let GatewayAddress { kind, value } = address;
            if &**kind != "IPAddress" {
                let reason = format!("its type is {kind}, and only an IPAddress can be listened on");
                binding.unusable.push((value.clone().unwrap_or_else(|| Arc::clone(kind)), reason.into()));
                continue;
            }
            let Some(value) = value else { continue };
            let result = value.parse::<IpAddr>().map_err(|_| format!("{value} is not an IP address")).and_then(|ip| {
                usable(ip).map(|()| ip).map_err(|reason| format!("this machine cannot listen on {ip}: {reason}"))
            });
            match result {
                Ok(ip) if binding.addresses.contains(&ip) => {}
                Ok(ip) => binding.addresses.push(ip),
                Err(reason) => binding.unusable.push((Arc::clone(value), reason.into())),
            }
        }
        let unvalued = wanted.addresses.iter().any(|address| &*address.kind == "IPAddress" && address.value.is_none());
        if unvalued || (wanted.addresses.is_empty() && self.needs_own(gateway, wanted, gateways)) {
            match self.own_address(gateway, asked, usable) {
                Some(address) => binding.addresses.push(address),
                None => binding
                    .unusable
                    .push(("".into(), "no loopback address is left; give the Gateway another port".into())),
            }
        } else if wanted.addresses.is_empty() {
            self.everywhere.insert(gateway.clone());
        }
        let shown: Vec<IpAddr> =
            if binding.addresses.is_empty() && binding.unusable.is_empty() && wanted.addresses.is_empty() {
                // Where clients on this machine reach a Gateway that listens on all addresses.
                vec![IpAddr::V4(Ipv4Addr::LOCALHOST)]
            } else {
                binding.addresses.clone()
            };
        binding.status = shown.iter().map(|ip| ("IPAddress".into(), ip.to_string().into())).collect();
        binding
    }

    /// A Gateway without addresses has all of them, unless another one would be on the same port: then each gets its own. One that
    /// already listens everywhere stays there; a newcomer's own address goes first, as the more specific one.
    fn needs_own(
        &self,
        gateway: &NamespacedName,
        wanted: &Wanted,
        gateways: &BTreeMap<NamespacedName, Wanted>,
    ) -> bool {
        let collides = || {
            gateways.iter().any(|(other, theirs)| {
                other != gateway && theirs.addresses.is_empty() && !theirs.ports.is_disjoint(&wanted.ports)
            })
        };
        self.options.loopback || self.own.contains_key(gateway) || (!self.everywhere.contains(gateway) && collides())
    }

    fn own_address(
        &mut self,
        gateway: &NamespacedName,
        asked: &BTreeSet<IpAddr>,
        usable: Usable<'_>,
    ) -> Option<IpAddr> {
        if let Some(address) = self.own.get(gateway) {
            return Some(*address);
        }
        let taken: BTreeSet<IpAddr> = self.own.values().copied().chain(asked.iter().copied()).collect();
        // 127.0.0.1 stays free for those on all addresses; .0 and .255 look like networks.
        let candidates = (0..=u8::MAX).flat_map(|third| (1..=254).map(move |last| Ipv4Addr::new(127, 0, third, last)));
        let address = candidates
            .skip(1)
            .map(IpAddr::V4)
            .filter(|address| !taken.contains(address))
            .take(1024)
            .find(|address| usable(*address).is_ok())?;
        self.everywhere.remove(gateway);
        self.own.insert(gateway.clone(), address);
        Some(address)
    }
}

fn addresses(wanted: &Wanted) -> impl Iterator<Item = IpAddr> {
    wanted.addresses.iter().filter_map(|address| address.value.as_deref()?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> NamespacedName {
        NamespacedName::new("default", text)
    }

    fn wanted(ports: &[u16], addresses: &[Option<&str>]) -> Wanted {
        let address = |value: Option<&str>| GatewayAddress { kind: "IPAddress".into(), value: value.map(Into::into) };
        Wanted { ports: ports.iter().copied().collect(), addresses: addresses.iter().copied().map(address).collect() }
    }

    fn gateways<'a>(list: impl IntoIterator<Item = (&'a str, Wanted)>) -> BTreeMap<NamespacedName, Wanted> {
        list.into_iter().map(|(gateway, wanted)| (name(gateway), wanted)).collect()
    }

    /// The machine has loopback addresses but 127.0.0.3, and 192.0.2.1.
    fn usable(ip: IpAddr) -> Result<(), String> {
        let text = ip.to_string();
        if text == "192.0.2.1" || (ip.is_loopback() && text != "127.0.0.3") {
            Ok(())
        } else {
            Err("not assigned".into())
        }
    }

    fn in_force(bindings: &Bindings, gateway: &str) -> Vec<String> {
        bindings.in_force()[&name(gateway)].addresses.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn alone_on_its_ports_it_has_all_addresses() {
        let mut bindings = Bindings::new(BindingOptions { port_offset: 8000, loopback: false }, &BTreeMap::new());
        let changes = bindings.update(&gateways([("a", wanted(&[80], &[])), ("b", wanted(&[81], &[]))]), &usable);
        assert_eq!(changes.len(), 2);
        let expected = Binding {
            addresses: vec![],
            port_offset: 8000,
            status: vec![("IPAddress".into(), "127.0.0.1".into())],
            unusable: vec![],
            logs: false,
        };
        assert_eq!(bindings.in_force()[&name("a")], expected);
    }

    #[test]
    fn colliding_ones_get_addresses_of_their_own() {
        let mut bindings = Bindings::default();
        let world = gateways([
            ("a", wanted(&[80, 443], &[])),
            ("b", wanted(&[443], &[])),
            ("c", wanted(&[8080], &[])),
            ("d", wanted(&[80], &[])),
        ]);
        bindings.update(&world, &usable);
        assert_eq!(in_force(&bindings, "a"), ["127.0.0.2"]);
        assert_eq!(in_force(&bindings, "b"), ["127.0.0.4"], "127.0.0.3 is not usable");
        assert_eq!(in_force(&bindings, "c"), [] as [&str; 0]);
        assert_eq!(in_force(&bindings, "d"), ["127.0.0.5"]);
        assert_eq!(*bindings.in_force()[&name("d")].status[0].1, *"127.0.0.5");
    }

    #[test]
    fn what_is_assigned_stays() {
        let mut bindings = Bindings::default();
        bindings.update(&gateways([("b", wanted(&[80], &[])), ("c", wanted(&[80], &[]))]), &usable);
        assert_eq!(
            (in_force(&bindings, "b"), in_force(&bindings, "c")),
            (vec!["127.0.0.2".into()], vec!["127.0.0.4".into()])
        );
        let changes = bindings.update(
            &gateways([("a", wanted(&[80], &[])), ("b", wanted(&[80], &[])), ("c", wanted(&[80], &[]))]),
            &usable,
        );
        assert_eq!(changes.iter().map(|(gateway, _)| gateway.clone()).collect::<Vec<_>>(), [name("a")]);
        assert_eq!(in_force(&bindings, "a"), ["127.0.0.5"]);
        // The collision is over; the address stays.
        let changes = bindings.update(&gateways([("b", wanted(&[80], &[]))]), &usable);
        assert_eq!(changes, [(name("a"), None), (name("c"), None)]);
        assert_eq!(in_force(&bindings, "b"), ["127.0.0.2"]);
    }

    #[test]
    fn who_listens_everywhere_stays_there_when_another_comes() {
        let mut bindings = Bindings::default();
        bindings.update(&gateways([("b", wanted(&[80], &[]))]), &usable);
        bindings.update(&gateways([("a", wanted(&[80], &[])), ("b", wanted(&[80], &[]))]), &usable);
        assert_eq!((in_force(&bindings, "a"), in_force(&bindings, "b")), (vec!["127.0.0.2".to_string()], vec![]));
    }

    #[test]
    fn an_earlier_process_decided() {
        let assigned = BTreeMap::from([(name("a"), vec![]), (name("b"), vec!["127.0.0.9".parse().unwrap()])]);
        let mut bindings = Bindings::new(BindingOptions::default(), &assigned);
        bindings.update(
            &gateways([("a", wanted(&[80], &[])), ("b", wanted(&[80], &[])), ("c", wanted(&[80], &[]))]),
            &usable,
        );
        assert_eq!(in_force(&bindings, "a"), [] as [&str; 0]);
        assert_eq!(in_force(&bindings, "b"), ["127.0.0.9"]);
        assert_eq!(in_force(&bindings, "c"), ["127.0.0.2"]);
    }

    #[test]
    fn addresses_of_the_spec_are_honoured_or_reported() {
        let mut bindings = Bindings::default();
        let asks = [Some("192.0.2.1"), Some("203.0.113.7"), Some("127.0.0.2"), None];
        bindings.update(&gateways([("a", wanted(&[80], &asks)), ("b", wanted(&[80], &[]))]), &usable);
        let binding = &bindings.in_force()[&name("a")];
        assert_eq!(
            in_force(&bindings, "a"),
            ["192.0.2.1", "127.0.0.2", "127.0.0.4"],
            "127.0.0.2 is asked for, .3 is not usable"
        );
        assert_eq!(binding.unusable.len(), 1);
        assert_eq!(&*binding.unusable[0].0, "203.0.113.7");
        assert_eq!(binding.status.len(), 3);
        assert_eq!(
            in_force(&bindings, "b"),
            [] as [&str; 0],
            "addresses of the spec are no collision with all addresses"
        );
    }

    #[test]
    fn nothing_usable_is_not_everywhere() {
        let mut bindings = Bindings::default();
        bindings.update(&gateways([("a", wanted(&[80], &[Some("203.0.113.7")]))]), &usable);
        let binding = &bindings.in_force()[&name("a")];
        assert!(binding.addresses.is_empty() && binding.status.is_empty() && binding.unusable.len() == 1);
        let name_only = GatewayAddress { kind: "Hostname".into(), value: Some("shop.example".into()) };
        let wanted = Wanted { ports: [80].into(), addresses: vec![name_only] };
        bindings.update(&gateways([("a", wanted)]), &usable);
        let binding = &bindings.in_force()[&name("a")];
        assert!(binding.addresses.is_empty() && binding.unusable[0].1.contains("Hostname"), "{binding:?}");
    }

    #[test]
    fn loopback_addresses_for_all() {
        let mut bindings = Bindings::new(BindingOptions { port_offset: 0, loopback: true }, &BTreeMap::new());
        bindings.update(&gateways([("a", wanted(&[80], &[])), ("b", wanted(&[81], &[]))]), &usable);
        assert_eq!(
            (in_force(&bindings, "a"), in_force(&bindings, "b")),
            (vec!["127.0.0.2".into()], vec!["127.0.0.4".into()])
        );
    }
}
