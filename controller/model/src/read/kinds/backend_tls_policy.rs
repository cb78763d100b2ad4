//! BackendTLSPolicy (GEP-1897).

use std::sync::Arc;

use super::super::document::Node;
use super::super::schema::{Choice, Fields, Pattern, Reader, Text};
use super::forms::{GROUP, HOSTNAME, KIND, LONG_VALUE, OBJECT_NAME, PRECISE_HOSTNAME, SECTION_NAME};
use super::references::local;
use crate::Name;
use crate::objects::{BackendTlsPolicy, Meta, ObjectRef, PolicyTarget, SubjectAltName};

pub(super) static URI: Pattern = Pattern::new(
    r"^(([^:/?#]+):)(//([^/?#]*))([^?#]*)(\?([^#]*))?(#(.*))?",
    "an absolute URI with an authority, such as `spiffe://example.net/service`",
);
pub(super) static WELL_KNOWN: Pattern = Pattern::new(
    r"^(System|([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/([A-Za-z0-9][-A-Za-z0-9_.]{0,61})?[A-Za-z0-9]))$",
    "`System`, or a domain, a slash and a name",
);
static URI_TEXT: Text = Text::formed(1, 253, &URI);
static WELL_KNOWN_TEXT: Text = Text::formed(1, 253, &WELL_KNOWN);
static SUBJECT_ALT_NAME_TYPE: Choice = Choice::of(&["Hostname", "URI"]);

pub(super) fn read(fields: &mut Fields<'_>, meta: Meta) -> BackendTlsPolicy {
    let targets = fields.required_list("targetRefs", 1..=16, target);
    check_targets(fields, &targets);
    let options = fields.text_map("options", 16, &LONG_VALUE);
    let validation = fields.required("validation", validation);
    BackendTlsPolicy {
        meta,
        targets,
        hostname: validation.hostname,
        ca_certificate_refs: validation.ca_certificate_refs,
        well_known_ca_certificates: validation.well_known,
        subject_alt_names: validation.subject_alt_names,
        options,
    }
}

fn target(reader: &mut Reader, node: &Node) -> PolicyTarget {
    reader.object(node, |fields| PolicyTarget {
        group: fields.required_text("group", &GROUP),
        kind: fields.required_text("kind", &KIND),
        name: fields.required_text("name", &OBJECT_NAME),
        section_name: fields.text("sectionName", &SECTION_NAME),
    })
}

/// Of several references to one target all have a sectionName, each another.
fn check_targets(fields: &mut Fields<'_>, targets: &[PolicyTarget]) {
    for (index, one) in targets.iter().enumerate() {
        let same =
            |other: &&PolicyTarget| (&other.group, &other.kind, &other.name) == (&one.group, &one.kind, &one.name);
        let mut others = targets.iter().take(index).filter(same);
        if let Some(other) = others.find(|other| {
            other.section_name == one.section_name || other.section_name.is_none() || one.section_name.is_none()
        }) {
            let message = if other.section_name == one.section_name {
                "repeats a target; remove one, or give each another sectionName"
            } else {
                "of several references to one target each needs a sectionName"
            };
            fields.refuse(&format!("targetRefs[{index}]"), message);
        }
    }
}

struct Validation {
    hostname: Name,
    ca_certificate_refs: Vec<ObjectRef>,
    well_known: Option<Name>,
    subject_alt_names: Vec<SubjectAltName>,
}

fn validation(reader: &mut Reader, node: &Node) -> Validation {
    reader.object(node, |fields| {
        let ca_certificate_refs = fields.list("caCertificateRefs", 0..=8, local);
        let well_known = fields.text("wellKnownCACertificates", &WELL_KNOWN_TEXT);
        match (ca_certificate_refs.is_empty(), &well_known) {
            (false, Some(_)) => fields.refuse("", "must have caCertificateRefs or wellKnownCACertificates, not both"),
            (true, None) => fields.refuse("", "needs caCertificateRefs or wellKnownCACertificates"),
            _ => {}
        }
        Validation {
            hostname: fields.required_text("hostname", &PRECISE_HOSTNAME),
            ca_certificate_refs,
            well_known,
            subject_alt_names: fields.list("subjectAltNames", 0..=5, subject_alt_name),
        }
    })
}

fn subject_alt_name(reader: &mut Reader, node: &Node) -> SubjectAltName {
    reader.object(node, |fields| {
        let kind = fields.required_choice("type", &SUBJECT_ALT_NAME_TYPE);
        let hostname = fields.text("hostname", &HOSTNAME);
        let uri = fields.text("uri", &URI_TEXT);
        for (field, given, its_kind) in [("hostname", &hostname, "Hostname"), ("uri", &uri, "URI")] {
            match (given, *kind == *its_kind) {
                (None, true) => fields.refuse(field, format!("is required when type is {its_kind}")),
                (Some(_), false) => fields.refuse(field, format!("must not be given unless type is {its_kind}")),
                _ => {}
            }
        }
        match &*kind {
            "Hostname" => SubjectAltName::Hostname(hostname.unwrap_or_default()),
            "URI" => SubjectAltName::Uri(uri.unwrap_or_default()),
            other => SubjectAltName::Unknown(Arc::from(other)),
        }
    })
}
