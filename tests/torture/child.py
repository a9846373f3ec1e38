"""A server for the torture of clients, with as few imports as can be: one of the handshake era, on stdin and stdout."""

import json
import sys


def send(message):
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


for line in sys.stdin:
    asked = json.loads(line)
    method, id = asked.get("method"), asked.get("id")
    if method == "initialize":
        sys.stderr.write("started\n")
        sys.stderr.flush()
        send({"id": id, "result": {"protocolVersion": asked["params"]["protocolVersion"],
                                   "capabilities": {"tools": {}, "logging": {}}, "serverInfo": {"name": "x", "version": "1"}}})
    elif method == "tools/list":
        send({"id": id, "result": {"tools": [{"name": "add", "inputSchema": {"type": "object"}}]}})
    elif method == "tools/call":
        send({"method": "notifications/message", "params": {"level": "info", "data": "called"}})
        send({"id": id, "result": {"content": [{"type": "text", "text": "3"}]}})
    elif id is not None:
        send({"id": id, "result": {}})
