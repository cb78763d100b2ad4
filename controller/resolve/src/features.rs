//! The features of the Gateway API's conformance suite, and which of them Portolan has.
//!
//! The one table for `GatewayClass.status.supportedFeatures` and the documentation. A feature is claimed when it works, not before.

/// A feature by the name that the suite gives it (`pkg/features` of the Gateway API).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Feature {
    pub name: &'static str,
    pub state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Works and is claimed
    Supported,
    /// To come; until then what asks for it says so in a condition
    Later,
}

use State::{Later, Supported};

/// Every feature that concerns Gateways, by name: "Features must be listed in ascending alphabetical order"
/// (GatewayClassStatus.supportedFeatures).
pub const FEATURES: [Feature; 48] = {
    const fn feature(name: &'static str, state: State) -> Feature {
        Feature { name, state }
    }
    [
        feature("BackendTLSPolicy", Later),
        feature("BackendTLSPolicySANValidation", Later),
        feature("GRPCRoute", Supported),
        feature("GRPCRouteNamedRouteRule", Supported),
        feature("Gateway", Supported),
        feature("GatewayAddressEmpty", Later),
        feature("GatewayBackendClientCertificate", Later),
        feature("GatewayFrontendClientCertificateValidation", Later),
        feature("GatewayFrontendClientCertificateValidationInsecureFallback", Later),
        feature("GatewayHTTPListenerIsolation", Supported),
        feature("GatewayHTTPSListenerDetectMisdirectedRequests", Supported),
        feature("GatewayInfrastructure", Later),
        feature("GatewayPort8080", Supported),
        feature("GatewayStaticAddresses", Later),
        feature("HTTPRoute", Supported),
        feature("HTTPRoute303RedirectStatusCode", Supported),
        feature("HTTPRoute307RedirectStatusCode", Supported),
        feature("HTTPRoute308RedirectStatusCode", Supported),
        feature("HTTPRouteBackendProtocolH2C", Supported),
        feature("HTTPRouteBackendProtocolWebSocket", Supported),
        feature("HTTPRouteBackendRequestHeaderModification", Supported),
        feature("HTTPRouteBackendTimeout", Supported),
        feature("HTTPRouteCORS", Supported),
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
        feature("HTTPRouteRetry", Later),
        feature("HTTPRouteRetryBackendTimeout", Later),
        feature("HTTPRouteRetryConnectionError", Later),
        feature("HTTPRouteSchemeRedirect", Supported),
        feature("ListenerSet", Supported),
        feature("ReferenceGrant", Supported),
        feature("TCPRoute", Later),
        feature("TLSRoute", Later),
        feature("TLSRouteModeMixed", Later),
        feature("TLSRouteModeTerminate", Later),
        feature("UDPRoute", Later),
    ]
};

/// The names of the features that are claimed, in order.
pub fn supported() -> impl Iterator<Item = &'static str> {
    FEATURES.iter().filter(|feature| feature.state == Supported).map(|feature| feature.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_in_order() {
        assert!(FEATURES.is_sorted_by(|one, other| one.name < other.name));
    }
}
