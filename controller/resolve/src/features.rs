//! The features of the Gateway API's conformance suite, which of them Portolan has, and which of those the installed CRDs can express.
//!
//! The one table for `GatewayClass.status.supportedFeatures` and the documentation. A feature is claimed when it works, not before.

use portolan_model::ir::{Bundle, Installed};
use portolan_model::{Kind, Name};

/// A feature by the name that the suite gives it (`pkg/features` of the Gateway API).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Feature {
    pub name: &'static str,
    pub state: State,
    /// The first release that has it, as the minor version of 1.x; [`OLDEST`] for what is older
    pub since: u64,
    /// The first release that has it in the standard channel; `None`: none yet
    pub standard: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Works and is claimed
    Supported,
    /// Works in a cluster, which gives addresses and has objects for proxies; claimed there
    InCluster,
    /// To come; until then what asks for it says so in a condition
    Later,
}

use State::{InCluster, Later, Supported};

/// The releases of the Gateway API that Portolan knows, as minor versions of 1.x.
pub const OLDEST: u64 = 5;
pub const NEWEST: u64 = 7;

/// Every feature that concerns Gateways, by name: "Features must be listed in ascending alphabetical order"
/// (GatewayClassStatus.supportedFeatures).
pub const FEATURES: [Feature; 48] = {
    const fn feature(name: &'static str, state: State) -> Feature {
        Feature { name, state, since: OLDEST, standard: Some(OLDEST) }
    }
    [
        feature("BackendTLSPolicy", Later),
        feature("BackendTLSPolicySANValidation", Later),
        feature("GRPCRoute", Supported),
        feature("GRPCRouteNamedRouteRule", Supported),
        feature("Gateway", Supported),
        feature("GatewayAddressEmpty", InCluster),
        feature("GatewayBackendClientCertificate", Later),
        feature("GatewayFrontendClientCertificateValidation", Later),
        feature("GatewayFrontendClientCertificateValidationInsecureFallback", Later),
        feature("GatewayHTTPListenerIsolation", Supported),
        feature("GatewayHTTPSListenerDetectMisdirectedRequests", Supported),
        Feature { since: 6, standard: Some(6), ..feature("GatewayInfrastructure", InCluster) },
        feature("GatewayPort8080", Supported),
        feature("GatewayStaticAddresses", InCluster),
        feature("HTTPRoute", Supported),
        feature("HTTPRoute303RedirectStatusCode", Supported),
        feature("HTTPRoute307RedirectStatusCode", Supported),
        feature("HTTPRoute308RedirectStatusCode", Supported),
        feature("HTTPRouteBackendProtocolH2C", Supported),
        feature("HTTPRouteBackendProtocolWebSocket", Supported),
        feature("HTTPRouteBackendRequestHeaderModification", Supported),
        feature("HTTPRouteBackendTimeout", Supported),
        feature("HTTPRouteCORS", Supported),
        // Experimental to upstream, though all that it takes is parentRefs[].port, which the standard channel has.
        feature("HTTPRouteDestinationPortMatching", Supported),
        feature("HTTPRouteHostRewrite", Supported),
        feature("HTTPRouteMethodMatching", Supported),
        feature("HTTPRouteNamedRouteRule", Supported),
        feature("HTTPRouteParentRefPort", Supported),
        feature("HTTPRoutePathRedirect", Supported),
        feature("HTTPRoutePathRewrite", Supported),
        feature("HTTPRoutePortRedirect", Supported),
        feature("HTTPRouteQueryParamMatching", Supported),
        feature("HTTPRouteRequestMirror", Supported),
        feature("HTTPRouteRequestMultipleMirrors", Supported),
        feature("HTTPRouteRequestPercentageMirror", Supported),
        feature("HTTPRouteRequestTimeout", Supported),
        feature("HTTPRouteResponseHeaderModification", Supported),
        Feature { since: 6, standard: None, ..feature("HTTPRouteRetry", Later) },
        Feature { since: 6, standard: None, ..feature("HTTPRouteRetryBackendTimeout", Later) },
        Feature { since: 6, standard: Some(7), ..feature("HTTPRouteRetryConnectionError", Later) },
        feature("HTTPRouteSchemeRedirect", Supported),
        feature("ListenerSet", Supported),
        feature("ReferenceGrant", Supported),
        Feature { since: 6, standard: Some(6), ..feature("TCPRoute", Later) },
        feature("TLSRoute", Later),
        Feature { since: 5, standard: Some(7), ..feature("TLSRouteModeMixed", Later) },
        feature("TLSRouteModeTerminate", Later),
        Feature { since: 5, standard: Some(6), ..feature("UDPRoute", Later) },
    ]
};

/// The names of the features that are claimed, in order: those that work and that objects can ask for. `None`: all of them can.
pub fn claimed(installed: Option<&Installed>) -> impl Iterator<Item = &'static str> {
    let is_claimed = move |feature: &&Feature| match feature.state {
        Supported => installed.is_none_or(|installed| feature.can_be_asked_for(installed)),
        InCluster => installed.is_some_and(|installed| feature.can_be_asked_for(installed)),
        Later => false,
    };
    FEATURES.iter().filter(is_claimed).map(|feature| feature.name)
}

impl Feature {
    /// The kind whose objects ask for it, which its name begins with.
    #[must_use]
    pub fn kind(&self) -> Option<Kind> {
        Kind::ALL.into_iter().filter(|kind| self.name.starts_with(kind.as_str())).max_by_key(|kind| kind.as_str().len())
    }

    fn can_be_asked_for(&self, installed: &Installed) -> bool {
        let Some(kind) = self.kind() else { return false };
        if installed.absent.contains(&kind) || installed.denied.contains_key(&kind) {
            return false;
        }
        let release = match &installed.crds {
            Some(crds) => crds.get(&kind).and_then(|bundle| Release::of(bundle.as_ref()?)),
            // Nobody knows: what each of them has.
            None => Some(Release { minor: OLDEST, experimental: false }),
        };
        release.is_some_and(|release| {
            let since = if release.experimental { Some(self.since) } else { self.standard };
            since.is_some_and(|since| since <= release.minor)
        })
    }
}

/// What a release can express.
struct Release {
    minor: u64,
    experimental: bool,
}

impl Release {
    /// `None`: one of which nothing is known.
    fn of(bundle: &Bundle) -> Option<Self> {
        let (major, minor) = version(&bundle.version)?;
        if (major, minor) > (1, NEWEST) {
            // What is standard stays; what is experimental may be gone or mean something else.
            return Some(Self { minor: NEWEST, experimental: false });
        }
        is_supported(bundle).then(|| Self { minor, experimental: &*bundle.channel == "experimental" })
    }
}

/// Whether the CRD is of a release that Portolan knows.
#[must_use]
pub fn is_supported(bundle: &Bundle) -> bool {
    version(&bundle.version).is_some_and(|version| ((1, OLDEST)..=(1, NEWEST)).contains(&version))
        && matches!(&*bundle.channel, "standard" | "experimental")
}

/// Major and minor version of `v1.6.3` or `v1.7.0-rc.1`.
fn version(text: &Name) -> Option<(u64, u64)> {
    let mut parts = text.strip_prefix('v')?.splitn(3, '.');
    let mut number = || parts.next()?.parse().ok();
    Some((number()?, number()?))
}

#[cfg(test)]
mod tests;
