#!/usr/bin/env bash
# Runs pip with the given arguments, from whatever this machine has: `python3 -m pip`, else a virtual environment in Portolan's cache,
# else Debian's package (as root only). The package index is the one that the machine's pip is configured for.
set -euo pipefail

cache="${XDG_CACHE_HOME:-$HOME/.cache}/portolan"

command -v python3 >/dev/null || {
    echo "hack/pip.sh: python3 is not on PATH; install it (Debian: apt-get install python3 python3-venv)" >&2
    exit 1
}

export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore PIP_NO_INPUT=1

if python3 -m pip --version >/dev/null 2>&1; then
    exec python3 -m pip "$@"
fi

venv="$cache/venv"
if [ ! -x "$venv/bin/pip" ]; then
    mkdir -p "$cache"
    if ! python3 -m venv "$venv" >/dev/null 2>&1; then
        rm -rf "$venv"
        if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
            { apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends python3-pip; } >&2
            exec python3 -m pip "$@"
        fi
        echo "hack/pip.sh: python3 has neither pip nor venv; install one (Debian: apt-get install python3-pip)" >&2
        exit 1
    fi
fi
exec "$venv/bin/pip" "$@"
