//! Other CRDs, another Portolan: a real Envoy goes on serving, nothing is taken from it, no fleet is rolled, and the class says what is there.

use std::time::{Duration, Instant};

use portolan_testkit::kube::{Channel, Kube, KubeOptions};
use serde_json::Value;

use crate::stage::Stage;
use crate::{CLASS, PATIENCE, condition, until};

/// Does what upstream guards against, such as experimental CRDs over standard ones: whoever wants that takes the guard away.
async fn unguarded(kube: &Kube, mut act: impl FnMut() -> anyhow::Result<()>) {
    let end = Instant::now() + PATIENCE;
    let mut patience = Duration::from_millis(200);
    loop {
        for kind in ["validatingadmissionpolicybinding", "validatingadmissionpolicy"] {
            kube.kubectl(&["delete", kind, "--ignore-not-found", "safe-upgrades.gateway.networking.k8s.io"]).unwrap();
        }
        // It stands for a moment longer, and what fails meanwhile may bring it back: the CRDs' manifests have it too.
        tokio::time::sleep(patience).await;
        patience *= 2;
        let Err(error) = act() else { return };
        assert!(Instant::now() < end && error.to_string().contains("safe-upgrades"), "{error}");
    }
}

fn claims(class: &Value) -> Vec<&str> {
    let features = class["status"]["supportedFeatures"].as_array().into_iter().flatten();
    features.filter_map(|feature| feature["name"].as_str()).collect()
}

/// With the oldest release.
async fn stage(channel: Channel) -> Stage {
    let crds = Some(("v1.5.1".to_owned(), channel));
    Stage::new(&KubeOptions { crds, ..KubeOptions::default() }, CLASS).await
}

impl Stage {
    /// What is installed decides what is claimed.
    async fn install(&self, version: &str, channel: Channel) {
        unguarded(&self.kube, || self.kube.install_crds(version, channel)).await;
        self.claims(version, channel).await;
    }

    async fn claims(&self, version: &str, channel: Channel) {
        let name = if channel == Channel::Standard { "standard" } else { "experimental" };
        let message = format!("The CRDs are of Gateway API {version} ({name} channel)");
        let class = self.class(|class| condition(class, "SupportedVersion")["message"] == *message).await;
        let supported = condition(&class, "SupportedVersion");
        assert_eq!((&supported["status"], &supported["reason"]), (&"True".into(), &"SupportedVersion".into()));
        // Since v1.6.
        assert_eq!(claims(&class).contains(&"GatewayInfrastructure"), version != "v1.5.1", "{version} {name}");
        for feature in ["Gateway", "HTTPRoute", "GRPCRoute", "ListenerSet", "ReferenceGrant"] {
            assert!(claims(&class).contains(&feature), "{version} {name}: {feature}");
        }
        self.is_undisturbed(&format!("{version} {name}")).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn experimental_crds_are_upgraded_under_load() {
    let stage = stage(Channel::Experimental).await;
    stage.claims("v1.5.1", Channel::Experimental).await;
    stage.install("v1.6.3", Channel::Experimental).await;
    stage.install("v1.7.0", Channel::Experimental).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn crds_and_portolan_are_upgraded_under_load() {
    let mut stage = stage(Channel::Standard).await;
    stage.claims("v1.5.1", Channel::Standard).await;
    stage.install("v1.6.3", Channel::Standard).await;
    stage.install("v1.7.0", Channel::Standard).await;
    stage.install("v1.7.0", Channel::Experimental).await;

    // A release that nobody knows is told, and served as far as it is known.
    let annotate = async |kube: &Kube, version: &str| {
        let version = format!("gateway.networking.k8s.io/bundle-version={version}");
        let crd = "crd/httproutes.gateway.networking.k8s.io";
        unguarded(kube, || kube.kubectl(&["annotate", "--overwrite", crd, &version]).map(drop)).await;
    };
    annotate(&stage.kube, "v9.9.9").await;
    let class = stage.class(|class| condition(class, "SupportedVersion")["reason"] == "UnsupportedVersion").await;
    let (supported, accepted) = (condition(&class, "SupportedVersion"), condition(&class, "Accepted"));
    assert_eq!((&supported["status"], &accepted["status"]), (&"False".into(), &"True".into()));
    assert!(supported["message"].as_str().unwrap().contains("HTTPRoute is of v9.9.9"), "{supported}");
    stage.is_undisturbed("a release that nobody knows").await;
    annotate(&stage.kube, "v1.7.0").await;
    stage.class(|class| condition(class, "SupportedVersion")["status"] == "True").await;

    // A kind that goes takes its features with it, and comes back with them.
    for kind in ["backendtlspolicies", "tlsroutes", "referencegrants"] {
        stage.kube.kubectl(&["delete", "crd", &format!("{kind}.gateway.networking.k8s.io")]).unwrap();
    }
    stage.class(|class| !claims(class).contains(&"ReferenceGrant")).await;
    stage.is_undisturbed("without kinds that nothing uses").await;
    stage.install("v1.7.0", Channel::Experimental).await;

    // Another Portolan, with other images, goes on with the fleets that it finds.
    stage.replace(&["--proxy-image", "envoy:newer", "--portolan-image", "portolan:newer"]).await;
    // It writes: the new one leads.
    stage.kube.apply(&crate::gateway("later")).unwrap();
    let is_newer = |later: &Value| later.to_string().contains("envoy:newer");
    until(&stage.kube, &stage.portolan, "deployment", "portolan-later", is_newer).await;
    stage.is_connected().await;
    stage.is_undisturbed("another Portolan").await;
}
