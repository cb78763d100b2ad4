//! Certificates.

use std::sync::Arc;

use portolan_model::ir::{SecretPlan, SecretState};
use portolan_proto::envoy::core::{DataSource, data_source::Specifier};
use portolan_proto::envoy::tls::{Secret, TlsCertificate, secret};
use portolan_proto::{Body, Content, Resource, ResourceType};
use prost::Message;

use crate::version::version;
use crate::{key, origin};

/// A certificate with its key, or the word that proxies keep what they have (design invariant 6).
#[must_use]
pub fn secret(plan: &SecretPlan) -> Resource {
    let key = key::secret_key(&plan.name);
    let content = match &plan.state {
        SecretState::Held => Content::Held,
        SecretState::Usable { certificate_chain, private_key } => {
            let message = Secret {
                name: key.name.to_string(),
                r#type: Some(secret::Type::TlsCertificate(TlsCertificate {
                    certificate_chain: Some(inline(certificate_chain)),
                    private_key: Some(inline(private_key)),
                    ..Default::default()
                })),
            };
            Content::Message(message.encode_to_vec().into())
        }
    };
    Resource {
        key,
        version: version(ResourceType::Secret, plan),
        body: Body::new(content),
        references: Arc::from([]),
        origins: Arc::from([origin::of_secret(&plan.name)]),
    }
}

fn inline(bytes: &[u8]) -> DataSource {
    DataSource { specifier: Some(Specifier::InlineBytes(bytes.to_vec())), ..Default::default() }
}
