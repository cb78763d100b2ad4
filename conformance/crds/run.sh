#!/bin/sh
# Shows that Portolan's reader and an API server with the CRDs of the Gateway API accept and refuse the same objects.
set -eu
cd "$(dirname "$0")/../.."
cargo build --quiet --package portolan-model --example read-json
reader="${CARGO_TARGET_DIR:-$PWD/target}/debug/examples/read-json"
cd conformance/crds
# More memory for fewer collections: the judgements are short-lived.
export GOGC=400
exec go run . "$reader"
