#!/usr/bin/env bash
# The official suite against Envoy Gateway and against Portolan, in turn, in the same cluster: the tests that Portolan claims, the same number at once.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

usage() {
  cat <<'END'
usage: conformance/compare.sh        (make conformance-compare)

In our own cluster (root). Prints how long each run of the suite took and the ratio of the medians.

  ROUNDS     runs of each (default 1), alternating
  CHANNEL, PARALLEL, PROFILES, IMAGE   as of conformance/run.sh
  OUT        where the logs go (default: in the cache)
END
}
case "${1:-}" in '') ;; -h | --help) usage; exit 0 ;; *) usage >&2; exit 2 ;; esac
# What is not said above is as usual, and the cluster is ours.
unset KUBECONFIG RUN CHAOS INSTALL CRDS FEATURES CLASS NAMESPACE HELM_ARGUMENTS
say() { printf '%s %s\n' "$(date +%T)" "$*"; }

VERSION=v1.9.0 MODULE=github.com/envoyproxy/gateway
CACHE=${XDG_CACHE_HOME:-$HOME/.cache}/portolan
: "${ROUNDS:=1}" "${OUT:=$CACHE/compare}" "${CHANNEL:=experimental}"
export CHANNEL
cluster=conformance/cluster/cluster
theirs=$CACHE/envoy-gateway-$VERSION
rm -rf "$OUT"
mkdir -p "$OUT" "$theirs"
go=$(hack/go.sh)

# --- Envoy Gateway, from its Go module ------------------------------------------------------------------------------------------------
if [ ! -x "$theirs/envoy-gateway" ]; then
  say "building Envoy Gateway $VERSION (cold: six minutes)"
  GOBIN=$theirs CGO_ENABLED=0 "$go" install -trimpath -ldflags '-s -w' "$MODULE/cmd/envoy-gateway@$VERSION"
fi
source=$(cd / && "$go" mod download -json "$MODULE@$VERSION" | sed -n 's/.*"Dir": "\(.*\)",*/\1/p')
chart=$OUT/chart
cp -r "$source/charts/gateway-helm" "$chart"
chmod -R u+w "$chart"
sed -i 's/version: v0.0.0-latest/version: 0.0.0/' "$chart/Chart.yaml"
# What its release does with this file.
sed 's|${GatewayImage}|localhost/envoy-gateway:1|; s|${GatewayImagePullPolicy}|IfNotPresent|' "$chart/values.tmpl.yaml" >"$chart/values.yaml"
# shellcheck source=hack/image-files.sh
. hack/image-files.sh
python3 hack/mkimage.py "$OUT/envoy-gateway.tar" --tag localhost/envoy-gateway:1 --entrypoint '["/usr/local/bin/envoy-gateway"]' \
  --user 65532:65532 "$theirs/envoy-gateway:/usr/local/bin/envoy-gateway" "$(certificates)"

$cluster build
$cluster up
kubectl() { $cluster exec kubectl "$@"; }
helm() { $cluster exec "$($cluster path helm)" "$@"; }

# Where a function is asked whether it went well, `set -e` does not end it.
install_theirs() {
  $cluster load "$OUT/envoy-gateway.tar" &&
  kubectl apply --server-side --force-conflicts -f "$chart/charts/crds/crds/generated" &&
  helm upgrade --install eg "$chart" --namespace envoy-gateway-system --create-namespace --set crds.enabled=false \
    --set deployment.replicas=2 --wait --timeout 3m &&
  kubectl apply --server-side -f - <<'END'
apiVersion: gateway.envoyproxy.io/v1alpha1
kind: EnvoyProxy
metadata: {name: proxies, namespace: envoy-gateway-system}
spec:
  provider:
    type: Kubernetes
    kubernetes: {envoyDeployment: {container: {image: localhost/envoy:1}}}
---
apiVersion: gateway.networking.k8s.io/v1
kind: GatewayClass
metadata: {name: eg}
spec:
  controllerName: gateway.envoyproxy.io/gatewayclass-controller
  parametersRef: {group: gateway.envoyproxy.io, kind: EnvoyProxy, name: proxies, namespace: envoy-gateway-system}
END
}
remove() { # RELEASE NAMESPACE CLASS
  kubectl delete gatewayclass "$3" --ignore-not-found --wait=false &&
  helm uninstall "$1" --namespace "$2" --ignore-not-found --wait
}

suite() { # NAME [SETTING...]: prints the seconds
  local name=$1
  shift
  # What fails has waited out the suite's patience: its time would say nothing.
  env OUT="$OUT/$name" "$@" conformance/run.sh >"$OUT/$name.log" 2>&1 || { tail -n 3 "$OUT/$name.log" >&2; say "$name failed: see $OUT/$name.log" >&2; return 1; }
  grep -E '^[0-9]+ passed, .* failed' "$OUT/$name.log" >&2
  sed -n 's/.*the suite took \([0-9]*\) s.*/\1/p' "$OUT/$name.log"
}
quietly() { # LOG COMMAND...
  local log=$OUT/$1.log
  shift
  "$@" >>"$log" 2>&1 || { tail -n 5 "$log" >&2; say "failed: $*: see $log" >&2; return 1; }
}
median() { sort -n | awk '{ all[NR] = $1 } END { print (all[int((NR + 1) / 2)] + all[int(NR / 2) + 1]) / 2 }'; }

# What Envoy Gateway does not claim, and fails after the suite's patience: it answers no 421, and its proxies are not in the Gateway's namespace.
lacks='GatewayHTTPSListenerDetectMisdirectedRequests GatewayInfrastructure'

# --- in turn --------------------------------------------------------------------------------------------------------------------------
trap 'quietly remove remove eg envoy-gateway-system eg' EXIT
features=
for ((round = 1; round <= ROUNDS; round++)); do
  say "round $round of $ROUNDS: Portolan"
  if [ -z "$features" ]; then
    # What Portolan claims is what both are asked for, once it runs.
    suite portolan-claims RUN=HTTPRouteSimpleSameNamespace >/dev/null
    claimed=$(kubectl get gatewayclass portolan -o 'jsonpath={.status.supportedFeatures[*].name}')
    features=$(tr ' ' '\n' <<<"$claimed" | grep -vxF "$(tr ' ' '\n' <<<"$lacks")" | paste -sd ,)
  fi
  suite "portolan-$round" FEATURES="$features" >>"$OUT/portolan"
  quietly remove remove portolan portolan-system portolan
  say "round $round of $ROUNDS: Envoy Gateway $VERSION"
  quietly install-theirs install_theirs
  suite "envoy-gateway-$round" INSTALL=no CLASS=eg FEATURES="$features" >>"$OUT/envoy-gateway"
  quietly remove remove eg envoy-gateway-system eg
done
ours=$(median <"$OUT/portolan") others=$(median <"$OUT/envoy-gateway")
awk -v ours="$ours" -v others="$others" -v rounds="$ROUNDS" -v version="$VERSION" 'BEGIN {
  printf "the suite, median of %d: Portolan %.0f s, Envoy Gateway %s %.0f s: %.2f of its time\n", rounds, ours, version, others, ours / others
  exit ours > others }'
