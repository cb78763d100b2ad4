#!/usr/bin/env bash
# Makes a container image of the Envoy that Portolan is tested with (hack/envoy.sh), as hack/image.sh does of Portolan.
#
#   hack/envoy-image.sh OUT.tar [TAG]       TAG: localhost/envoy:1 unless given
set -euo pipefail
root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
out="${1:?usage: hack/envoy-image.sh OUT.tar [TAG]}" tag="${2:-localhost/envoy:1}"

envoy="$("$root/hack/envoy.sh")"
# shellcheck source=hack/image-files.sh
. "$root/hack/image-files.sh"
python3 "$root/hack/mkimage.py" "$out" --tag "$tag" --entrypoint '["/usr/local/bin/envoy"]' --user 65532:65532 \
    "$envoy:/usr/local/bin/envoy" $(libraries "$envoy") "$(certificates)"
