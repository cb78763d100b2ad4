# For hack/image.sh and hack/envoy-image.sh: what goes along with a program, as SRC:DEST of hack/mkimage.py. Sourced with bash.

# The loader and the C library that a program is linked against. Each lands at its own path.
libraries() { # PROGRAM
    local library
    # A program without any is static.
    { ldd "$1" 2>/dev/null || true; } | { grep -o '/[^ ]*' || true; } | sort -u | while read -r library; do
        echo "$library:$library"
    done
}

# The authorities that the machine trusts, where programs look for them.
certificates() {
    local bundle
    for bundle in /etc/ssl/certs/ca-certificates.crt /etc/pki/tls/certs/ca-bundle.crt /etc/ssl/ca-bundle.pem; do
        if [ -f "$bundle" ]; then
            echo "$bundle:/etc/ssl/certs/ca-certificates.crt"
            return
        fi
    done
    echo "hack: this machine has no certificate authorities (Debian: apt-get install ca-certificates)" >&2
    return 1
}
