//! The intermediate representation: what resolution hands to translation, and translation alone reads. Everything in it is a
//! value that compares by content; references are resolved, defaults applied, access checked.
//!
//! ```text
//! GatewayView ─┬─▶ ParentView ──▶ RouteView ──▶ HostPlan ──▶ virtual host ─▶ route table
//!              └─▶ ListenerPlan ──────────────────────────▶ listener
//! BackendView ─▶ ClusterPlan, EndpointsPlan ──────────────▶ cluster, endpoints
//! Secret ──────▶ SecretPlan ──────────────────────────────▶ secret
//! ```

mod backend;
mod gateway;
mod host;
mod installed;
mod render;
mod route;
mod status;

pub use backend::{
    BackendId, BackendView, ClusterKey, ClusterPlan, Discovery, EndpointAddress, EndpointPlan, EndpointsPlan,
    LocalityPlan, UpstreamProtocol,
};
pub use gateway::{
    Binding, CertificateView, ChainPlan, GatewayView, ListenerId, ListenerPlan, ListenerSetView, ListenerView,
    ParentView, SecretPlan, SecretState, TableId,
};
pub use host::{HostEntry, HostPlan, MISDIRECTED, PlannedRoute};
pub use installed::{Bundle, Installed};
pub use render::{Element, ancestor_ref, parent_ref};
pub use route::{
    Attachment, Forward, MirrorPlan, ParentOutcome, PathRewrite, PathSpec, Rank, RedirectPlan, RequestMatch,
    ResolvedRule, RouteView, RuleAction, RuleFilters, WeightedBackend, WeightedTarget,
};
pub use status::{ListenerStatus, ParentStatus, Status};
