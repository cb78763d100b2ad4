//! What a GatewayClass says about the kinds and CRDs that are installed.

use std::collections::BTreeSet;

use portolan_model::ir::{Bundle, Installed};
use portolan_model::{Condition, ConditionType, Kind, Name, Reason};

use crate::features::{NEWEST, OLDEST, is_supported};

/// Kinds that cannot be read, in a sentence; `None`: there are none (design invariant 7).
pub(crate) fn unreadable(installed: &Installed) -> Option<String> {
    let told = |(kind, words): (&Kind, &Name)| format!("{kind} ({})", words.trim_end_matches(['.', '\n']));
    let sentence =
        |kinds: Vec<String>, what: &str| (!kinds.is_empty()).then(|| format!("{what}: {}", kinds.join(", ")));
    let denied = sentence(
        installed.denied.iter().map(told).collect(),
        "Portolan may not read these kinds, and what is written there has no effect; give its ServiceAccount the rights of the chart's roles",
    );
    let failing = sentence(
        installed.failing.iter().map(told).collect(),
        "Portolan cannot follow these kinds at the moment, and their last known state stays in force",
    );
    let sentences: Vec<String> = denied.into_iter().chain(failing).collect();
    (!sentences.is_empty()).then(|| sentences.join(". "))
}

/// "If implementations detect any Gateway API CRDs that either do not have this annotation set, or have it set to a version that is not
/// recognized or supported by the implementation, this condition MUST be set to false". Portolan goes on with "best effort" support:
/// what serves does not stop because somebody installs a newer release.
pub(crate) fn supported_version(installed: &Installed) -> Condition {
    let unsupported =
        |message| Condition::new(ConditionType::SupportedVersion, false, Reason::UnsupportedVersion, message);
    let Some(crds) = &installed.crds else {
        return unsupported(
            "The CRDs of the Gateway API may not be read, so that their release is not known; let Portolan's ServiceAccount get, list and watch customresourcedefinitions".to_owned(),
        );
    };
    let named = |bundle: &Bundle| format!("{} ({} channel)", bundle.version, bundle.channel);
    let strange: Vec<String> = crds
        .iter()
        .filter_map(|(kind, bundle)| match bundle {
            Some(bundle) if is_supported(bundle) => None,
            Some(bundle) => Some(format!("{kind} is of {}", named(bundle))),
            None => Some(format!("{kind} has no annotation gateway.networking.k8s.io/bundle-version")),
        })
        .collect();
    if strange.is_empty() {
        let releases: BTreeSet<String> = crds.values().flatten().map(named).collect();
        let message = format!("The CRDs are of Gateway API {}", releases.into_iter().collect::<Vec<_>>().join(" and "));
        return Condition::new(ConditionType::SupportedVersion, true, Reason::SupportedVersion, message);
    }
    unsupported(format!(
        "CRDs of the Gateway API are of no release that is supported, which are v1.{OLDEST} to v1.{NEWEST}; Portolan serves what it knows of them. {}",
        strange.join("; ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use portolan_model::ir::Status;

    use crate::status;
    use crate::testing::{CLASS, TestWorld};

    fn bundle(version: &str, channel: &str) -> Bundle {
        Bundle { version: version.into(), channel: channel.into() }
    }

    fn conditions(installed: Option<Installed>) -> Vec<(ConditionType, bool, Reason, String)> {
        let mut world = TestWorld::read(CLASS).unwrap();
        world.installed = installed.map(Into::into);
        let Some(Status::GatewayClass { conditions, .. }) = status::gateway_class(&world, &"portolan".into()) else {
            panic!("no status")
        };
        conditions.into_iter().map(|it| (it.kind, it.status, it.reason, it.message.to_string())).collect()
    }

    fn with_crds(crds: &[(Kind, Option<Bundle>)]) -> Installed {
        Installed { crds: Some(crds.iter().cloned().collect()), ..Installed::default() }
    }

    #[test]
    fn an_unsupported_release_is_told_and_still_served() {
        use ConditionType::{Accepted, SupportedVersion};
        let of = |crds: &[(Kind, Option<Bundle>)]| conditions(Some(with_crds(crds)));
        let mixed = of(&[
            (Kind::Gateway, Some(bundle("v1.5.1", "standard"))),
            (Kind::HTTPRoute, Some(bundle("v1.7.0", "experimental"))),
            (Kind::TCPRoute, Some(bundle("v1.7.0", "experimental"))),
        ]);
        let message = "The CRDs are of Gateway API v1.5.1 (standard channel) and v1.7.0 (experimental channel)";
        assert_eq!(mixed[1], (SupportedVersion, true, Reason::SupportedVersion, message.into()));
        for (strange, words) in [
            (Some(bundle("v1.8.0", "standard")), "HTTPRoute is of v1.8.0 (standard channel)"),
            (Some(bundle("v1.4.1", "standard")), "HTTPRoute is of v1.4.1"),
            (None, "HTTPRoute has no annotation gateway.networking.k8s.io/bundle-version"),
        ] {
            let told = of(&[(Kind::Gateway, Some(bundle("v1.6.3", "standard"))), (Kind::HTTPRoute, strange)]);
            assert_eq!((told[0].0, told[0].1), (Accepted, true));
            let (kind, status, reason, message) = &told[1];
            assert_eq!((*kind, *status, *reason), (SupportedVersion, false, Reason::UnsupportedVersion));
            assert!(
                message.contains(words) && message.contains("v1.5 to v1.7") && !message.contains("Gateway is"),
                "{message}"
            );
        }
        assert!(!conditions(Some(Installed::default()))[1].1, "nobody knows");
        assert_eq!(conditions(None).len(), 1, "there are no CRDs where there is no API server");
    }

    #[test]
    fn kinds_that_cannot_be_read_are_named() {
        let denied = [(Kind::HTTPRoute, "httproutes is forbidden".into())].into();
        let failing = [(Kind::Service, "connection refused".into())].into();
        let told = conditions(Some(Installed { denied, failing, ..with_crds(&[]) }));
        let (_, status, _, message) = &told[0];
        assert!(*status);
        assert!(message.contains("no effect; give its ServiceAccount the rights of the chart's roles: HTTPRoute (httproutes is forbidden)"), "{message}");
        assert!(message.contains("Service (connection refused)"), "{message}");
        assert_eq!(conditions(Some(with_crds(&[])))[0].3, "Accepted");
    }
}
