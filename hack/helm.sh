#!/usr/bin/env bash
# Prints the path of helm, after building it once into the user's cache: a program of the module conformance/cluster, whose go.mod has its version.
set -euo pipefail
cluster="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)/conformance/cluster/cluster"
"$cluster" build helm >&2
"$cluster" path helm
