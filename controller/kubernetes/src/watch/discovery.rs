//! Which kinds the API server has, and in which version.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use kube::{Client, Error};
use portolan_model::{Kind, read};

use super::follow::Trouble;
use super::freshness::LIMIT;
use super::wire::{Slim, plural};
use crate::Bundle;

/// What the API server has of one kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Availability {
    /// In this version, the one that [`read::versions`] prefers among those that are served
    Served(Arc<str>),
    Absent,
}

/// The kinds that are served, of all that Portolan reads. Kubernetes' own are not asked for: they are always there.
pub(crate) async fn discover(client: &Client) -> Result<BTreeMap<Kind, Availability>, Trouble> {
    let mut served = BTreeSet::new();
    for group in Kind::ALL.iter().filter(|kind| !is_builtin(**kind)).map(|kind| kind.group()).collect::<BTreeSet<_>>() {
        for version in versions(client, group).await? {
            let list = client.list_api_group_resources(&format!("{group}/{version}")).await;
            for resource in absent_is_empty(list.map(|list| list.resources))? {
                let verbs = &resource.verbs;
                if let Some(kind) = Kind::find(group, &resource.kind)
                    && resource.name == plural(kind)
                    && ["list", "watch"].iter().all(|verb| verbs.iter().any(|known| known == verb))
                {
                    served.insert((kind, version.clone()));
                }
            }
        }
    }
    Ok(Kind::ALL.into_iter().map(|kind| (kind, choose(kind, &served))).collect())
}

/// The versions of a group; none where there is no such group.
async fn versions(client: &Client, group: &str) -> Result<Vec<String>, Trouble> {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::APIGroup;
    let request = http::Request::get(format!("/apis/{group}")).body(Vec::new()).map_err(Error::HttpError)?;
    let answer = client.request::<APIGroup>(request).await;
    absent_is_empty(answer.map(|group| group.versions.into_iter().map(|version| version.version).collect()))
}

fn absent_is_empty<T>(answer: Result<Vec<T>, Error>) -> Result<Vec<T>, Trouble> {
    match answer.map_err(Trouble::from) {
        Err(Trouble::Missing(_)) => Ok(Vec::new()),
        answer => answer,
    }
}

const fn is_builtin(kind: Kind) -> bool {
    matches!(kind, Kind::Namespace | Kind::Service | Kind::EndpointSlice | Kind::Secret | Kind::ConfigMap)
}

fn choose(kind: Kind, served: &BTreeSet<(Kind, String)>) -> Availability {
    let is_served = |version: &&str| is_builtin(kind) || served.contains(&(kind, (*version).to_owned()));
    read::versions(kind)
        .find(is_served)
        .map_or(Availability::Absent, |version| Availability::Served(Arc::from(version)))
}

/// Kinds that discovery does not name, and since when.
///
/// An API server that has just started answers before it knows of all CRDs. Were it believed, every route would be gone for a moment; so
/// discovery is believed at once only about what is there. The list of CRDs comes from the storage, and is.
#[derive(Debug, Default)]
pub(crate) struct Absences(BTreeMap<Kind, Instant>);

impl Absences {
    /// How long a kind must be absent that has been there, or whose CRD is there (it may serve no version).
    const OF_WHAT_WAS_THERE: Duration = LIMIT;
    /// How long one that was never seen, where CRDs cannot be read.
    const OF_WHAT_WAS_NEVER_SEEN: Duration = Duration::from_secs(5);

    /// What to believe. Kinds in doubt stay as they were, or unknown. `crds`: the kinds that have one, if that is known
    pub fn judge(
        &mut self,
        known: &BTreeMap<Kind, Availability>,
        discovered: BTreeMap<Kind, Availability>,
        crds: Option<&BTreeSet<Kind>>,
        now: Instant,
    ) -> BTreeMap<Kind, Availability> {
        let mut believed = BTreeMap::new();
        for (kind, availability) in discovered {
            if availability != Availability::Absent {
                self.0.remove(&kind);
                believed.insert(kind, availability);
                continue;
            }
            let age = now.saturating_duration_since(*self.0.entry(kind).or_insert(now));
            let was_there = matches!(known.get(&kind), Some(Availability::Served(_)));
            let patience = match crds {
                Some(crds) if !crds.contains(&kind) => Duration::ZERO,
                None if !was_there => Self::OF_WHAT_WAS_NEVER_SEEN,
                _ => Self::OF_WHAT_WAS_THERE,
            };
            if age >= patience || known.get(&kind) == Some(&Availability::Absent) {
                believed.insert(kind, Availability::Absent);
            } else {
                believed.extend(known.get(&kind).map(|before| (kind, before.clone())));
            }
        }
        believed
    }

