"""The floor as a client: write a line, read lines until the answer is there; no threads, no timeouts.

Over HTTP it is one of ``web_clients.py``.
"""

import json
import subprocess
import sys
import time

from common import REVISION, STATELESS, answer_commands, calls_in, expect, text_of

#: What each request without a handshake says of its sender.
META = {"io.modelcontextprotocol/protocolVersion": STATELESS, "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": {"name": "floor", "version": "1"}}


class Connection:
    """A child process and the ids that were used with it; *meta* is said in each request."""

    def __init__(self, command, meta=None):
        self.child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.last_id = 0
        self.meta = meta

    def send(self, message):
        data = json.dumps(message, separators=(",", ":"), ensure_ascii=False).encode("utf-8") + b"\n"
        self.child.stdin.write(data)
        self.child.stdin.flush()

    def request(self, method, params=None, progress=None):
        """Send a request and return its result; *progress* gets the params of progress notifications."""
        self.last_id += 1
        message = {"jsonrpc": "2.0", "id": self.last_id, "method": method}
        if self.meta is not None:
            params = {**(params or {}), "_meta": {**(params or {}).get("_meta", {}), **self.meta}}
        if params is not None:
            message["params"] = params
        self.send(message)
        return self.answer(self.last_id, progress)

    def answer(self, wanted, progress=None):
        while True:
            line = self.child.stdout.readline()
            if not line:
                raise EOFError("the server left, status %r" % self.child.wait())
            message = json.loads(line)
            if "method" in message:
                if message["method"] == "notifications/progress" and progress is not None:
                    progress(message["params"])
            elif message["id"] == wanted:
                if "error" in message:
                    raise RuntimeError(str(message["error"])[:500])
                return message["result"]

    def initialize(self):
        self.request("initialize", {"protocolVersion": REVISION, "capabilities": {},
                                    "clientInfo": {"name": "floor", "version": "1"}})
        self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def call(self, name, arguments, progress=None):
        params = {"name": name, "arguments": arguments}
        if progress is not None:
            params["_meta"] = {"progressToken": self.last_id + 1}
        return self.request("tools/call", params, progress)

    def close(self):
        self.child.stdin.close()
        self.child.stdout.close()
        self.child.wait(60)


class Commands:
    """The commands of a driver; the other drivers have the same."""

    def __init__(self):
        self.connection = None

    def open(self, target, client=None, era="legacy"):
        meta = META if era == "modern" else None
        self.connection = self.connect(target, client, meta)
        if meta is None:
            self.connection.initialize()
        return len(self.connection.request("tools/list")["tools"])

    def connect(self, target, client, meta):
        if client is None:
            return Connection(target, meta)
        from web_clients import CLIENTS  # which a client over stdio has no use for

        return CLIENTS[client](target, meta)

    def add(self, count):
        def run(n):
            # The newest revision allows a bare value as well.
            if self.connection.call("add", {"a": n, "b": 1})["structuredContent"] not in ({"result": n + 1}, n + 1):
                raise AssertionError("wrong sum")

        return calls_in(run, count)

    def text(self, size):
        begun = time.perf_counter_ns()
        result = self.connection.call("text", {"size": size})
        taken = time.perf_counter_ns() - begun
        expect("text", size, len(result["content"][0]["text"]))
        return taken

    def stream(self, size):
        seen = []
        begun = time.perf_counter_ns()
        result = self.connection.call("stream", {"size": size}, seen.append)
        taken = time.perf_counter_ns() - begun
        expect("stream", (size, 1), (len(result["content"][0]["text"]), len(seen)))
        return taken

    def argument(self, size):
        text = text_of(size)
        begun = time.perf_counter_ns()
        result = self.connection.call("length", {"text": text})
        taken = time.perf_counter_ns() - begun
        expect("length", str(size), result["content"][0]["text"])
        return taken

    def progress(self, count):
        seen = []
        begun = time.perf_counter_ns()
        self.connection.call("progress", {"count": count}, lambda params: seen.append(params["progress"]))
        taken = time.perf_counter_ns() - begun
        expect("progress", list(range(1, count + 1)), [int(value) for value in seen])
        return taken

    def quick(self, seconds):
        """Return how long an ``add`` takes that is sent 20 ms after a call that sleeps."""
        connection = self.connection
        connection.last_id += 2
        slow, quick = connection.last_id - 1, connection.last_id
        connection.send({"jsonrpc": "2.0", "id": slow, "method": "tools/call",
                         "params": {"name": "sleep", "arguments": {"seconds": seconds}}})
        time.sleep(0.02)
        begun = time.perf_counter_ns()
        connection.send({"jsonrpc": "2.0", "id": quick, "method": "tools/call",
                         "params": {"name": "add", "arguments": {"a": 1, "b": 1}}})
        waiting = {slow, quick}
        while waiting:
            message = json.loads(connection.child.stdout.readline())
            if message.get("id") == quick:
                taken = time.perf_counter_ns() - begun
            waiting.discard(message.get("id"))
        return taken

    def burst(self, count, seconds):
        """Return how long it takes until all of so many calls are answered that are sent at once and sleep."""
        connection = self.connection
        first = connection.last_id + 1
        connection.last_id += count
        waiting = set(range(first, first + count))
        begun = time.perf_counter_ns()
        for id in sorted(waiting):
            connection.send({"jsonrpc": "2.0", "id": id, "method": "tools/call",
                             "params": {"name": "sleep", "arguments": {"seconds": seconds}}})
        while waiting:
            message = json.loads(connection.child.stdout.readline())
            if message.get("id") in waiting:
                waiting.discard(message["id"])
                expect("sleep", False, message["result"].get("isError", False))
        return time.perf_counter_ns() - begun

    def list(self):
        begun = time.perf_counter_ns()
        tools = self.connection.request("tools/list")["tools"]
        taken = time.perf_counter_ns() - begun
        return {"taken": taken, "count": len(tools)}

    def server_usage(self):
        return json.loads(self.connection.call("usage", {})["content"][0]["text"])

    def close(self):
        self.connection.close()


def main(arguments):
    commands = Commands()
    if arguments:  # the whole program of a short-lived client: open, list, close
        commands.open(arguments)
        commands.close()
    else:
        answer_commands({name: getattr(commands, name) for name in dir(commands) if not name.startswith("_")})


if __name__ == "__main__":
    main(sys.argv[1:])
