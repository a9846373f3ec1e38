"""A hostile server, and a client of it that reports its peak of memory: ``python flood.py client KIND`` prints MiB.

It shares no code with the package but the client itself, and runs as two processes of its own.
"""

import itertools
import json
import queue
import re
import subprocess
import sys
import threading

MEGABYTE = "x" * (1 << 20)
COUNT = 200


def note(method, **params):
    return {"jsonrpc": "2.0", "method": f"notifications/{method}", "params": params}


def floods(params):
    """Return, by kind, the messages that come before the answer to the call."""
    token = (params.get("_meta") or {}).get("progressToken")
    many = range(COUNT)
    return {
        "progress": (note("progress", progressToken=token, progress=n, message=MEGABYTE) for n in many),
        "logs": (note("message", level="info", data=MEGABYTE) for _ in many),
        "updates": (note("resources/updated", uri=f"x:{n}{MEGABYTE}") for n in many),
        "events": (note("resources/updated", uri=f"x:/{n}{MEGABYTE}") for n in many),
        "custom": (note("com.example/x", text=MEGABYTE) for _ in many),
        "small": (note("message", level="info", data=[{}] * 80) for _ in range(40_000)),
        "questions": ({"jsonrpc": "2.0", "id": f"q{n}", "method": "elicitation/create", "params": {
            "message": MEGABYTE, "requestedSchema": {"type": "object", "properties": {}}}} for n in many),
        "identities": ({"jsonrpc": "2.0", "id": f"q{n}", "method": "elicitation/create", "params": {
            "mode": "url", "message": "m", "url": "https://x.example/", "elicitationId": f"{n}{MEGABYTE}"}} for n in many),
        "unknown": (note("unknown", text=MEGABYTE) for _ in many),
        "answers": ({"jsonrpc": "2.0", "id": 10_000 + n, "result": {"text": MEGABYTE}} for n in many),
    }


def page(kind, number):
    cursor = str(number + 1) if number < 60 else None
    tool = {"name": f"t{number}", "inputSchema": {"type": "object"}}
    if kind == "pages":
        tool["description"] = MEGABYTE * 14
    elif kind == "cursors":
        cursor = cursor and f"{number + 1} {MEGABYTE * 14}"
    elif kind == "elements":
        tool["inputSchema"]["examples"] = [[]] * 400_000
    elif kind == "schema":
        cursor = None
        tool["outputSchema"] = {"type": "object", "properties": {f"p{n}": {"type": "string"} for n in range(300_000)}}
    elif kind == "names":
        cursor = None
        tool["outputSchema"] = {"type": "object", "description": MEGABYTE * 8}
    elif kind in ("result", "text"):
        cursor = None
    return {"tools": [tool], **({} if cursor is None else {"nextCursor": cursor})}


def serve(kind):
    lines, lists = queue.SimpleQueue(), itertools.count()
    # It reads whatever happens: a server that does not is another test.
    threading.Thread(target=lambda: [lines.put(line) for line in sys.stdin] and lines.put(None), daemon=True).start()

    def send(message):
        sys.stdout.write(json.dumps(message) + "\n")
        sys.stdout.flush()

    for line in iter(lines.get, None):
        message = json.loads(line)
        method, params = message.get("method"), message.get("params") or {}
        if "id" not in message or method is None:
            continue
        result = {}
        if method == "initialize":
            result = {"protocolVersion": "2025-11-25", "serverInfo": {"name": "flood", "version": "1"},
                      "capabilities": {"tools": {}, "logging": {}, "resources": {"subscribe": True}}}
        elif method == "tools/list":
            number = int(re.match("[0-9]*", params.get("cursor", "0")).group())
            result = page(kind, next(lists) if kind == "names" else number)
        elif method == "tools/call":
            for each in floods(params).get(kind, ()):
                send(each)
            result = {"content": [{"type": "text", "text": "done"}]}
            if kind == "result":
                result["structuredContent"] = {f"k{n}": {"a": n} for n in range(200_000)}
            if kind == "text":
                result["content"][0]["text"] = MEGABYTE * 15
        send({"jsonrpc": "2.0", "id": message["id"], "result": result})


def client(kind):
    import mcplite

    done, slow = threading.Event(), threading.Event()

    def block(*arguments):
        done.wait(60)
        return {}

    options = dict(log_handler=block, elicitation_handler=block, url_elicitation_handler=lambda request: True, timeout=300.0,
                   options=mcplite.ClientOptions(on_resource_updated=block, era="legacy"))
    outcome = "done"
    with mcplite.connect([sys.executable, __file__, "server", kind], **options) as one:
        if kind == "custom":
            one.on("notifications/com.example/x", block)
        try:
            if kind == "events":
                with one.listen(resources=["x:"]):
                    one.call_tool("x")
            elif kind == "names":
                for _ in range(40):
                    one.list_tools()
            elif kind in ("pages", "cursors", "elements", "schema"):
                kept = one.list_tools()
                outcome = f"{len(kept)} tools"
            else:
                one.call_tool("x", on_progress=lambda progress: slow.wait(0.02))
        except mcplite.MCPError as error:
            outcome = f"{type(error).__name__}: {str(error)[:300]}"
        done.set()
    print(json.dumps({"peak": peak(), "outcome": outcome}))


def peak():
    """Return the most memory that this process has had, in MiB."""
    try:
        with open("/proc/self/status", encoding="ascii") as status:
            return int(re.search(r"VmHWM:\s+(\d+) kB", status.read()).group(1)) // 1024
    except OSError:  # not Linux
        import resource

        # On Linux this would be the peak of the parent, if that is higher: it is kept over fork and exec.
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // (1 << 20 if sys.platform == "darwin" else 1 << 10)


def measured(kind):
    """Return the client's peak in MiB, and what came of its call."""
    ran = subprocess.run([sys.executable, __file__, "client", kind], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                         encoding="utf-8", timeout=300)
    assert ran.returncode == 0, ran.stderr[-3000:]
    return json.loads(ran.stdout.splitlines()[-1])


if __name__ == "__main__":
    (serve if sys.argv[1] == "server" else client)(sys.argv[2])
