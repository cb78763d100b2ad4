//! Intermediate representation to Envoy resources and bootstrap
