//! Conditions and their reasons, declared once.

use std::fmt;
use std::sync::Arc;

macro_rules! names {
    ($(#[$meta:meta])* $name:ident { $($(#[$doc:meta])* $variant:ident),* $(,)? }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum $name { $($(#[$doc])* $variant),* }

        impl $name {
            /// Every value, in the order of the table.
            pub const ALL: &[Self] = &[$(Self::$variant),*];

            /// As it stands in a status.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => stringify!($variant)),* }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.as_str())
            }
        }
    };
}

names! {
    /// Types of conditions: the Gateway API's.
    ConditionType {
        Accepted,
        Programmed,
        ResolvedRefs,
        /// Present and True only on a listener that lost a conflict
        Conflicted,
        /// A route of which some rules were dropped
        PartiallyInvalid,
        /// HTTPS listeners of one port whose hostnames overlap (Listener.hostname)
        OverlappingTLSConfig,
        /// GatewayClass: whether the installed CRDs are ones that Portolan supports
        SupportedVersion,
        /// A Gateway that takes clients without a valid certificate
        InsecureFrontendValidationMode,
    }
}

names! {
    /// Reasons: the Gateway API's, with the object they belong to.
    Reason {
        Accepted,
        Programmed,
        ResolvedRefs,
        /// Gateway, listener: nothing wrong, not yet at the proxies
        Pending,
        Invalid,
        NoResources,
        AddressNotAssigned,
        AddressNotUsable,
        UnsupportedAddress,
        InvalidParameters,
        /// Gateway: some or all listeners are not valid
        ListenersNotValid,
        ListenersNotResolved,
        /// ListenerSet that the Gateway's allowedListeners refuses
        NotAllowed,
        ParentNotAccepted,
        ParentNotProgrammed,
        HostnameConflict,
        ProtocolConflict,
        NoConflicts,
        PortUnavailable,
        UnsupportedProtocol,
        UnsupportedValue,
        InvalidRouteKinds,
        InvalidCertificateRef,
        InvalidCACertificateRef,
        InvalidCACertificateKind,
        NoValidCACertificate,
        InvalidClientCertificateRef,
        RefNotPermitted,
        OverlappingHostnames,
        OverlappingCertificates,
        /// Route: parentRef names a listener or port that is not there
        NoMatchingParent,
        NotAllowedByListeners,
        NoMatchingListenerHostname,
        IncompatibleFilters,
        InvalidKind,
        BackendNotFound,
        Conflicted,
        SupportedVersion,
        UnsupportedVersion,
        ConfigurationChanged,
        /// Policy without a target
        TargetNotFound,
    }
}

/// A condition as the objects call for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    pub kind: ConditionType,
    pub status: bool,
    pub reason: Reason,
    /// For people: names the object, what is wrong and what to do
    pub message: Arc<str>,
    /// Nothing is wrong by the status, yet people should read the message: a field that it names has no effect
    pub attention: bool,
}

impl Condition {
    #[must_use]
    pub fn new(kind: ConditionType, status: bool, reason: Reason, message: impl Into<Arc<str>>) -> Self {
        Self { kind, status, reason, message: message.into(), attention: false }
    }

    /// The same, marked for people's attention.
    #[must_use]
    pub fn with_attention(self, attention: bool) -> Self {
        Self { attention, ..self }
    }

    /// Whether it says that something is wrong. Conditions of negative polarity are wrong when True; what is pending is not wrong.
    #[must_use]
    pub fn is_problem(&self) -> bool {
        let bad_when = matches!(
            self.kind,
            ConditionType::Conflicted | ConditionType::PartiallyInvalid | ConditionType::InsecureFrontendValidationMode
        );
        self.status == bad_when && self.reason != Reason::Pending
    }
}
