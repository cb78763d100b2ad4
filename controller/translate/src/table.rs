//! Route tables: everything of a RouteConfiguration but its virtual hosts.

use std::sync::Arc;

use bytes::Bytes;
use portolan_model::ir::TableId;
use portolan_proto::envoy::route::RouteConfiguration;
use portolan_proto::{Body, Content, HostTable, Resource, ResourceType, Version};
use prost::Message;

use crate::version::version;
use crate::{key, origin};

/// The encoded RouteConfiguration without virtual hosts.
#[must_use]
pub fn table_head(id: &TableId) -> Bytes {
    head(&id.resource_name())
}

/// What the head adds to the version of its table.
#[must_use]
pub fn table_head_version(id: &TableId) -> Version {
    version(ResourceType::Route, &id.resource_name())
}

/// The table of these hosts. `version` is the sum of [`table_head_version`] and of the hosts' versions, which the caller keeps, so
/// that one host costs one addition.
#[must_use]
pub fn table(id: &TableId, hosts: HostTable, version: Version) -> Resource {
    Resource {
        key: key::table_key(id),
        version,
        body: Body::new(Content::Table(hosts)),
        references: Arc::from([]),
        origins: Arc::from([origin::of_gateway(&id.gateway)]),
    }
}

pub fn head(name: &str) -> Bytes {
    let message = RouteConfiguration {
        name: name.into(),
        // `Host: example.com:8080` meets example.com, and the backend still sees the header as it was sent.
        ignore_port_in_host_matching: true,
        ..Default::default()
    };
    message.encode_to_vec().into()
}
