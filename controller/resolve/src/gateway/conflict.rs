//! Which listeners conflict.
//!
//! "Each Listener in a set of Listeners MUST be distinct": HTTP, HTTPS and TLS by port and hostname, TCP and UDP by port; protocols
//! that cannot be told apart do not share a port (GatewaySpec.listeners). Within one object "the implementation MUST NOT pick one
//! conflicting Listener as the winner". Between objects there is an order (GEP-1713): the Gateway, then its ListenerSets from the
//! oldest; there the loser alone is conflicted.
//!
//! A conflicted listener goes on holding its port and hostname against objects of lower precedence: a mistake in the Gateway does not
//! hand its hostname to a ListenerSet. Listeners of protocols that are not served lose to those that are and hold nothing ("If an
//! implementation does not support TCP Protocol Listeners, then the previous rule does not apply").

use std::collections::{BTreeMap, BTreeSet};

use portolan_model::objects::{ListenerSpec, Protocol};
use portolan_model::{Name, ObjectKey, Reason};

/// What can share a port: one group by hostname, different groups not at all.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Group {
    Http,
    /// HTTPS and TLS: told apart by SNI
    Tls,
    Tcp,
    /// Its ports are others than TCP's
    Udp,
}

const fn group(protocol: &Protocol) -> Option<Group> {
    match protocol {
        Protocol::Http => Some(Group::Http),
        Protocol::Https | Protocol::Tls => Some(Group::Tls),
        Protocol::Tcp => Some(Group::Tcp),
        Protocol::Udp => Some(Group::Udp),
        Protocol::Other(_) => None,
    }
}

/// Whether listeners of the protocol are served.
pub(super) const fn is_served(protocol: &Protocol) -> bool {
    matches!(protocol, Protocol::Http | Protocol::Https)
}

/// A listener in the order of precedence.
pub(super) struct Candidate<'a> {
    pub parent: &'a ObjectKey,
    pub spec: &'a ListenerSpec,
}

/// Why a listener cannot stand, for people.
pub(super) struct Conflict<'a> {
    pub reason: Reason,
    /// The first of those that it conflicts with
    pub with: Option<&'a Candidate<'a>>,
}

/// Finds the other side of a conflict.
pub(super) fn with<'a>(candidates: &'a [Candidate<'a>], loser: &Candidate<'_>, reason: Reason) -> Conflict<'a> {
    let is_other = |other: &&Candidate<'_>| {
        let (own, of_other) = (group(&loser.spec.protocol), group(&other.spec.protocol));
        !std::ptr::eq(other.spec, loser.spec)
            && other.spec.port == loser.spec.port
            // The others hold nothing.
            && is_served(&other.spec.protocol)
            && match reason {
                Reason::ProtocolConflict => own != of_other,
                _ => own == of_other && other.spec.hostname == loser.spec.hostname,
            }
    };
    Conflict { reason, with: candidates.iter().find(is_other) }
}

/// What is taken on a port.
type Claims = BTreeMap<u16, BTreeMap<Group, BTreeSet<Option<Name>>>>;

