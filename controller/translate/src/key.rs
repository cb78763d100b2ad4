//! Keys of the resources that plans become.

use std::sync::Arc;

use portolan_model::NamespacedName;
use portolan_model::ir::TableId;
use portolan_proto::{ResourceKey, ResourceType};

/// Key of the cluster of this name ([`portolan_model::ir::ClusterKey::resource_name`]).
#[must_use]
pub fn cluster_key(name: &Arc<str>) -> ResourceKey {
    ResourceKey::new(ResourceType::Cluster, Arc::clone(name))
}

/// Key of the endpoints of the cluster of this name.
#[must_use]
pub fn endpoints_key(name: &Arc<str>) -> ResourceKey {
    ResourceKey::new(ResourceType::Endpoints, Arc::clone(name))
}

/// Key of a certificate: `NAMESPACE/NAME`.
#[must_use]
pub fn secret_key(name: &NamespacedName) -> ResourceKey {
    ResourceKey::new(ResourceType::Secret, name.to_string())
}

/// Key of a route table.
#[must_use]
pub fn table_key(id: &TableId) -> ResourceKey {
    ResourceKey::new(ResourceType::Route, id.resource_name())
}

/// The port, as the Gateway wrote it, of the listener of this name; `None` for one that is no Gateway's.
#[must_use]
pub fn port_of_listener(name: &str) -> Option<u16> {
    name.strip_prefix("http/").or_else(|| name.strip_prefix("https/"))?.parse().ok()
}

/// Key of a listener: `http/80`, `https/443`.
pub fn listener_key(port: u16, tls: bool) -> ResourceKey {
    let protocol = if tls { "https" } else { "http" };
    ResourceKey::new(ResourceType::Listener, format!("{protocol}/{port}"))
}
