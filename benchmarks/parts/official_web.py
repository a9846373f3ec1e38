"""The official SDK's server over HTTP, with the same tools as over stdio, on uvicorn, as the SDK runs it."""

import sys

import uvicorn
from common import listener
from official_server import mcp


def main(mode):
    app = mcp.streamable_http_app(json_response=mode == "json", max_request_body_size=64 << 20)
    uvicorn.Server(uvicorn.Config(app, log_level="error")).run(sockets=[listener()])


if __name__ == "__main__":
    main(*sys.argv[1:])
