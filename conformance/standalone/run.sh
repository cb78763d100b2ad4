#!/usr/bin/env bash
# Runs the official conformance suite and all of its manifests against `portolan run`, without Kubernetes (see doc.go).
#   conformance/standalone/run.sh [-update] [-only REGEX] [-run TestSuite|TestManifests]
# PORTOLAN: the binary to test (built if not set). PORTOLAN_ENVOY: the Envoy to use (hack/envoy.sh if not set).
# PORTOLAN_LOG: where to leave Portolan's log when something fails.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
if [ -z "${PORTOLAN:-}" ]; then
    cargo build --quiet -p portolan
    PORTOLAN="$(realpath "${CARGO_TARGET_DIR:-target}")/debug/portolan"
fi
PORTOLAN="$(realpath "$PORTOLAN")"
PORTOLAN_ENVOY="${PORTOLAN_ENVOY:-$(hack/envoy.sh)}"
export PORTOLAN PORTOLAN_ENVOY
go="$(hack/go.sh)"
cd conformance/standalone
# Without a package argument `go test` shows the output as it comes.
exec "$go" test -count=1 -timeout 15m "$@"
