use std::collections::BTreeMap;

use super::*;

/// What upstream says of each release.
const RELEASES: [(&str, &str); 3] = [
    ("v1.5.1", include_str!("../../testdata/features-v1.5.1.txt")),
    ("v1.6.3", include_str!("../../testdata/features-v1.6.3.txt")),
    ("v1.7.0", include_str!("../../testdata/features-v1.7.0.txt")),
];

fn bundle(version: &str, channel: &str) -> Bundle {
    Bundle { version: version.into(), channel: channel.into() }
}

/// All kinds of one release.
fn installed(bundle: Option<&Bundle>) -> Installed {
    let crds = Kind::ALL.into_iter().map(|kind| (kind, bundle.cloned())).collect();
    Installed { crds: Some(crds), ..Installed::default() }
}

fn claims(version: &str, channel: &str) -> Vec<&'static str> {
    claimed(Some(&installed(Some(&bundle(version, channel))))).collect()
}

#[test]
fn the_table_is_in_order_and_each_feature_is_of_a_kind() {
    assert!(FEATURES.is_sorted_by(|one, other| one.name < other.name));
    let kind = |name: &str| FEATURES.iter().find(|feature| feature.name == name).and_then(Feature::kind);
    assert!(FEATURES.iter().all(|feature| feature.kind().is_some()));
    assert_eq!(kind("GatewayStaticAddresses"), Some(Kind::Gateway));
    assert_eq!(kind("GRPCRouteNamedRouteRule"), Some(Kind::GRPCRoute));
    assert_eq!(kind("BackendTLSPolicySANValidation"), Some(Kind::BackendTLSPolicy), "not Backend's");
}

/// What the CRDs of the standard channel can express, and upstream calls experimental.
const EXPRESSIBLE: &str = "HTTPRouteDestinationPortMatching";

/// Of what works, that and only that is claimed which upstream has in the release and channel, but for [`EXPRESSIBLE`].
#[test]
fn claims_are_what_upstream_has_in_the_release_and_channel() {
    for (version, list) in RELEASES {
        let upstream: BTreeMap<&str, &str> =
            list.lines().filter(|line| !line.starts_with('#')).filter_map(|line| line.split_once(' ')).collect();
        assert_eq!(upstream[EXPRESSIBLE], "experimental", "else it is no exception any more");
        assert!(upstream.len() > 40);
        for channel in ["standard", "experimental"] {
            let expected: Vec<&str> = FEATURES
                .iter()
                .filter(|feature| feature.state != Later)
                .map(|feature| feature.name)
                .filter(|name| {
                    upstream
                        .get(name)
                        .is_some_and(|of| *of == "standard" || channel == "experimental" || *name == EXPRESSIBLE)
                })
                .collect();
            assert_eq!(claims(version, channel), expected, "{version} {channel}");
        }
        for feature in &FEATURES {
            let minor = self::version(&version.into()).unwrap().1;
            let (has, is_standard) = (upstream.get(feature.name), feature.standard.is_some_and(|since| since <= minor));
            if let Some(channel) = has {
                assert!(feature.since <= minor, "{version} {}", feature.name);
                assert_eq!(
                    *channel == "standard" || feature.name == EXPRESSIBLE,
                    is_standard,
                    "{version} {}",
                    feature.name
                );
            } else if minor < NEWEST {
                assert!(feature.since > minor, "{version} {}", feature.name);
            }
        }
    }
    assert_ne!(claims("v1.5.1", "standard"), claims("v1.6.3", "standard"), "or nothing was compared");
}

#[test]
fn a_kind_that_is_not_there_or_may_not_be_read_has_no_features() {
    let all = installed(Some(&bundle("v1.6.3", "experimental")));
    let of_grpc = |installed: &Installed| claimed(Some(installed)).any(|name| name.starts_with("GRPCRoute"));
    assert!(of_grpc(&all));
    assert!(!of_grpc(&Installed { absent: [Kind::GRPCRoute].into(), ..all.clone() }));
    assert!(!of_grpc(&Installed { denied: [(Kind::GRPCRoute, "no".into())].into(), ..all.clone() }));
    assert!(of_grpc(&Installed { failing: [(Kind::GRPCRoute, "away".into())].into(), ..all.clone() }), "it comes back");
    let mut without = all;
    without.crds.as_mut().unwrap().remove(&Kind::GRPCRoute);
    assert!(!of_grpc(&without));
}

#[test]
fn of_unknown_releases_the_least_is_claimed() {
    let standard = claims("v1.7.0", "standard");
    assert_eq!(claims("v1.8.0", "experimental"), standard);
    assert_eq!(claims("v2.0.0-rc.1", "standard"), standard);
    for version in ["v1.4.1", "v0.8.0", "main", "v", "", "1.6.3", "vx.y"] {
        assert_eq!(claims(version, "experimental"), [""; 0], "{version}");
    }
    assert_eq!(claimed(Some(&installed(None))).count(), 0, "no annotation");
    assert_eq!(claims("v1.6.3", "of somebody's own"), [""; 0]);
    let unread: Vec<&str> = claimed(Some(&Installed::default())).collect();
    assert_eq!(unread, claims("v1.5.1", "standard"));
    let is_everywhere = |name: &str| FEATURES.iter().any(|feature| feature.name == name && feature.state == Supported);
    let mut everywhere = claims("v1.7.0", "experimental");
    everywhere.retain(|name| is_everywhere(name));
    let all: Vec<&str> = claimed(None).collect();
    assert_eq!(all, everywhere, "without an API server everything that works there can be asked for");
}

#[test]
fn a_release_candidate_counts_as_its_release() {
    assert!(is_supported(&bundle("v1.6.0-rc.2", "standard")));
    assert!(!is_supported(&bundle("v1.8.0-rc.2", "standard")));
}

#[test]
fn what_is_experimental_takes_experimental_crds() {
    let can_be_asked_for = |version: &str, channel: &str| {
        let feature = Feature { name: "HTTPRouteLater", state: Supported, since: 6, standard: Some(7) };
        feature.can_be_asked_for(&installed(Some(&bundle(version, channel))))
    };
    let answers = ["v1.5.1", "v1.6.3", "v1.7.0"]
        .map(|version| ["standard", "experimental"].map(|channel| can_be_asked_for(version, channel)));
    assert_eq!(answers, [[false, false], [false, true], [true, true]]);
    let never = Feature { name: "HTTPRouteLater", state: Supported, since: 5, standard: None };
    assert!(!never.can_be_asked_for(&installed(Some(&bundle("v1.7.0", "standard")))));
}
