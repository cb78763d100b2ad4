# What `cluster build` makes. Every part has a key, which says what it was made from; a part whose key is still right is not touched.
PARTS="kube helm coredns pause echo-basic conformance.test images crds"
# The versions of the Gateway API whose CRDs tests install.
CRD_VERSIONS="v1.5.1 $GATEWAY_API v1.7.0"

build() {
  mkdir -p "$BIN" "$IMAGES" "$CRDS"
  local part version
  for part in ${*:-$PARTS}; do
    case "$part" in
      kube)
        local v=k8s.io/component-base/version minor=${K8S_VERSION#v1.}
        go_program kube "$HERE" kube "-s -w -X $v.gitVersion=$K8S_VERSION -X $v.gitMajor=1 -X $v.gitMinor=${minor%%.*} \
-X $v.gitTreeState=clean -X $v.gitCommit=$(printf %040d 0)" ./kube
        ln -sf kube "$BIN/kubectl"
        ;;
      helm) go_program helm "$HERE" '' "-s -w -X helm.sh/helm/v4/internal/version.version=$HELM_VERSION" helm.sh/helm/v4/cmd/helm ;;
      coredns) go_program coredns "$HERE" coredns '-s -w' ./coredns ;;
      pause) go_program pause "$HERE" pause '-s -w' ./pause ;;
      echo-basic) go_program echo-basic "$ROOT/conformance" '' '-s -w' sigs.k8s.io/gateway-api/conformance/echo-basic ;;
      conformance.test) suite ;;
      images) images ;;
      crds) for version in $CRD_VERSIONS; do unpack_crds "$version"; done ;;
      *) die "build: no part $part; there are: $PARTS" ;;
    esac
  done
}

digest() { sha256sum | cut -c1-32; }
# The versions of a module's dependencies and the sources in some of its folders.
module_key() { # MODULE [FOLDER...]
  local module=$1 folder
  shift
  cat "$module/go.mod" "$module/go.sum"
  for folder; do find "$module/$folder" -name '*.go' | sort | xargs cat; done
}
fresh() { [ -e "$1" ] && [ "$(cat "$1.key" 2>/dev/null)" = "$2" ]; }
made() { # FILE KEY SECONDS
  echo "$2" >"$1.key"
  say "built ${1##*/}: $((SECONDS - $3)) s, $(($(stat -c %s "$1") >> 20)) MiB"
}
go_in() { # MODULE ARGUMENTS...
  local module=$1
  shift
  GO=${GO:-$("$ROOT/hack/go.sh")}
  (cd "$module" && "$GO" "$@")
}

go_program() { # NAME MODULE FOLDER LDFLAGS PACKAGE
  local out=$BIN/$1 key started=$SECONDS
  key=$({ module_key "$2" ${3:+"$3"}; echo "$4 $5"; } | digest)
  fresh "$out" "$key" && return
  # Static, for images without a file system. The same flags for all, or Go compiles their dependencies once for each.
  CGO_ENABLED=0 go_in "$2" build -trimpath -ldflags "$4" -o "$out.new" "$5"
  mv -f "$out.new" "$out"
  made "$out" "$key" "$started"
}

# With Go's defaults: the other tests in that module were compiled with them, so most of it is in Go's cache.
suite() {
  local out=$BIN/conformance.test key started=$SECONDS
  key=$(module_key "$ROOT/conformance" suite outcomes | digest)
  fresh "$out" "$key" && return
  go_in "$ROOT/conformance" test -c -ldflags '-s -w' -o "$out.new" ./suite
  mv -f "$out.new" "$out"
  made "$out" "$key" "$started"
}

unpack_crds() { # VERSION
  local version=$1 source channel
  [ ! -d "$CRDS/$version" ] || return 0
  # Outside of a module: its own go.mod would want to agree with the version. The Go that a newer one asks for is fetched with it.
  source=$(GOTOOLCHAIN=auto go_in / mod download -json "sigs.k8s.io/gateway-api@$version" | sed -n 's/.*"Dir": "\(.*\)",*/\1/p') || true
  [ -d "$source/config/crd" ] || die "no CRDs of the Gateway API $version: is it a released version?"
  rm -rf "$CRDS/$version.new"
  for channel in standard experimental; do
    mkdir -p "$CRDS/$version.new/$channel"
    # Without kustomization.yaml, so that the folder can be applied as it is.
    find "$source/config/crd/$channel" -name '*.yaml' ! -name kustomization.yaml \
      -exec install -m 644 -t "$CRDS/$version.new/$channel" {} +
  done
  mv "$CRDS/$version.new" "$CRDS/$version"
  say "unpacked CRDs of the Gateway API $version"
}

# --- images ------------------------------------------------------------------------------------------------------------------------
image() { # NAME ARGUMENTS-OF-MKIMAGE...
  local out=$IMAGES/$1.tar key started=$SECONDS argument
  shift
  key=$({
    cat "$ROOT/hack/mkimage.py"
    for argument; do
      echo "$argument"
      case "$argument" in /*:/*) stat -Lc '%s %Y' "${argument%%:/*}" ;; esac
    done
  } | digest)
  fresh "$out" "$key" && return
  python3 "$ROOT/hack/mkimage.py" "$out" "$@"
  made "$out" "$key" "$started"
}
# Every name that the suite's manifests use for an image, so that nothing is ever pulled.
tags() {
  local suite
  suite=$(go_in "$ROOT/conformance" list -m -f '{{.Dir}}' sigs.k8s.io/gateway-api/conformance)
  grep -rhoP "image:\s*\K\S+/$1:\S+" "$suite/base" "$suite/tests" --include=*.yaml | sort -u | sed 's/^/--tag /'
}
images() {
  local echo_tags coredns_tags
  echo_tags=$(tags echo-basic) coredns_tags=$(tags coredns)
  # Word splitting is meant.
  # shellcheck disable=SC2086
  {
    image echo-basic $echo_tags --tag localhost/echo-basic:1 --entrypoint '["/echo-basic"]' --user 65532:65532 "$BIN/echo-basic:/echo-basic"
    image coredns $coredns_tags --tag localhost/coredns:1 --entrypoint '["/coredns"]' "$BIN/coredns:/coredns"
  }
  image pause --tag "$PAUSE_IMAGE" --entrypoint '["/pause"]' --user 65535:65535 "$BIN/pause:/pause"
  # The program from PyPI links glibc dynamically: the loader and its libraries go along.
  local envoy library files
  envoy=$("$ROOT/hack/envoy.sh")
  files=("$envoy:/usr/local/bin/envoy")
  for library in $(ldd "$envoy" | grep -o '/[^ ]*'); do files+=("$library:$library"); done
  image envoy --tag localhost/envoy:1 --entrypoint '["/usr/local/bin/envoy"]' "${files[@]}"
}
