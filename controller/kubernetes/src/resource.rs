//! How the API server names kinds.

use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject};
use kube::core::GroupVersionKind;
use portolan_model::{Kind, ObjectKey};

/// The kinds whose status Portolan writes.
#[must_use]
pub const fn has_status(kind: Kind) -> bool {
    kind.is_route() || matches!(kind, Kind::GatewayClass | Kind::Gateway | Kind::ListenerSet | Kind::BackendTLSPolicy)
}

/// A kind by its names; `api_version` as manifests write it.
#[must_use]
pub fn resource(api_version: &str, kind: &str) -> ApiResource {
    let (group, version) = api_version.rsplit_once('/').unwrap_or(("", api_version));
    ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind))
}

/// Where objects of a key's kind and namespace are.
pub(crate) fn api(client: &Client, api_version: &str, key: &ObjectKey) -> Api<DynamicObject> {
    let resource = resource(api_version, key.kind.as_str());
    if key.name.namespace.is_empty() {
        Api::all_with(client.clone(), &resource)
    } else {
        Api::namespaced_with(client.clone(), &key.name.namespace, &resource)
    }
}

/// Since Kubernetes 1.35 versions of a resource compare as numbers (KEP-5504). What is no number is not older.
pub(crate) fn is_older(a: &str, b: &str) -> bool {
    matches!((a.parse::<u128>(), b.parse::<u128>()), (Ok(a), Ok(b)) if a < b)
}
