"""A WSGI application that parses each message and answers it, and does nothing else: what is left is the host."""

import json

from common import REVISION

RESULTS = {"initialize": {"protocolVersion": REVISION, "capabilities": {"tools": {}},
                          "serverInfo": {"name": "bare", "version": "1"}},
           "tools/call": {"content": [{"type": "text", "text": "3"}]}}


def application(environ, start_response):
    length = environ.get("CONTENT_LENGTH")
    message = json.loads(environ["wsgi.input"].read(int(length))) if length else {}
    body = b""
    if "id" in message:
        body = json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": RESULTS[message["method"]]}).encode("ascii")
    start_response("200 OK" if body else "202 Accepted", [
        ("Content-Type", "application/json"), ("Mcp-Session-Id", "0" * 32), ("Content-Length", str(len(body)))])
    return [body]
