#!/usr/bin/env bash
# Stands in for a controller, to prove the cluster alone: accepts the GatewayClass, claims the core features and marks every Gateway
# Accepted and Programmed with an address that nobody serves. The suite's set-up passes with it; its tests then fail, as they should.
#   lib/fake-controller.sh [CLASS]
set -u
class=${1:-portolan}
kubectl() { "$(dirname "${BASH_SOURCE[0]}")/../cluster" kubectl "$@"; }
now() { date -u +%FT%TZ; }
condition() { printf '{"type":"%s","status":"True","reason":"%s","message":"fake","observedGeneration":%s,"lastTransitionTime":"%s"}' "$1" "$1" "$2" "$(now)"; }

kubectl apply -f - <<END
apiVersion: gateway.networking.k8s.io/v1
kind: GatewayClass
metadata: {name: $class}
spec: {controllerName: portolan.dev/fake-controller}
END
kubectl patch gatewayclass "$class" --subresource=status --type=merge -p "{\"status\":{\"conditions\":[$(condition Accepted 1)],
  \"supportedFeatures\":[{\"name\":\"GRPCRoute\"},{\"name\":\"Gateway\"},{\"name\":\"HTTPRoute\"},{\"name\":\"ReferenceGrant\"}]}}"
while sleep 1; do
  kubectl get gateways -A -o json | jq -r '.items[] | select(any(.status.conditions[]?; .type=="Programmed" and .status=="True") | not)
    | [.metadata.namespace, .metadata.name, .metadata.generation, ([.spec.listeners[].name] | join(","))] | @tsv' |
    while read -r namespace name generation listeners; do
      statuses=
      for listener in ${listeners//,/ }; do
        statuses+="${statuses:+,}{\"name\":\"$listener\",\"attachedRoutes\":0,\"supportedKinds\":[{\"group\":\"gateway.networking.k8s.io\",\"kind\":\"HTTPRoute\"}],
          \"conditions\":[$(condition Accepted "$generation"),$(condition Programmed "$generation"),$(condition ResolvedRefs "$generation")]}"
      done
      kubectl -n "$namespace" patch gateway "$name" --subresource=status --type=merge -p "{\"status\":{
        \"addresses\":[{\"type\":\"IPAddress\",\"value\":\"172.18.200.250\"}],\"listeners\":[$statuses],
        \"conditions\":[$(condition Accepted "$generation"),$(condition Programmed "$generation")]}}"
    done
done
