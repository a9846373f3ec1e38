"""The floor as a server: read a line, ``json.loads``, answer, ``json.dumps``, write; one after the other."""

import json
import sys
import time

from common import text_of, usage

_SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}, "required": ["a", "b"]}


def tool(name, **properties):
    return {"name": name, "description": name, "inputSchema": {"type": "object", "properties": properties}}


def tools(count):
    """Return the list of tools: ours, and *count* more."""
    listed = [{"name": "add", "description": "Add two numbers.", "inputSchema": _SCHEMA,
               "outputSchema": {"type": "object", "properties": {"result": {"type": "integer"}}, "required": ["result"]}},
              tool("sleep", seconds={"type": "number"}), tool("text", size={"type": "integer"}),
              tool("length", text={"type": "string"}), tool("progress", count={"type": "integer"}),
              tool("stream", size={"type": "integer"}), tool("usage")]
    for n in range(count):
        listed.append({
            "name": "tool_%d" % n,
            "description": "Forecast number %d: the weather of a city for some days ahead, with details if they are"
                           " wanted." % n,
            "inputSchema": {"type": "object", "properties": {
                "city": {"type": "string"}, "days": {"type": "integer", "default": 3},
                "detailed": {"type": "boolean", "default": False}}, "required": ["city"]},
            "outputSchema": {"type": "object", "properties": {"result": {"type": "string"}}, "required": ["result"]}})
    return listed


def text_result(text):
    return {"content": [{"type": "text", "text": text}]}


def call(params, send):
    """Return the result of a tools/call."""
    name, arguments = params["name"], params.get("arguments") or {}
    if name == "add":
        total = arguments["a"] + arguments["b"]
        return {"content": [{"type": "text", "text": str(total)}], "structuredContent": {"result": total}}
    if name == "sleep":
        time.sleep(arguments["seconds"])
        return text_result("slept")
    if name == "text":
        return text_result(text_of(arguments["size"]))
    if name == "length":
        return text_result(str(len(arguments["text"])))
    if name == "stream":
        send({"jsonrpc": "2.0", "method": "notifications/progress",
              "params": {"progressToken": params["_meta"]["progressToken"], "progress": 1, "total": 1}})
        return text_result(text_of(arguments["size"]))
    if name == "progress":
        token, count = params["_meta"]["progressToken"], arguments["count"]
        for n in range(1, count + 1):
            send({"jsonrpc": "2.0", "method": "notifications/progress",
                  "params": {"progressToken": token, "progress": n, "total": count}})
        return text_result("done")
    return text_result(json.dumps(usage()))


def answer(message, listed, send):
    """Return the response to a request; *send* takes what is said before."""
    method, params = message["method"], message.get("params") or {}
    version = params.get("_meta", {}).get("io.modelcontextprotocol/protocolVersion")
    if method == "tools/call":
        result = call(params, send)
    elif method == "tools/list":
        result = {"tools": listed}
    elif method == "initialize":
        result = {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}},
                  "serverInfo": {"name": "floor", "version": "1"}}
    elif method == "server/discover":
        result = {"supportedVersions": [version], "capabilities": {"tools": {}}}
    else:
        result = {}
    if version is not None:
        # The newest revision requires these; a result may have more than it needs.
        result = {**result, "resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
    return {"jsonrpc": "2.0", "id": message["id"], "result": result}


def main(count):
    lines, write, flush = sys.stdin.buffer, sys.stdout.buffer.write, sys.stdout.buffer.flush
    listed = tools(count)

    def send(message):
        write(json.dumps(message, separators=(",", ":"), ensure_ascii=False).encode("utf-8") + b"\n")
        flush()

    for line in lines:
        message = json.loads(line)
        if "id" in message:
            send(answer(message, listed, send))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
