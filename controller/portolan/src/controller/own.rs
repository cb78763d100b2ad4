//! What Portolan itself makes for fleets and follows: Services (for the addresses that they have got) and workloads (for the revision that
//! runs). Every replica does: addresses are an input of the engine on all of them alike.

use portolan_kubernetes::watch::Made;

/// The kinds.
pub const KINDS: [Made; 3] = [
    Made { kind: "Service", root: "/api/v1", plural: "services" },
    Made { kind: "Deployment", root: "/apis/apps/v1", plural: "deployments" },
    Made { kind: "DaemonSet", root: "/apis/apps/v1", plural: "daemonsets" },
];

/// By these they are found.
pub const LABELS: &str = "app.kubernetes.io/name=portolan-proxy,app.kubernetes.io/managed-by=portolan";
