#!/usr/bin/env bash
# Runs the official conformance suite against Portolan in a cluster: the one of conformance/cluster, or that of KUBECONFIG.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

usage() {
  cat <<'END'
usage: conformance/run.sh        (make conformance)

Settings, by environment or as `make conformance NAME=VALUE`:
  KUBECONFIG        a cluster to use instead of our own; it must have load balancers, and get the images by itself or beforehand
  CHANNEL           experimental (default) or standard: which CRDs of the Gateway API are installed
  PARALLEL          tests at once (default 6)
  CHAOS=1           every 30 seconds meanwhile the leader's pod is deleted; in our own cluster, in turn, its process is killed before, or its
                    network taken away
  RUN               one test by its short name, such as HTTPRouteWeight; no report is kept
  FEATURES          with commas between them: what is tested, instead of what the GatewayClass claims; no report is kept
  PROFILES          default GATEWAY-HTTP,GATEWAY-GRPC
  INSTALL=no        somebody else runs the controller: no image, no chart
  CRDS=no           leave the CRDs that are there
  IMAGE             image of the controller (default: built now, localhost/portolan:dev)
  PROXY_IMAGE       image of the proxies (default: Envoy's as built for our cluster; KUBECONFIG: the chart's)
  HELM_ARGUMENTS    more arguments of helm upgrade --install
  CLASS, NAMESPACE  GatewayClass and namespace of the installation (default portolan, portolan-system)
  USABLE_ADDRESS, UNUSABLE_ADDRESS   for GatewayStaticAddresses
  OUT               where the logs go (default: in the cache; the last run's are kept)
END
}
case "${1:-}" in '') ;; -h | --help) usage; exit 0 ;; *) usage >&2; exit 2 ;; esac
say() { printf '%s %s\n' "$(date +%T)" "$*"; }
die() { echo "conformance: $*" >&2; exit 1; }

: "${CHANNEL:=experimental}" "${PARALLEL:=6}" "${CHAOS:=}" "${RUN:=}" "${FEATURES:=}" "${PROFILES:=GATEWAY-HTTP,GATEWAY-GRPC}" "${INSTALL:=yes}" "${CRDS:=yes}"
: "${IMAGE:=}" "${PROXY_IMAGE:=}" "${HELM_ARGUMENTS:=}" "${CLASS:=portolan}" "${NAMESPACE:=portolan-system}"
: "${OUT:=${XDG_CACHE_HOME:-$HOME/.cache}/portolan/conformance}"
case "$CHANNEL" in standard | experimental) ;; *) die "CHANNEL=$CHANNEL: the Gateway API has the channels standard and experimental" ;; esac
cluster=conformance/cluster/cluster
version=v$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' Cargo.toml)
api=$(awk '$1 == "sigs.k8s.io/gateway-api" { print $2; exit }' conformance/go.mod)
folder=conformance/reports/${api%.*} # as upstream names them
rm -rf "$OUT" "$OUT.tar.gz"
mkdir -p "$OUT"

# --- the cluster -------------------------------------------------------------------------------------------------------------------
if [ -n "${KUBECONFIG:-}" ]; then
  own=
  at() { "$@"; }
  $cluster build helm conformance.test crds
  command -v kubectl >/dev/null || $cluster build kube
else
  own=1
  at() { $cluster exec "$@"; }
  $cluster build
  $cluster up
  : "${USABLE_ADDRESS:=172.18.200.200}"
  # TEST-NET-1 (RFC 5737): nobody has it.
  : "${UNUSABLE_ADDRESS:=192.0.2.200}"
fi
suite=$($cluster path conformance.test) helm=$($cluster path helm) crds=$($cluster path crds)
[ -n "$own" ] || command -v kubectl >/dev/null || PATH=$(dirname "$helm"):$PATH

if [ "$CRDS" != no ] && [ -n "$own" ]; then
  $cluster crds "$CHANNEL" "$api" | grep -E ' (CRDs:|the) '
