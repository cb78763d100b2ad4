//! A class that Gateways use cannot be deleted.

use kube::Client;
use kube::api::{Patch, PatchParams};
use portolan_model::{Kind, ObjectKey};
use serde_json::json;

use crate::Meta;
use crate::client::bounded;
use crate::resource::api;

/// "It is recommended that this finalizer is added to the GatewayClass whenever a provisioned Gateway uses it" (GatewayClass).
const FINALIZER: &str = "gateway-exists-finalizer.gateway.networking.k8s.io";
/// Owns that one entry of the set and nothing else.
const KEEPER: &str = "portolan-finalizer";

/// Keeps a class from being deleted while it is used, and lets it go when it is not. To be called by the leader, once for each class when
/// its term begins and then when `is_used` changes. Finalizers of others stay.
///
/// # Errors
/// When the API server refuses it. A class that is being deleted takes no new finalizer: that is no error.
pub async fn hold_class(client: &Client, key: &ObjectKey, meta: &Meta, is_used: bool) -> kube::Result<()> {
    debug_assert_eq!(key.kind, Kind::GatewayClass);
    let finalizers = if is_used { json!([FINALIZER]) } else { json!([]) };
    let manifest = json!({
        "apiVersion": *meta.api_version, "kind": key.kind.as_str(),
        "metadata": {"name": *key.name.name, "uid": *meta.uid, "finalizers": finalizers},
    });
    let parameters = PatchParams::apply(KEEPER);
    let class = api(client, &meta.api_version, key);
    match bounded(class.patch(&key.name.name, &parameters, &Patch::Apply(&manifest))).await {
        Ok(_) => Ok(()),
        // Gone, another one of its name, or on its way out.
        Err(kube::Error::Api(answer)) if matches!(answer.code, 404 | 409 | 422) => Ok(()),
        Err(error) => Err(error),
    }
}
