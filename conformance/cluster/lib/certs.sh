#!/usr/bin/env bash
# Makes the cluster's CA, certificates and kubeconfigs in $STATE/pki.
set -eu
. "$(dirname "$0")/env.sh"
mkdir -p "$STATE/pki"
cd "$STATE/pki"
[ -s done ] && exit 0
quiet() { "$@" 2>>openssl.log || { cat openssl.log >&2; exit 1; }; }

quiet openssl ecparam -name prime256v1 -genkey -noout -out ca.key
quiet openssl req -x509 -new -key ca.key -days 30 -subj /CN=kubernetes-ca -out ca.crt \
  -addext basicConstraints=critical,CA:TRUE -addext keyUsage=critical,keyCertSign,cRLSign,digitalSignature
# Service account tokens are signed with this one.
quiet openssl genrsa -out sa.key 2048
quiet openssl rsa -in sa.key -pubout -out sa.pub

cert() { # USER SUBJECT [SAN]
  quiet openssl ecparam -name prime256v1 -genkey -noout -out "$1.key"
  quiet openssl req -new -key "$1.key" -subj "$2" -out "$1.csr"
  {
    echo 'keyUsage=critical,digitalSignature'
    echo 'extendedKeyUsage=clientAuth,serverAuth'
    if [ -n "${3-}" ]; then echo "subjectAltName=$3"; fi
  } >"$1.ext"
  quiet openssl x509 -req -in "$1.csr" -CA ca.crt -CAkey ca.key -CAcreateserial -days 30 \
    -extfile "$1.ext" -out "$1.crt"
  rm "$1.csr" "$1.ext"
}
kubeconfig() { # USER: one that carries its certificates, so that it can be copied
  cat >"$1.kubeconfig" <<EOF
apiVersion: v1
kind: Config
current-context: $CLUSTER
clusters:
- name: $CLUSTER
  cluster:
    server: https://$NODE_IP:6443
    certificate-authority-data: $(base64 -w0 ca.crt)
users:
- name: $1
  user:
    client-certificate-data: $(base64 -w0 "$1.crt")
    client-key-data: $(base64 -w0 "$1.key")
contexts:
- name: $CLUSTER
  context: {cluster: $CLUSTER, user: $1}
EOF
}
cert apiserver /CN=kube-apiserver "IP:127.0.0.1,IP:$NODE_IP,IP:$SERVICE_FIRST,DNS:localhost,DNS:kubernetes,DNS:kubernetes.default,DNS:kubernetes.default.svc,DNS:kubernetes.default.svc.cluster.local"
cert apiserver-kubelet-client /O=system:masters/CN=kube-apiserver-kubelet-client
cert admin /O=system:masters/CN=admin
cert kube-controller-manager /CN=system:kube-controller-manager
cert kube-scheduler /CN=system:kube-scheduler
cert kube-proxy /CN=system:kube-proxy
cert kubelet "/O=system:nodes/CN=system:node:$CLUSTER" "IP:$NODE_IP,DNS:$CLUSTER"
for n in admin kube-controller-manager kube-scheduler kube-proxy kubelet; do kubeconfig $n; done
date >done