elif [ "$CRDS" != no ]; then
  kubectl apply --server-side --force-conflicts -f "$crds/$api/$CHANNEL" >"$OUT/crds.log"
  kubectl wait --for=condition=Established crd --all --timeout=60s >>"$OUT/crds.log"
  say "CRDs: Gateway API $api, $CHANNEL channel"
fi

# --- the controller ----------------------------------------------------------------------------------------------------------------
install() {
  local arguments=(--set "image=${IMAGE:-localhost/portolan:dev}")
  if [ -z "$IMAGE" ]; then
    hack/image.sh "$OUT/portolan.tar" || return
    say "image: $(($(stat -c %s "$OUT/portolan.tar") >> 20)) MiB"
    if [ -n "$own" ]; then $cluster load "$OUT/portolan.tar" >"$OUT/load.log" || return; fi
  fi
  if [ -n "$own" ]; then : "${PROXY_IMAGE:=localhost/envoy:1}"; fi
  if [ -n "$PROXY_IMAGE" ]; then arguments+=(--set "proxyImage=$PROXY_IMAGE"); fi
  at "$helm" upgrade --install portolan-crds charts/portolan-crds --namespace "$NAMESPACE" --create-namespace --wait >"$OUT/helm.log" 2>&1 || return
  local before
  before=$(at "$helm" status portolan --namespace "$NAMESPACE" 2>/dev/null) || true
  # Word splitting is meant.
  # shellcheck disable=SC2086
  at "$helm" upgrade --install portolan charts/portolan --namespace "$NAMESPACE" --set replicas=2 "${arguments[@]}" \
    $HELM_ARGUMENTS --wait --timeout 2m >>"$OUT/helm.log" 2>&1 || return
  # Pods of an earlier run have an image of the same name.
  if [ -n "$before" ]; then
    at kubectl -n "$NAMESPACE" rollout restart deployment -l app.kubernetes.io/name=portolan >>"$OUT/helm.log" 2>&1 || return
    at kubectl -n "$NAMESPACE" rollout status deployment -l app.kubernetes.io/name=portolan --timeout=2m >>"$OUT/helm.log" 2>&1 || return
  fi
  say "chart installed, two replicas"
}

# --- what goes on beside the suite -------------------------------------------------------------------------------------------------
groups=()
beside() { # COMMAND...: runs it in a process group of its own
  set -m
  "$@" &
  set +m
  groups+=("$!")
}
finish() { # ends what was started beside the suite
  local group
  for group in "${groups[@]}"; do kill -- "-$group" 2>/dev/null || true; done
  groups=()
}
trap finish EXIT

