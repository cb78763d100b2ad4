//! The certificates of an HTTPS listener.

use portolan_model::ir::CertificateView;
use portolan_model::objects::{ListenerTls, ObjectRef, Target};
use portolan_model::{Kind, ObjectKey, Reason};

use crate::{World, certificate, refs};

/// What a listener's `certificateRefs` lead to.
#[derive(Default)]
pub(super) struct Certificates {
    pub views: Vec<CertificateView>,
    /// What is wrong with each reference that is not usable
    pub problems: Vec<(Reason, String)>,
}

/// Looks up the certificates of a listener of `parent`. A reference that is not granted or is not to a Secret is left out; one whose
/// Secret cannot be used now is held (design invariant 6).
pub(super) fn of(world: &dyn World, parent: &ObjectKey, tls: Option<&ListenerTls>) -> Certificates {
    let mut found = Certificates::default();
    let references = tls.map_or(&[][..], |tls| &tls.certificate_refs);
    if references.is_empty() {
        let message = "tls.certificateRefs is empty; an HTTPS listener needs a Secret with its certificate";
        found.problems.push((Reason::InvalidCertificateRef, message.into()));
    }
    for (index, reference) in references.iter().enumerate() {
        match look_up(world, parent, reference) {
            Ok(view) => found.views.push(view),
            Err(Unusable { reason, message, held }) => {
                found.problems.push((reason, format!("tls.certificateRefs[{index}]: {message}")));
                found.views.extend(held);
            }
        }
    }
    // A Secret named twice is one certificate.
    let mut seen = std::collections::BTreeSet::new();
    found.views.retain(|view| seen.insert(view.secret.clone()));
    found
}

struct Unusable {
    reason: Reason,
    message: String,
    /// What is waited for
    held: Option<CertificateView>,
}

fn look_up(world: &dyn World, parent: &ObjectKey, reference: &ObjectRef) -> Result<CertificateView, Unusable> {
    let refuse = |reason, message| Unusable { reason, message, held: None };
    if reference.target() != Target::Known(Kind::Secret) {
        let message = format!("the kind {} cannot hold a certificate; use a Secret", refs::kind_of(reference));
        return Err(refuse(Reason::InvalidCertificateRef, message));
    }
    let name = reference.resolve(&parent.name.namespace);
    if !refs::granted(world, parent.kind, &parent.name.namespace, Kind::Secret, &name) {
        let message = refs::not_granted(parent.kind, &parent.name.namespace, Kind::Secret, &name);
        return Err(refuse(Reason::RefNotPermitted, message));
    }
    let hold = |problem: String, dns_names| Unusable {
        reason: Reason::InvalidCertificateRef,
        message: format!("Secret {name} {problem}"),
        held: Some(CertificateView { secret: name.clone(), usable: false, dns_names }),
    };
    let secret = world
        .secret(&name)
        .ok_or_else(|| hold("does not exist; create it, or correct the reference".into(), Vec::new()))?;
    let certificate = certificate::read(&secret).map_err(|problem| hold(problem, Vec::new()))?;
    // The names stay: where each certificate has a filter chain of its own, the time must not change the listener.
    certificate.validity.check(world).map_err(|problem| hold(problem, certificate.dns_names.clone()))?;
    Ok(CertificateView { secret: name, usable: true, dns_names: certificate.dns_names })
}