/// For each listener the reason of its conflict, if it is in one.
pub(super) fn judge(candidates: &[Candidate<'_>]) -> Vec<Option<Reason>> {
    let mut claims = Claims::new();
    let mut verdicts: Vec<Option<Reason>> = Vec::with_capacity(candidates.len());
    for siblings in candidates.chunk_by(|one, other| one.parent == other.parent) {
        let served = |candidate: &&Candidate<'_>| is_served(&candidate.spec.protocol);
        let mut own = Claims::new();
        let mut counts: BTreeMap<(u16, Group, &Option<Name>), usize> = BTreeMap::new();
        for candidate in siblings.iter().filter(served) {
            if lost_to(&claims, candidate.spec).is_none()
                && let Some(group) = group(&candidate.spec.protocol)
            {
                claim(&mut own, candidate.spec, group);
                *counts.entry((candidate.spec.port, group, &candidate.spec.hostname)).or_default() += 1;
            }
        }
        for candidate in siblings {
            let spec = candidate.spec;
            let repeated = || {
                let key = (spec.port, group(&spec.protocol)?, &spec.hostname);
                (counts.get(&key).is_some_and(|count| *count > 1)).then_some(Reason::HostnameConflict)
            };
            let among_own = || {
                if is_served(&spec.protocol) {
                    protocol_conflict(&own, spec).or_else(repeated)
                } else {
                    lost_to(&own, spec)
                }
            };
            verdicts.push(lost_to(&claims, spec).or_else(among_own));
        }
        for (port, groups) in own {
            let port = claims.entry(port).or_default();
            for (group, hostnames) in groups {
                port.entry(group).or_default().extend(hostnames);
            }
        }
    }
    verdicts
}

fn claim(claims: &mut Claims, spec: &ListenerSpec, group: Group) {
    claims.entry(spec.port).or_default().entry(group).or_default().insert(spec.hostname.clone());
}

/// Why a listener cannot stand beside what is claimed already.
fn lost_to(claims: &Claims, spec: &ListenerSpec) -> Option<Reason> {
    let taken = || claims.get(&spec.port)?.get(&group(&spec.protocol)?)?.contains(&spec.hostname).then_some(());
    protocol_conflict(claims, spec).or_else(|| taken().map(|()| Reason::HostnameConflict))
}

fn protocol_conflict(claims: &Claims, spec: &ListenerSpec) -> Option<Reason> {
    let own = group(&spec.protocol)?;
    let others = claims.get(&spec.port)?.keys();
    let conflicts = |other: &Group| *other != own && own != Group::Udp && *other != Group::Udp;
    others.into_iter().any(conflicts).then_some(Reason::ProtocolConflict)
}

#[cfg(test)]
mod tests {
    use super::*;
    use portolan_model::objects::{AllowedRoutes, FromNamespaces};
    use portolan_model::{Kind, NamespacedName};

    fn listener(port: u16, protocol: Protocol, hostname: Option<&str>) -> ListenerSpec {
        ListenerSpec {
            name: "l".into(),
            hostname: hostname.map(Name::from),
            port,
            protocol,
            tls: None,
            allowed_routes: AllowedRoutes { from: FromNamespaces::Same, kinds: vec![] },
        }
    }

    fn verdicts(objects: &[&[ListenerSpec]]) -> Vec<Vec<Option<Reason>>> {
        let keys: Vec<_> = (0..objects.len())
            .map(|index| ObjectKey::new(Kind::ListenerSet, NamespacedName::new("n", format!("o{index}"))))
            .collect();
        let candidates: Vec<_> = objects
            .iter()
            .zip(&keys)
            .flat_map(|(listeners, parent)| listeners.iter().map(move |spec| Candidate { parent, spec }))
            .collect();
        let mut flat = judge(&candidates).into_iter();
        objects.iter().map(|listeners| flat.by_ref().take(listeners.len()).collect()).collect()
    }

    const HOSTNAME: Option<Reason> = Some(Reason::HostnameConflict);
    const PROTOCOL: Option<Reason> = Some(Reason::ProtocolConflict);

    #[test]
    fn within_one_object_nobody_wins() {
        let http = |port, host| listener(port, Protocol::Http, host);
        let https = |port, host| listener(port, Protocol::Https, host);
        let own = [
            http(80, Some("a.test")),
            http(80, Some("a.test")),
            http(80, Some("b.test")),
            http(81, None),
            https(81, None),
            https(443, Some("a.test")),
            https(443, Some("*.a.test")),
        ];
        assert_eq!(verdicts(&[&own]), [[HOSTNAME, HOSTNAME, None, PROTOCOL, PROTOCOL, None, None]]);
    }

    #[test]
    fn between_objects_the_later_loses_alone() {
        let gateway = [listener(80, Protocol::Http, Some("a.test"))];
        let first = [listener(80, Protocol::Http, Some("a.test")), listener(80, Protocol::Http, Some("b.test"))];
        let second = [listener(80, Protocol::Http, Some("b.test")), listener(80, Protocol::Https, Some("c.test"))];
        assert_eq!(
            verdicts(&[&gateway, &first, &second]),
            [vec![None], vec![HOSTNAME, None], vec![HOSTNAME, PROTOCOL]]
        );
    }

    #[test]
    fn a_conflicted_listener_still_holds_its_hostname() {
        let gateway = [listener(80, Protocol::Http, Some("a.test")), listener(80, Protocol::Http, Some("a.test"))];
        let set = [listener(80, Protocol::Http, Some("a.test"))];
        assert_eq!(verdicts(&[&gateway, &set]), [vec![HOSTNAME, HOSTNAME], vec![HOSTNAME]]);
    }

    #[test]
    fn protocols_that_are_not_served_lose_and_hold_nothing() {
        let gateway = [listener(80, Protocol::Tcp, None), listener(81, Protocol::Tcp, None)];
        let set =
            [listener(80, Protocol::Http, None), listener(80, Protocol::Tcp, None), listener(80, Protocol::Udp, None)];
        assert_eq!(verdicts(&[&gateway, &set]), [vec![None, None], vec![None, PROTOCOL, None]]);
        let mixed = [listener(80, Protocol::Tcp, None), listener(80, Protocol::Http, None)];
        assert_eq!(verdicts(&[&mixed]), [[PROTOCOL, None]]);
        let tls = [listener(443, Protocol::Tls, Some("a.test")), listener(443, Protocol::Https, Some("a.test"))];
        assert_eq!(verdicts(&[&tls]), [[HOSTNAME, None]]);
        let unknown = [listener(80, Protocol::Other("X".into()), None), listener(80, Protocol::Http, None)];
        assert_eq!(verdicts(&[&unknown]), [[None, None]]);
    }
}