leader() { at kubectl -n "$NAMESPACE" get lease portolan-leader -o 'jsonpath={.spec.holderIdentity}'; }
# Ends a replica's process at once, as the kernel does without memory: its lease has to run out.
slay() { # POD
  # The variables are for the shell in the node.
  # shellcheck disable=SC2016
  $cluster node sh -c 'for pid in $(pgrep -x portolan); do
    if tr "\0" "\n" <"/proc/$pid/cmdline" | grep -qxF -e "--pod=$1"; then kill -KILL "$pid"; fi
  done' sh "$1"
}
# Takes a pod's network away: as of a node that is gone, no connection is told of its end.
unplug() { # POD
  local address
  address=$(at kubectl -n "$NAMESPACE" get pod "$1" -o 'jsonpath={.status.podIP}') || return
  # shellcheck disable=SC2016
  $cluster node sh -c 'ip link delete "$(ip -o route get "$1" | sed "s/.* dev \([^ ]*\) .*/\1/")"' sh "$address"
}
chaos() {
  local pod way turn=0 ways=(deleted)
  [ -z "$own" ] || ways=(deleted slain unplugged)
  while sleep 30; do
    # The holder is a pod's name; what may follow it tells one life of the pod from the next.
    pod=$(leader) && pod=${pod%%_*} && [ -n "$pod" ] || { echo "$(date +%T) no leader"; continue; }
    way=${ways[turn++ % ${#ways[@]}]}
    echo "$(date +%T) kill $pod: $way"
    case $way in slain) slay "$pod" ;; unplugged) unplug "$pod" ;; esac || true
    # Alone, this lets it go in peace: the API server forgets the pod at once, and the kubelet sends SIGTERM and waits for as long as the pod says.
    at kubectl -n "$NAMESPACE" delete pod "$pod" --grace-period=0 --force 2>&1 || true
  done
}
# The suite deletes what a test made as soon as it ends: pods' logs are kept by links to their files.
keep_logs() {
  local from log to
  from=$($cluster path state)/var/log/pods
  while sleep 1; do
    for log in "$from"/*/*/*.log; do
      to=$OUT/pods/${log#"$from"/}
      to=${to%/*}-${to##*/}
      [ ! -e "$log" ] || [ -e "$to" ] || { mkdir -p "${to%/*}" && ln "$log" "$to"; } 2>/dev/null || true
    done
  done
}
progress() { tail -n +1 -f "$OUT/summary" | grep --line-buffered -v '^not run '; }
events() { while :; do at kubectl get events -A --watch-only -o wide || sleep 1; done; }

bundle() {
  local kind pod
  at kubectl get events -A --sort-by=.lastTimestamp -o wide >"$OUT/events-at-the-end.log" 2>&1 || true
  at kubectl get pods,services,endpointslices,deployments,daemonsets -A -o wide >"$OUT/workloads.log" 2>&1 || true
  for kind in gatewayclasses gateways listenersets httproutes grpcroutes backendtlspolicies referencegrants; do
    at kubectl get "$kind.gateway.networking.k8s.io" -A -o yaml >"$OUT/$kind.yaml" 2>/dev/null || true
  done
  at kubectl get lease,configmaps -n "$NAMESPACE" -o yaml >"$OUT/lease-and-reports.yaml" 2>&1 || true
  for pod in $(at kubectl get pods -A -l 'app.kubernetes.io/name in (portolan,portolan-proxy)' \
    -o 'jsonpath={range .items[*]}{.metadata.namespace}/{.metadata.name} {end}' 2>/dev/null); do
    at kubectl -n "${pod%/*}" logs "${pod#*/}" --all-containers --prefix >"$OUT/${pod/\//.}.log" 2>&1 || true
    at kubectl -n "${pod%/*}" logs "${pod#*/}" --all-containers --prefix --previous >"$OUT/${pod/\//.}.previous.log" 2>/dev/null || true
  done
  [ -z "$own" ] || cp -r "$($cluster path logs)" "$OUT/node" 2>/dev/null || true
  find "$OUT" -name '*.log' -empty -delete
  tar -czf "$OUT.tar.gz" --exclude=portolan.tar -C "$OUT" .
  echo "logs: $OUT, and as one file $OUT.tar.gz" >&2
}

# The tests that took longest, each with what it waited for most: the time that went by after a line of its log until the next one, summed.
slowest() { # LOG
  awk '
    function seconds(text,  part) { split(text, part, /[-T:Z]/); return ((part[3] * 24 + part[4]) * 60 + part[5]) * 60 + part[6] }
    /^=== (RUN|CONT|NAME|PAUSE) / {
      depth = split($3, path, "/"); test = path[2]
      # A test that has begun waits for a place among those that run at once; one that has not yet is not counted by Go either.
      if ($2 == "PAUSE") { if (depth > 2) said[test] = "its turn: no more tests run at once"; else delete before[test] }
    }
    match($0, /20[0-9][0-9]-[0-9][0-9]-[0-9][0-9]T[0-9:.]+Z/) && test != "" {
      now = seconds(substr($0, RSTART, RLENGTH))
      if (test in before) {
        sum = spent[test, said[test]] += now - before[test]
        if (sum > most[test]) { most[test] = sum; reason[test] = said[test] }
      }
      before[test] = now; said[test] = substr($0, RSTART + RLENGTH + 2)
    }
    /^    --- (PASS|FAIL): / { split($3, path, "/"); took = $4; gsub(/[()s]/, "", took)
      printf "%8.1f s  %-45s %5.1f s of them after: %.110s\n", took, path[2], most[path[2]], reason[path[2]] }
  ' "$1" | sort -nr | sed -n '1,10p'
}

# What each replica in our own cluster uses: its PID in there, KiB of memory that are resident, of those anonymous, and resident at most, and
# hundredths of a second of CPU.
replicas() {
  # The variables are for the shell in the node.
  # shellcheck disable=SC2016
  $cluster node sh -c 'for pid in $(pgrep -x portolan); do
    tr "\0" " " <"/proc/$pid/cmdline" | grep -q "portolan controller" || continue
    echo "$pid $(sed -n "s/^\(VmRSS\|RssAnon\|VmHWM\):[^0-9]*\([0-9]*\).*/\1 \2/p" "/proc/$pid/status" | sort | cut -d" " -f2 | tr "\n" " ")" \
      "$(sed "s/.*) //" "/proc/$pid/stat" | cut -d" " -f12,13)"
  done' 2>/dev/null | awk '{ print $1, $4, $2, $3, $5 + $6 }'
}
# Prints that, and what they use while nothing happens. Fails beyond the bars: 60 MB, 0.5 % of a core.
appetite() {
  local before after result=0
  replicas | awk '{ printf "controller: %.1f MB resident (bar: 60), of them %.1f anonymous; %.1f at most; %.1f s of CPU\n", \
    $2 * 1.024e-3, $3 * 1.024e-3, $4 * 1.024e-3, $5 / 100; over += $2 * 1.024e-3 > 60 } END { exit over > 0 || NR == 0 }' || result=1
  sleep 20 # the suite's fleets end
  before=$(replicas)
  sleep 60
  after=$(replicas)
  awk 'NR == FNR { used[$1] = $5; next } ($1 in used) { count++; share = ($5 - used[$1]) / 60; over += share > 0.5
    printf "controller, idle for a minute: %.2f %% of a core (bar: 0.5), %.1f MB resident\n", share, $2 * 1.024e-3 }
    END { exit over > 0 || count == 0 }' <(echo "$before") <(echo "$after") || result=1
  return $result
}

