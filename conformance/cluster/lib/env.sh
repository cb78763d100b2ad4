# Settings shared by `cluster` and the scripts in lib/. Those of the first block can be given by environment.
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
ROOT=$(cd "$HERE/../.." && pwd)
: "${CLUSTER:=portolan}"                                                      # name of the node and of its cgroups
: "${CLUSTER_CACHE:=${XDG_CACHE_HOME:-$HOME/.cache}/portolan/cluster}"        # what `build` makes
: "${CLUSTER_STATE:=$CLUSTER_CACHE/state/$CLUSTER}"                           # what `up` makes and `down` removes
: "${CONTAINERD:=containerd}"                                                 # containerd 1.6 or newer
: "${CNI_BIN:=/usr/lib/cni}"                                                  # ptp, host-local, loopback

BIN=$CLUSTER_CACHE/bin IMAGES=$CLUSTER_CACHE/images CRDS=$CLUSTER_CACHE/crds STATE=$CLUSTER_STATE

# Addresses exist in the cluster's own network namespace only, so any number of clusters can have the same.
NODE_IP=172.18.0.2 NODE_NET=172.18.0.2/17
LB_POOL=172.18.200.0/24                     # Services of type LoadBalancer
POD_NET=10.244.0.0/16
SERVICE_NET=10.96.0.0/16 SERVICE_FIRST=10.96.0.1 DNS_IP=10.96.0.10
PAUSE_IMAGE=localhost/pause:1

# Versions are said once: in the go.mod of each module.
version() { awk -v module="$2" '$1 == module { print $2; exit }' "$1"; }
K8S_VERSION=$(version "$HERE/go.mod" k8s.io/kubernetes)
HELM_VERSION=$(version "$HERE/go.mod" helm.sh/helm/v4)
GATEWAY_API=$(version "$ROOT/conformance/go.mod" sigs.k8s.io/gateway-api)

export HERE CLUSTER CLUSTER_CACHE CLUSTER_STATE CONTAINERD CNI_BIN
