//! The server and the real Envoy. Found through `$PORTOLAN_ENVOY`, or fetched by `hack/envoy.sh`.

mod convergence;
mod cut_off;
mod gate;
mod refusals;
mod resources;
mod resumption;
mod secrets;
mod stage;
