#!/usr/bin/env bash
# Tests of Portolan as it is installed, in a real cluster under load: controller/portolan/tests/live.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

usage() {
  cat <<'END'
usage: conformance/live.sh [TEST...]        (make test-live; TEST: a test, or a part of its name)

Settings, by environment:
  CLUSTER                 the cluster of conformance/cluster that is used, and ended afterwards (default portolan-live)
  KEEP=1                  leave it up
  PORTOLAN_BINARY         a program for the image, instead of building one for it
  PORTOLAN_LIVE_MINUTES   how long certificates are replaced (default 13)
END
}
case "${1:-}" in -h | --help) usage; exit 0 ;; -*) usage >&2; exit 2 ;; esac
say() { printf '%s %s\n' "$(date +%T)" "$*"; }

export CLUSTER="${CLUSTER:-portolan-live}"
cluster=conformance/cluster/cluster namespace=portolan-system
out=$(mktemp -d)
finish() {
  local result=$?
  if [ $result != 0 ]; then
    $cluster kubectl get pods -A -o wide || true
    $cluster kubectl logs -n $namespace -l app.kubernetes.io/name=portolan --tail=40 --prefix || true
  fi
  rm -rf "$out"
  [ -n "${KEEP:-}" ] || $cluster down
  exit $result
}
trap finish EXIT

# With the whole workspace's features, as `make test` has built everything.
cargo test --quiet --workspace --test live --no-run
test=$(cargo test --workspace --test live --no-run 2>&1 | sed -n 's/.*Executable .*(\(.*\)).*/\1/p')
"$test" --list "$@" | grep -q ': test$' || { echo "live: no test is called $*" >&2; exit 2; }
$cluster build
$cluster up
$cluster crds >/dev/null
hack/image.sh "$out/portolan.tar"
$cluster load "$out/portolan.tar" >/dev/null
helm=$($cluster path helm)
at() { $cluster exec "$@" >>"$out/log" 2>&1 || { cat "$out/log" >&2; return 1; }; }
at "$helm" upgrade --install portolan-crds charts/portolan-crds --namespace $namespace --create-namespace --wait
# The shortest lifetimes.
at "$helm" upgrade --install portolan charts/portolan --namespace $namespace --wait --timeout 2m --set replicas=2 \
  --set image=localhost/portolan:dev --set proxyImage=localhost/envoy:1 --set certificates.lifetime=10m --set certificates.authorityLifetime=80m
# Pods of an earlier run have an image of the same name.
at kubectl -n $namespace rollout restart deployment/portolan
at kubectl -n $namespace rollout status deployment/portolan --timeout=2m
say "two replicas of Portolan run"
# One after the other: they share the cores, and each restarts or replaces what the others use.
$cluster exec "$test" --test-threads=1 --nocapture "$@"
