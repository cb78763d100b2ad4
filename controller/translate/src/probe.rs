//! The probe: a listener without a socket whose table takes candidates, so that Envoy's verdict on a part of a refused table can be
//! had without touching a live one (design invariant 5).

use std::sync::Arc;

use portolan_proto::envoy::listener::listener::{InternalListenerConfig, ListenerSpecifier};
use portolan_proto::envoy::listener::{FilterChain, Listener};
use portolan_proto::{Body, Content, HostTable, PROBE_TABLE, Resource, ResourceKey, ResourceType};
use prost::Message;

use crate::version::version;
use crate::{http_connection, table};

/// Name of the listener.
pub const PROBE_LISTENER: &str = "portolan-probe";

/// The listener. Its connection manager is that of every HTTP listener: a route that configures a filter is judged with that filter.
#[must_use]
pub fn probe_listener() -> Resource {
    let message = Listener {
        name: PROBE_LISTENER.into(),
        stat_prefix: PROBE_LISTENER.into(),
        filter_chains: vec![FilterChain {
            filters: vec![http_connection::filter(PROBE_LISTENER, PROBE_TABLE, &[])],
            ..Default::default()
        }],
        listener_specifier: Some(ListenerSpecifier::InternalListener(InternalListenerConfig {})),
        ..Default::default()
    };
    Resource {
        key: ResourceKey::new(ResourceType::Listener, PROBE_LISTENER),
        version: version(ResourceType::Listener, &PROBE_LISTENER),
        body: Body::new(Content::Message(message.encode_to_vec().into())),
        references: Arc::from([ResourceKey::new(ResourceType::Route, PROBE_TABLE)]),
        origins: Arc::from([]),
    }
}

/// The table while nothing is being tried.
#[must_use]
pub fn probe_table() -> Resource {
    Resource {
        key: ResourceKey::new(ResourceType::Route, PROBE_TABLE),
        version: version(ResourceType::Route, &PROBE_TABLE),
        body: Body::new(Content::Table(HostTable::new(table::head(PROBE_TABLE)))),
        references: Arc::from([]),
        origins: Arc::from([]),
    }
}
