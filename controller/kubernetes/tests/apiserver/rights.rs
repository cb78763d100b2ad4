//! Rights that are missing, namespaces, and what is followed one by one.

use std::collections::BTreeSet;
use std::sync::Arc;

use portolan_kubernetes::KindState;
use portolan_kubernetes::watch::{self, Options};
use portolan_model::Kind;
use portolan_testkit::{Kube, KubeOptions};

use crate::watcher::{Watcher, client, client_of, key};

const RIGHTS: &str = "
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: narrow}
rules:
- {apiGroups: [gateway.networking.k8s.io], resources: ['*'], verbs: [get, list, watch]}
- {apiGroups: [''], resources: [services, configmaps], verbs: [get, list, watch]}
- {apiGroups: [''], resources: [namespaces], resourceNames: [default], verbs: [get, list, watch]}
- {apiGroups: [discovery.k8s.io], resources: [endpointslices], verbs: [get, list, watch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: narrow, namespace: default}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: narrow}
subjects: [{kind: User, name: narrow}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: classes}
rules:
- {apiGroups: [gateway.networking.k8s.io], resources: [gatewayclasses], verbs: [get, list, watch]}
- {apiGroups: [''], resources: [namespaces], resourceNames: [default], verbs: [get, list, watch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: classes}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: classes}
subjects: [{kind: User, name: narrow}]
";

/// With rights in one namespace only, and none for Secrets: that is told, and once it is given, everything goes on.
#[tokio::test]
async fn a_kind_that_is_denied_is_told_and_holds_back_until_it_is_not() {
    let kube = Kube::start(&KubeOptions::default()).await.unwrap();
    kube.apply(RIGHTS).unwrap();
    let kubeconfig =
        std::fs::read_to_string(kube.kubeconfig()).unwrap().replace("user: {token:", "user: {as: narrow, token:");
    let namespaces = Some(BTreeSet::from(["default".into()]));
    let mut watcher = Watcher::of(watch::start(client_of(&kubeconfig).await, Options { namespaces }));
    watcher.until(|watcher| matches!(watcher.kinds.get(&Kind::Secret), Some(KindState::Denied(_)))).await;
    let Some(KindState::Denied(text)) = watcher.kinds.get(&Kind::Secret).cloned() else { unreachable!() };
    assert!(text.contains("secrets is forbidden") && text.contains("narrow"), "{text}");
    watcher.until(|watcher| matches!(watcher.kinds.get(&Kind::HTTPRoute), Some(KindState::Served(_)))).await;
    assert!(!watcher.synced, "certificates may be missing");
    let secrets = "apiVersion: rbac.authorization.k8s.io/v1\nkind: Role\nmetadata: {name: secrets, namespace: default}\n\
        rules: [{apiGroups: [''], resources: [secrets], verbs: [get, list, watch]}]\n---\n\
        apiVersion: rbac.authorization.k8s.io/v1\nkind: RoleBinding\nmetadata: {name: secrets, namespace: default}\n\
        roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: secrets}\nsubjects: [{kind: User, name: narrow}]\n";
    kube.apply(secrets).unwrap();
    watcher.until(|watcher| watcher.synced).await;
    assert_eq!(watcher.names(Kind::Namespace), ["default"]);
}

const REFERRED: &str = "
apiVersion: v1
kind: ConfigMap
metadata: {name: ca, namespace: default}
data: {ca.crt: one}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: other, namespace: default}
---
apiVersion: v1
kind: Secret
metadata: {name: opaque, namespace: default}
stringData: {a: b}
---
apiVersion: v1
kind: Secret
metadata: {name: certificate, namespace: default}
type: kubernetes.io/tls
stringData: {tls.crt: a, tls.key: b}
";

/// Secrets of the type for TLS all, everything else as it is referred to.
#[tokio::test]
async fn what_is_referred_to_is_followed_one_by_one() {
    let kube = Kube::start(&KubeOptions::default()).await.unwrap();
    kube.apply(REFERRED).unwrap();
    let mut watcher = Watcher::of(watch::start(client(&kube).await, Options::default()));
    watcher.until(|watcher| watcher.synced).await;
    assert_eq!(watcher.names(Kind::Secret), ["default/certificate"]);
    assert!(watcher.names(Kind::ConfigMap).is_empty());

    let ca = key(Kind::ConfigMap, "default/ca");
    let keys = BTreeSet::from([
        ca.clone(),
        key(Kind::ConfigMap, "default/missing"),
        key(Kind::Secret, "default/opaque"),
        key(Kind::Secret, "default/certificate"),
    ]);
    watcher.watches.following.set(Arc::new(keys));
    watcher.until(|watcher| watcher.followed == 1).await;
    assert_eq!(watcher.names(Kind::ConfigMap), ["default/ca"], "told before it is said that all has been read");
    assert_eq!(watcher.names(Kind::Secret), ["default/certificate", "default/opaque"]);

    let before = watcher.objects[&ca].meta.resource_version.clone();
    kube.apply(&REFERRED.replace("one", "two")).unwrap();
    watcher.until(|watcher| watcher.objects[&ca].meta.resource_version != before).await;
    watcher.watches.following.set(Arc::default());
    watcher.until(|watcher| watcher.names(Kind::ConfigMap).is_empty()).await;
    watcher.until(|watcher| watcher.names(Kind::Secret) == ["default/certificate"]).await;
}
