//! ReferenceGrant and BackendTLSPolicy.

use std::collections::BTreeMap;

use super::{Meta, ObjectRef};
use crate::Name;

/// `gateway.networking.k8s.io/v1` ReferenceGrant: objects of `from` may refer to `to` in the grant's own namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReferenceGrant {
    pub meta: Meta,
    pub from: Vec<GrantFrom>,
    pub to: Vec<GrantTo>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrantFrom {
    pub group: Name,
    pub kind: Name,
    pub namespace: Name,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrantTo {
    pub group: Name,
    pub kind: Name,
    /// `None`: every object of the kind
    pub name: Option<Name>,
}

/// `gateway.networking.k8s.io/v1` BackendTLSPolicy (GEP-1897).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackendTlsPolicy {
    pub meta: Meta,
    pub targets: Vec<PolicyTarget>,
    pub hostname: Name,
    pub ca_certificate_refs: Vec<ObjectRef>,
    /// `System`, or a value of a newer API
    pub well_known_ca_certificates: Option<Name>,
    pub subject_alt_names: Vec<SubjectAltName>,
    pub options: BTreeMap<Name, Name>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyTarget {
    pub group: Name,
    pub kind: Name,
    pub name: Name,
    pub section_name: Option<Name>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SubjectAltName {
    Hostname(Name),
    Uri(Name),
    Unknown(Name),
}
