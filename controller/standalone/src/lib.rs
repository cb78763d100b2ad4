//! Manifests on disk, supervised Envoy
