//! Which revision of its template a fleet runs. A new Portolan renders the revision that it finds, so that its own upgrade restarts no
//! proxy; a fleet comes to the newest with the next change of its own parameters.

use serde_json::{Value, json};
use xxhash_rust::xxh3::xxh3_128;

use super::Platform;

/// Of the bootstrap and the pod template. It moves with any change of what `bootstrap.rs` and `pod.rs` render, which then go on
/// rendering the older ones too: the goldens of each revision are kept.
const REVISION: u64 = 1;

/// On the workload: what its pods were made from.
pub(super) const TEMPLATE: &str = "portolan.dev/fleet-template";
/// On the workload: the digest of what was rendered from it.
pub(super) const DIGEST: &str = "portolan.dev/fleet-digest";

/// What of Portolan's own version is in a pod template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    pub revision: u64,
    pub proxy_image: String,
    pub portolan_image: String,
    pub probe_port: u16,
}

impl Template {
    pub(super) fn newest(platform: &Platform) -> Self {
        Self {
            revision: REVISION,
            proxy_image: platform.proxy_image.clone(),
            portolan_image: platform.portolan_image.clone(),
            probe_port: platform.probe_port,
        }
    }

    /// That of a running workload, with its digest; `None` where it says nothing that this version knows.
    pub(super) fn recorded(workload: &Value) -> Option<(Self, String)> {
        let annotations = workload.pointer("/metadata/annotations")?;
        let template: Value = serde_json::from_str(annotations.get(TEMPLATE)?.as_str()?).ok()?;
        let text = |field: &str| template.get(field)?.as_str().map(ToOwned::to_owned);
        let template = Self {
            revision: template.get("revision")?.as_u64().filter(|revision| *revision == REVISION)?,
            proxy_image: text("proxyImage")?,
            portolan_image: text("portolanImage")?,
            probe_port: template.get("probePort")?.as_u64()?.try_into().ok()?,
        };
        Some((template, annotations.get(DIGEST)?.as_str()?.to_owned()))
    }

    pub(super) fn annotation(&self) -> String {
        let Self { revision, proxy_image, portolan_image, probe_port } = self;
        json!({
            "revision": revision, "proxyImage": proxy_image, "portolanImage": portolan_image, "probePort": probe_port,
        })
        .to_string()
    }
}

pub(super) fn digest(values: &[&Value]) -> String {
    let text: String = values.iter().map(ToString::to_string).collect();
    format!("{:032x}", xxh3_128(text.as_bytes()))
}
