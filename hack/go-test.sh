#!/usr/bin/env bash
# The tests in Go: the official suite against `portolan run`, and the CRDs as judge of the reader. Neither needs a cluster.
#   hack/go-test.sh            runs them
#   hack/go-test.sh compile    only fills Go's build cache, quietly
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
go="$(hack/go.sh)"
failed=0
for module in conformance conformance/crds; do
    if [ "${1:-}" = compile ]; then
        (cd "$module" && "$go" build ./... && "$go" test -run '^$' ./...) >/dev/null 2>&1 || true
    else
        (cd "$module" && "$go" vet ./...) || failed=1
    fi
done
[ "${1:-}" != compile ] || exit 0
conformance/standalone/run.sh -v || failed=1
conformance/crds/run.sh || failed=1
exit $failed
