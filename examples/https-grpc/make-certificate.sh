#!/usr/bin/env bash
# Writes certificate.yaml with a new self-made certificate for the names of this example.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

staging="$(mktemp -d)"
trap 'rm -rf "$staging"' EXIT
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 36500 \
    -subj "/CN=secure.example" -addext "subjectAltName=DNS:www.secure.example,DNS:grpc.secure.example" \
    -keyout "$staging/tls.key" -out "$staging/tls.crt" 2>/dev/null
cat >certificate.yaml <<YAML
# Self-made by make-certificate.sh; the key is public.
apiVersion: v1
kind: Secret
type: kubernetes.io/tls
metadata:
  name: secure-example
data:
  tls.crt: $(base64 -w0 "$staging/tls.crt")
  tls.key: $(base64 -w0 "$staging/tls.key")
YAML
