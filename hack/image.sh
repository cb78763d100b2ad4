#!/usr/bin/env bash
# Makes Portolan's container image without a container engine, as a docker-archive that `docker load`, `podman load` and `ctr import` take.
# The same sources, toolchain and C library give the same bytes.
#
#   hack/image.sh OUT.tar [TAG]       TAG: localhost/portolan:dev unless given
#
#   PORTOLAN_BINARY=/path             take this program instead of building one
set -euo pipefail
root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
out="${1:?usage: hack/image.sh OUT.tar [TAG]}" tag="${2:-localhost/portolan:dev}"

binary="${PORTOLAN_BINARY:-}"
if [ -z "$binary" ]; then
    target="$(realpath -m "${CARGO_TARGET_DIR:-$root/target}")"
    # Where the sources lie is no part of the program. In the tree, where cargo finds its settings (jemalloc's are in them).
    (
        cd "$root"
        RUSTFLAGS="${RUSTFLAGS:-} --remap-path-prefix=$target/image=/target --remap-path-prefix=$root=/portolan \
--remap-path-prefix=${CARGO_HOME:-$HOME/.cargo}=/cargo" \
            cargo build --quiet --locked --release -p portolan --target-dir "$target/image" >&2
    )
    binary="$target/image/release/portolan"
fi
# shellcheck source=hack/image-files.sh
. "$root/hack/image-files.sh"
python3 "$root/hack/mkimage.py" "$out" --tag "$tag" --entrypoint '["/usr/local/bin/portolan"]' --user 65532:65532 \
    "$binary:/usr/local/bin/portolan" $(libraries "$binary") "$(certificates)"
