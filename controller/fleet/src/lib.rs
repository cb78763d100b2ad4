//! Fleet intents to manifests, identities