    /// Whether an absence is not believed yet.
    pub fn is_in_doubt(&self, believed: &BTreeMap<Kind, Availability>) -> bool {
        self.0.keys().any(|kind| believed.get(kind) != Some(&Availability::Absent))
    }
}

/// The kind that a CRD defines, and its release of the Gateway API where it says so.
pub(crate) fn bundle(crd: &Slim) -> Option<(Kind, Option<Bundle>)> {
    let name = crd.metadata("name")?;
    let kind = Kind::ALL
        .into_iter()
        .find(|kind| !is_builtin(*kind) && name == format!("{}.{}", plural(*kind), kind.group()))?;
    let annotations = crd.annotations();
    let annotation = |name: &str| annotations.get(format!("gateway.networking.k8s.io/{name}").as_str()).cloned();
    let bundle = annotation("bundle-version").map(|version| Bundle {
        version,
        // Releases before v0.5 knew one only.
        channel: annotation("channel").unwrap_or_else(|| Arc::from("standard")),
    });
    Some((kind, bundle))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_version_that_can_be_read_is_chosen() {
        let served =
            |versions: &[&str]| versions.iter().map(|version| (Kind::TLSRoute, (*version).to_owned())).collect();
        let chosen = |versions: &[&str]| choose(Kind::TLSRoute, &served(versions));
        assert_eq!(chosen(&["v1alpha2", "v1alpha3", "v1"]), Availability::Served("v1".into()));
        assert_eq!(chosen(&["v1alpha2", "v1alpha3"]), Availability::Served("v1alpha3".into()));
        assert_eq!(chosen(&["v2"]), Availability::Absent);
        assert_eq!(chosen(&[]), Availability::Absent);
        assert_eq!(choose(Kind::Service, &BTreeSet::new()), Availability::Served("v1".into()));
    }

    #[test]
    fn an_api_server_that_has_just_started_is_not_believed_about_what_is_absent() {
        let now = Instant::now();
        let later = |seconds| now + Duration::from_secs(seconds);
        let kind = Kind::HTTPRoute;
        let absent = || BTreeMap::from([(kind, Availability::Absent)]);
        let served = || BTreeMap::from([(kind, Availability::Served("v1".into()))]);
        let (none, there) = (BTreeSet::new(), BTreeSet::from([kind]));

        let mut absences = Absences::default();
        assert_eq!(absences.judge(&served(), absent(), Some(&there), now), served());
        assert!(absences.is_in_doubt(&served()));
        assert_eq!(absences.judge(&served(), absent(), Some(&there), later(29)), served());
        assert_eq!(absences.judge(&served(), served(), Some(&there), later(29)), served());
        assert!(!absences.is_in_doubt(&served()));
        assert_eq!(absences.judge(&served(), absent(), Some(&there), later(30)), served(), "counted anew");
        assert_eq!(absences.judge(&served(), absent(), Some(&there), later(61)), absent());

        assert_eq!(Absences::default().judge(&served(), absent(), Some(&none), now), absent(), "its CRD is gone");
        let mut absences = Absences::default();
        let unknown = BTreeMap::new();
        assert_eq!(absences.judge(&unknown, absent(), Some(&there), now), unknown, "at the start, with its CRD");
        assert_eq!(absences.judge(&unknown, absent(), None, later(4)), unknown, "CRDs cannot be read");
        assert_eq!(absences.judge(&unknown, absent(), None, later(6)), absent());
        assert_eq!(absences.judge(&absent(), absent(), Some(&there), later(7)), absent(), "a CRD has just come");
    }
}
