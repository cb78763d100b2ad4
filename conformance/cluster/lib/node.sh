#!/usr/bin/env bash
# PID 1 of the node: runs in fresh network, mount, PID, IPC and UTS namespaces
# that `cluster up` makes, sets up mounts and addresses, then starts every
# component and keeps it running. When this process dies, the kernel ends
# everything else in the PID namespace, pods included, and the namespaces go.
set -eu
. "$(dirname "$0")/env.sh"
log() { echo "$(date +%T.%3N) $*"; }

# cgroups: the node's processes in /$CLUSTER/node, pods under /$CLUSTER/kubepods.
for c in /sys/fs/cgroup/*/; do
  [ -e "$c/cgroup.procs" ] || continue
  mkdir -p "$c/$CLUSTER/node"
  if [ -e "$c/cpuset.cpus" ]; then
    for d in "$c/$CLUSTER" "$c/$CLUSTER/node"; do
      cat "$c/cpuset.cpus" >"$d/cpuset.cpus"
      cat "$c/cpuset.mems" >"$d/cpuset.mems"
    done
  fi
  echo $$ >"$c/$CLUSTER/node/cgroup.procs"
done

# Mounts, private to this mount namespace but shared within it (the kubelet and
# runc need that): whatever the node writes to /run, /var/lib or /var/log is its own.
mount --make-rshared /
mkdir -p "$STATE"/var/{lib,log} "$STATE/logs"
mount --bind "$STATE/var/lib" /var/lib
mount --bind "$STATE/var/log" /var/log
mount -t tmpfs -o mode=755 tmpfs /run
mkdir -p /run/lock
# The kubelet would set these for the whole machine: show it the wanted values.
mkdir -p /run/sysctl
while read -r key value; do
  echo "$value" >"/run/sysctl/${key//\//.}"
  mount --bind "/run/sysctl/${key//\//.}" "/proc/sys/$key"
done <<'EOF'
vm/overcommit_memory 1
vm/panic_on_oom 0
kernel/panic 10
kernel/panic_on_oops 1
kernel/keys/root_maxkeys 1000000
kernel/keys/root_maxbytes 25000000
EOF

# Network: the kernel here has no dummy device, so a veth pair carries the
# node's address. Load-balancer addresses are local to the node, so that a port
# nobody serves is refused at once instead of waiting for ARP.
hostname "$CLUSTER"
ip link set lo up
ip link add node0 type veth peer name node0p
ip addr add "$NODE_NET" dev node0
ip link set node0 up
ip link set node0p up
ip route add local "$LB_POOL" dev lo src "$NODE_IP"
# There is no default route, but a lookup must succeed before Service NAT happens.
ip route add "$SERVICE_NET" dev node0 src "$NODE_IP"
sysctl -qw net.ipv4.ip_forward=1 net.ipv4.conf.all.rp_filter=0 net.ipv4.conf.default.rp_filter=0

keep() { # NAME COMMAND...: run it, log to logs/NAME.log, start it again if it ends
  local name=$1; shift
  (
    while :; do
      log "start $name"
      "$@" >>"$STATE/logs/$name.log" 2>&1 || log "$name ended: $?"
      sleep 1
    done
  ) &
}
await() { # SECONDS COMMAND...
  local end=$((SECONDS + $1)); shift
  until "$@" >/dev/null 2>&1; do
    [ $SECONDS -lt $end ] || { log "gave up on: $*"; return 1; }
    sleep 0.1
  done
}
PKI=$STATE/pki CONF=$STATE/conf

keep containerd "$CONTAINERD" --config "$CONF/containerd.toml"
{
  await 30 ctr version
  for tar in "$IMAGES"/*.tar; do
    ctr -n k8s.io images import "$tar" >>"$STATE/logs/images.log" 2>&1 || log "import of $tar failed"
  done
  log "images imported"
} &
importing=$!
keep etcd "$BIN/kube" etcd --name "$CLUSTER" --data-dir "$STATE/etcd" --unsafe-no-fsync \
  --listen-client-urls http://127.0.0.1:2379 --advertise-client-urls http://127.0.0.1:2379 \
  --listen-peer-urls http://127.0.0.1:2380 --initial-advertise-peer-urls http://127.0.0.1:2380 \
  --initial-cluster "$CLUSTER=http://127.0.0.1:2380" --log-level warn
await 30 curl -fs http://127.0.0.1:2379/health
log "etcd healthy"
keep kube-apiserver "$BIN/kube" kube-apiserver \
  --etcd-servers http://127.0.0.1:2379 \
  --advertise-address "$NODE_IP" --bind-address 0.0.0.0 --secure-port 6443 \
  --service-cluster-ip-range "$SERVICE_NET" \
  --client-ca-file "$PKI/ca.crt" \
  --tls-cert-file "$PKI/apiserver.crt" --tls-private-key-file "$PKI/apiserver.key" \
  --kubelet-client-certificate "$PKI/apiserver-kubelet-client.crt" \
  --kubelet-client-key "$PKI/apiserver-kubelet-client.key" \
  --kubelet-certificate-authority "$PKI/ca.crt" \
  --kubelet-preferred-address-types InternalIP \
  --service-account-issuer https://kubernetes.default.svc \
  --service-account-key-file "$PKI/sa.pub" --service-account-signing-key-file "$PKI/sa.key" \
  --authorization-mode Node,RBAC --enable-admission-plugins NodeRestriction \
  --allow-privileged --enable-priority-and-fairness=false --profiling=false --v 1
await 60 curl -fsk --cert "$PKI/admin.crt" --key "$PKI/admin.key" https://127.0.0.1:6443/readyz
log "apiserver ready"
keep kube-controller-manager "$BIN/kube" kube-controller-manager \
  --kubeconfig "$PKI/kube-controller-manager.kubeconfig" --leader-elect=false \
  --use-service-account-credentials \
  --root-ca-file "$PKI/ca.crt" --service-account-private-key-file "$PKI/sa.key" \
  --cluster-signing-cert-file "$PKI/ca.crt" --cluster-signing-key-file "$PKI/ca.key" \
  --kube-api-qps 200 --kube-api-burst 400 --concurrent-namespace-syncs 20 \
  --bind-address 127.0.0.1 --profiling=false --v 1
keep kube-scheduler "$BIN/kube" kube-scheduler \
  --kubeconfig "$PKI/kube-scheduler.kubeconfig" --leader-elect=false \
  --kube-api-qps 200 --kube-api-burst 400 --bind-address 127.0.0.1 --profiling=false --v 1
keep kube-proxy "$BIN/kube" kube-proxy --config "$CONF/kube-proxy.yaml" --v 1
wait "$importing" || true
keep kubelet "$BIN/kube" kubelet --config "$CONF/kubelet.yaml" \
  --kubeconfig "$PKI/kubelet.kubeconfig" --hostname-override "$CLUSTER" --node-ip "$NODE_IP" --v 1
keep lb "$BIN/kube" lb --kubeconfig "$PKI/admin.kubeconfig" --pool "$LB_POOL"
log "all started"
# bash reaps the orphans that shims leave; wait for ever.
while :; do wait -n || true; done
