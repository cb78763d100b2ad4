//! What the core has to tell the world besides responses.

use std::time::Duration;

use portolan_proto::{Origin, Part, ResourceKey, ResourceType, Version};

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Event {
    /// Some proxy of the fleet has accepted every change before this position of the log
    Acked { position: u64, first: bool },
    /// A proxy refused this content
    Refused { key: ResourceKey, version: Option<Version>, part: Part, origins: Vec<Origin>, text: String },
    /// No proxy refuses anything under this key any more
    RefusalCleared { key: ResourceKey },
    /// A proxy asks for a table or filter configuration that does not exist (design invariant 4)
    Missing { key: ResourceKey },
    /// A proxy answered a response
    Answered { kind: ResourceType, after: Duration, refusal: Option<String> },
    /// A proxy asks for a type that is not served
    UnknownType { type_url: String },
}
