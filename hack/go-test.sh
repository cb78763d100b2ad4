#!/usr/bin/env bash
# The tests in Go: the official suite against `portolan run`, and the CRDs as judge of the reader. Neither needs a cluster.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
go="$(hack/go.sh)"
failed=0
for module in conformance conformance/crds; do
    (cd "$module" && "$go" vet ./...) || failed=1
done
conformance/standalone/run.sh -v || failed=1
conformance/crds/run.sh || failed=1
exit $failed
