#!/usr/bin/env bash
# Installs other people's implementations, which tests/interop and benchmarks/ run against.
#
#     tests/interop/install.sh
#
# MCPLITE_INTEROP is the folder to fill, by default .interop beside this repository's README.
# PYTHON is an interpreter of Python 3.10 or newer; by default the first of python3.11 ... on the path.
# It needs pip, and npm for the two servers in JavaScript. A second call finds all of it there and is quick.
set -euo pipefail
unset PYTHONPATH VIRTUAL_ENV
root=$(cd "$(dirname "$0")/../.." && pwd)
home=${MCPLITE_INTEROP:-$root/.interop}

find_python() {
    local candidate
    for candidate in ${PYTHON:+"$PYTHON"} python3.11 python3.12 python3.13 python3.10 python3.14 python3; do
        if "$candidate" -c 'import sys, venv; sys.exit(sys.version_info < (3, 10))' 2>/dev/null; then
            command -v "$candidate"
            return
        fi
    done
    echo "tests/interop/install.sh: no Python 3.10 or newer found; say PYTHON=..." >&2
    return 1
}

# The stamp holds what was asked for, so that a changed pin installs anew and a broken install is not kept.
venv() {
    local name=$1 wanted
    shift
    wanted="$*"
    if [ "$(cat "$home/$name/installed" 2>/dev/null || true)" = "$wanted" ]; then return; fi
    echo "installing $wanted into $home/$name"
    rm -rf "${home:?}/$name"
    "$python" -m venv "$home/$name"
    "$home/$name/bin/python" -m pip install -q --disable-pip-version-check "$@"
    echo "$wanted" > "$home/$name/installed"
}

node() {
    local wanted="$*"
    if [ "$(cat "$home/node/installed" 2>/dev/null || true)" = "$wanted" ]; then return; fi
    if ! command -v npm >/dev/null; then
        echo "npm is not installed: the tests against the servers in JavaScript will be skipped" >&2
        return
    fi
    echo "installing $wanted into $home/node"
    rm -rf "${home:?}/node"
    mkdir -p "$home/node"
    npm install --silent --no-audit --no-fund --ignore-scripts --prefix "$home/node" "$@"
    echo "$wanted" > "$home/node/installed"
}

mkdir -p "$home"
python=$(find_python)
venv mcp2 mcp==2.3.0
venv mcp1 mcp==1.30.0
venv servers mcp-server-git==2026.10.19 mcp-server-time==2026.10.19
node @modelcontextprotocol/server-everything@2026.8.31 @modelcontextprotocol/server-filesystem@2026.8.31