# The page that upstream asks for beside the reports: https://github.com/kubernetes-sigs/gateway-api/tree/main/conformance/reports
readme() { # FOLDER
  local report channel rest
  cat <<'END'
# Portolan

Portolan is a Gateway API controller that programs Envoy proxies: <https://portolan.dev>.

## Table of contents

| API channel | Implementation version | Mode | Report |
|-------------|------------------------|------|--------|
END
  for report in "$1"/*-report.yaml; do
    report=${report##*/} channel=${report%%-*} rest=${report#*-}
    echo "| $channel | [${rest%-default-report.yaml}](https://portolan.dev) | default | [${rest%-default-report.yaml} report](./$report) |"
  done
  cat <<'END'

## Reproduce

On Linux with Rust and root, in Portolan's source at the version of the report:

    make conformance CHANNEL=experimental
    make conformance CHANNEL=standard

That builds a cluster of one node, installs Portolan by its chart with two replicas, and runs the suite. With `KUBECONFIG` set it does the same in
any other cluster (`conformance/README.md`).
END
}

# --- go ----------------------------------------------------------------------------------------------------------------------------
failed() { bundle; die "$1"; }
if [ "$INSTALL" != no ]; then install || failed "the installation failed; helm's words: $(tail -n 3 "$OUT/helm.log" 2>/dev/null)"; fi
{ at kubectl wait --for=create "gatewayclass/$CLASS" --timeout=60s && at kubectl wait --for=condition=Accepted "gatewayclass/$CLASS" --timeout=60s; } >/dev/null ||
  failed "no controller has accepted the GatewayClass $CLASS within a minute"
