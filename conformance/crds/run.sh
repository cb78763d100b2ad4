#!/bin/sh
# Shows that Portolan's reader and an API server with the CRDs of the Gateway API accept and refuse the same objects.
set -eu
cd "$(dirname "$0")/../.."
# READ_JSON: the reader as a program (built if not set)
reader="${READ_JSON:-}"
if [ -z "$reader" ]; then
    cargo build --quiet --package portolan-model --example read-json
    reader="$(realpath "${CARGO_TARGET_DIR:-target}")/debug/examples/read-json"
fi
cd conformance/crds
# More memory for fewer collections: the judgements are short-lived.
export GOGC=400
exec go run . "$reader"
