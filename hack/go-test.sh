#!/usr/bin/env bash
# Tests the Go module under conformance/, if there is one: those tests that need no cluster.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
[ -f conformance/go.mod ] || exit 0
go="$(hack/go.sh)"
cd conformance
"$go" vet ./...
"$go" test -v -short ./...