# A controller may claim nothing and be asked all the same.
claimed=${FEATURES//,/ }
if [ -z "$claimed" ]; then
  claimed=$(at kubectl get gatewayclass "$CLASS" -o 'jsonpath={.status.supportedFeatures[*].name}')
  [ -n "$claimed" ] || failed "the GatewayClass $CLASS claims no feature in status.supportedFeatures"
fi
say "GatewayClass $CLASS is accepted; $(wc -w <<<"$claimed") features are tested"

beside events >"$OUT/events.log" 2>&1
[ -z "$own" ] || beside keep_logs
[ -z "$CHAOS" ] || beside chaos >"$OUT/chaos.log" 2>&1

report=$OUT/$CHANNEL-$version-default-report.yaml
arguments=(-test.v -test.run '^TestConformance$' -test.timeout 60m -test.parallel "$PARALLEL"
  -gateway-class "$CLASS" -conformance-profiles "$PROFILES" -summary "$OUT/summary" -report-output "$report"
  -organization portolan -project portolan -url https://portolan.dev -version "$version" -contact https://portolan.dev/contact)
[ -z "$RUN" ] || arguments+=(-run-test "$RUN")
[ -z "$FEATURES" ] || arguments+=(-supported-features "$FEATURES")
[ -z "${USABLE_ADDRESS:-}" ] || arguments+=(-usable-address "$USABLE_ADDRESS")
[ -z "${UNUSABLE_ADDRESS:-}" ] || arguments+=(-unusable-address "$UNUSABLE_ADDRESS")
# An earlier run's namespaces take a moment to go.
for namespace in $(at kubectl get namespaces -o 'jsonpath={.items[?(@.status.phase=="Terminating")].metadata.name}'); do
  at kubectl wait --for=delete "namespace/$namespace" --timeout=2m >/dev/null || failed "the namespace $namespace does not end"
done
say "the suite begins, $PARALLEL tests at once${CHAOS:+, the leader killed every 30 s}"
begun=$SECONDS result=0
: >"$OUT/summary"
beside progress
# The times in its log are compared.
TZ=UTC at "$suite" "${arguments[@]}" >"$OUT/suite.log" 2>&1 || result=$?
sleep 1 # for the last lines
finish
say "the suite took $((SECONDS - begun)) s${CHAOS:+; the leader was killed $(grep -c ' kill ' "$OUT/chaos.log") times}"
echo "slowest tests:"
slowest "$OUT/suite.log"
passed=$(grep -c '^passed ' "$OUT/summary" || true) broken=$(grep -c '^FAILED ' <(sort -u "$OUT/summary") || true) skipped=$(grep -c '^not run ' "$OUT/summary" || true)
printf '%d passed, %d failed, %d skipped\n' "$passed" "$broken" "$skipped"
[ $result = 0 ] && [ "$passed" -gt 0 ] || failed "not conformant: see $OUT/suite.log"
if [ "$INSTALL" != no ]; then
  at kubectl -n "$NAMESPACE" logs -l app.kubernetes.io/name=portolan --tail=-1 >"$OUT/controller.log" 2>&1
  if grep -q 'is forbidden: User' "$OUT/controller.log"; then failed "the chart's roles lack a right: $(grep -m 1 'is forbidden: User' "$OUT/controller.log")"; fi
fi
if [ -n "$own" ] && [ "$INSTALL" != no ] && [ -z "$RUN" ]; then appetite || failed "a replica of the controller uses more than it may"; fi

if [ -z "$RUN$FEATURES" ]; then
  mkdir -p "$folder"
  cp "$report" "$folder/"
  readme "$folder" >"$folder/README.md"
  say "report: $folder/${report##*/}"
fi
