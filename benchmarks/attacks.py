"""Attacks of one client on an HTTP server with default limits: what they cost, and how another client fares meanwhile.

``make attacks`` runs all of them, and then all at once; ``python benchmarks/attacks.py NAME...`` some. Each has a
server of its own in a child process. The client of the attack has the address 127.0.0.1, the other one, which is a
process too, 127.0.0.2 (Linux); ``--behind-proxy`` gives both the same. ``--front nginx`` or ``--front haproxy`` puts
that proxy between both and the server, for which all requests then come from one address, over connections of the
proxy; with ``--trust-proxy`` the server believes the address that the proxy tells, and with ``nginx-bounded`` and
``haproxy-bounded`` the proxy bounds how many connections each client has at once. The package is the one of the current
folder, so that an older version can be measured with this file.
"""

import argparse
import contextlib
import json
import os
import select
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from typing import Callable, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

sys.path.append(os.path.dirname(os.path.abspath(__file__)))

import fronts  # noqa: E402

__all__ = ["ATTACKS", "Outcome", "measure"]

SERVER = """
import os, sys, tempfile, threading, time
sys.path.insert(0, os.getcwd())
import mcplite
mcp = mcplite.Server("attacked")
@mcp.tool()
def add(a: int, b: int) -> int: return a + b
@mcp.tool()
def slow(text: str = "") -> str:
    time.sleep(20)
    return "slow"
@mcp.tool()
def ask(ctx: mcplite.Context, text: str = "") -> str: return ctx.elicit("Well?").action
@mcp.tool(task="optional")
def job(text: str = "") -> str: return text
@mcp.tool(task="optional")
def ask_job(ctx: mcplite.Context, text: str = "") -> str: return ctx.elicit("Well?").action
folder = tempfile.TemporaryDirectory()
with open(os.path.join(folder.name, "large.txt"), "wb") as file: file.write(b"x" * 9_000_000)
mcp.add_directory("files://docs", folder.name)
running = mcplite.serve(mcp, **({"trusted_proxies": sys.argv[1:]} if sys.argv[1:] else {})).start()
print(running.port, flush=True)
sys.stdin.read()
folder.cleanup()
os._exit(0)
"""
PREFIX = "io.modelcontextprotocol/"
MODERN = "2026-07-28"
HEAD = ("POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        "Accept: application/json, text/event-stream\r\n")
#: Seconds within which an ordinary conversation must be over; later it counts as failed.
PATIENCE = 10.0
#: Conversations before an attack; the first of them loads modules.
_CALM_CONVERSATIONS = 20
#: Conversations of the other client that an attack lasts at least.
_CONVERSATIONS = 3


class Process(NamedTuple):
    """What the system says of the server."""

    mebibytes: float
    #: The most that it has had so far.
    peak: float
    threads: int
    seconds: float


class Target:
    """The server in its child process.

    :param log: the file for its stderr.
    :param proxies: that it trusts.
    """

    def __init__(self, log: str, proxies: Sequence[str] = ()) -> None:
        self._log = open(log, "wb")
        self.log = log
        self._child = subprocess.Popen([sys.executable, "-c", SERVER, *proxies], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                       stderr=self._log)
        assert self._child.stdout is not None
        self.port = int(self._child.stdout.readline())

    def look(self) -> Process:
        """Return its memory, threads and processor time."""
        with open(f"/proc/{self._child.pid}/status", encoding="ascii") as file:
            facts = dict(line.split(":", 1) for line in file if ":" in line)
        with open(f"/proc/{self._child.pid}/stat", encoding="ascii") as file:
            times = file.read().rpartition(")")[2].split()
        seconds = (int(times[11]) + int(times[12])) / os.sysconf("SC_CLK_TCK")
        now, peak = (int(facts[name].split()[0]) / 1024 for name in ("VmRSS", "VmHWM"))
        return Process(now, peak, int(facts["Threads"]), seconds)

    def close(self) -> None:
        """End it."""
        for stream in (self._child.stdin, self._child.stdout):
            assert stream is not None
            stream.close()
        self._child.wait(30)
        self._log.close()


def connect(port: int, source: str = "127.0.0.1") -> socket.socket:
    """Return a connection to the server."""
    return socket.create_connection(("127.0.0.1", port), PATIENCE, (source, 0))


def post(message: object, *headers: str) -> bytes:
    """Return a POST of a message."""
    body = json.dumps(message).encode()
    lines = "".join(f"{line}\r\n" for line in headers)
    return f"{HEAD}{lines}Content-Length: {len(body)}\r\n\r\n".encode() + body


def initialize(**info: str) -> object:
    """Return the first message of a session."""
    return {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {"elicitation": {}},
        "clientInfo": {"name": "x", "version": "1", **info}}}


def request(method: str, number: int, name: str, params: Dict[str, object]) -> bytes:
    """Return a request without a session, for what has this name."""
    meta = {PREFIX + "protocolVersion": MODERN, PREFIX + "clientCapabilities": {
        "elicitation": {}, "extensions": {PREFIX + "tasks": {}}}}
    return post({"jsonrpc": "2.0", "id": number, "method": method, "params": {**params, "_meta": meta}},
                f"MCP-Protocol-Version: {MODERN}", f"Mcp-Method: {method}", f"Mcp-Name: {name}")


def modern(tool: str, number: int, **arguments: object) -> bytes:
    """Return a call without a session."""
    return request("tools/call", number, tool, {"name": tool, "arguments": arguments})


def answer(sock: socket.socket) -> Tuple[int, Dict[str, str], bytes]:
    """Read one response with a length."""
    data = b""
    while b"\r\n\r\n" not in data:
        piece = sock.recv(65_536)
        if not piece:
            raise ConnectionError("the server closed the connection")
        data += piece
    head, _, body = data.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
    while len(body) < int(headers.get("content-length", 0)):
        piece = sock.recv(65_536)
        if not piece:
            raise ConnectionError("the response ended early")
        body += piece
    return int(first.split()[1]), headers, body


def begin(sock: socket.socket) -> str:
    """Do a handshake, and return the session's id."""
    sock.sendall(post(initialize()))
    status, headers, _ = answer(sock)
    if status != 200:
        raise ConnectionError(f"initialize was answered with {status}")
    session = headers["mcp-session-id"]
    sock.sendall(post({"jsonrpc": "2.0", "method": "notifications/initialized"}, f"Mcp-Session-Id: {session}"))
    answer(sock)
    return session


def converse(port: int, source: str) -> float:
    """Have an ordinary conversation, with a session and without; return the seconds that its slowest answer took.

    :raises OSError: it failed.
    """
    slowest = 0.0
    with connect(port, source) as sock:
        began = time.monotonic()
        session = begin(sock)
        for data in (post({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
                "name": "add", "arguments": {"a": 1, "b": 2}}}, f"Mcp-Session-Id: {session}"), modern("add", 2, a=1, b=2)):
            sock.sendall(data)
            status, _, body = answer(sock)
            if status != 200 or b'"3"' not in body:
                raise ConnectionError(f"a call was answered with {status}")
            slowest, began = max(slowest, time.monotonic() - began), time.monotonic()
    return slowest


class Outcome(NamedTuple):
    """What an attack cost."""

    name: str
    mebibytes: float
    threads: int
    log: int
    seconds: float
    #: Seconds of the other client's slowest answer during the attack.
    slowest: float
    #: The same of its first conversations, when there was no attack yet.
    calm: float
    failed: int
    tried: int
    back: Optional[float]


def sessions(port: int, stack: contextlib.ExitStack, size: int) -> None:
    """1,000 ``initialize`` on one connection."""
    with connect(port) as sock:
        for _ in range(size):
            sock.sendall(post(initialize()))
            answer(sock)


def large_sessions(port: int, stack: contextlib.ExitStack, size: int) -> None:
    """Sessions whose clients describe themselves in 1 MiB."""
    with connect(port) as sock:
        for _ in range(size):
            sock.sendall(post(initialize(title="x" * (1 << 20))))
            answer(sock)


def idle_connections(port: int, stack: contextlib.ExitStack, size: int) -> None:
    """Connections that say nothing."""
    for _ in range(size):
        with contextlib.suppress(OSError):  # as in the attacks below: it is refused, or its connection is closed
            stack.enter_context(connect(port))


def slow_heads(port: int, stack: contextlib.ExitStack, size: int) -> None:
    """Connections that say half a head of 30 kB."""
    for _ in range(size):
        with contextlib.suppress(OSError):
            stack.enter_context(connect(port)).sendall(HEAD.encode() + (b"X-A: " + b"x" * 8000 + b"\r\n") * 3)


def unfinished_bodies(port: int, stack: contextlib.ExitStack, size: int) -> None:
    """Bodies of 4 MiB without their last byte."""
    body = b" " * ((4 << 20) - 1)
    for _ in range(size):
        with contextlib.suppress(OSError):
            sock = stack.enter_context(connect(port))
            sock.sendall(f"{HEAD}Content-Length: {4 << 20}\r\n\r\n".encode() + body)


def large_calls(port: int, stack: contextlib.ExitStack, size: int) -> None:
    """Calls with arguments of 3 MB, of a tool that takes long."""
    for number in range(size):
        with contextlib.suppress(OSError):
            stack.enter_context(connect(port)).sendall(modern("slow", number, text="x" * 3_000_000))


def streams(port: int, stack: contextlib.ExitStack, size: int) -> None:
    """GET streams, each of a session of its own."""
    for _ in range(size):
        with contextlib.suppress(OSError):
            sock = stack.enter_context(connect(port))
            session = begin(sock)
            sock.sendall(f"GET /mcp HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n"
                         f"Mcp-Session-Id: {session}\r\n\r\n".encode())
            sock.recv(65_536)


def resets(port: int, stack: contextlib.ExitStack, size: int) -> None:
    """Connections that are reset in the middle of a body."""
    for _ in range(size):
        with contextlib.suppress(OSError), connect(port) as sock:
            sock.sendall(f"{HEAD}Content-Length: 1000\r\n\r\n{{".encode())
            time.sleep(0.002)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def tiny_chunks(port: int, stack: contextlib.ExitStack, size: int) -> None:
    """Bodies of 900,000 chunks of one byte."""
    chunks = b"1\r\n \r\n" * 900_000
    for _ in range(size):
        with contextlib.suppress(OSError), connect(port) as sock:
            sock.sendall(f"{HEAD}Transfer-Encoding: chunked\r\n\r\n".encode() + chunks)
            sock.recv(65_536)


def questions(port: int, stack: contextlib.ExitStack, size: int) -> None:
    """Calls of a tool that asks, whose client never answers."""
    with connect(port) as sock:
        for number in range(size):
            with contextlib.suppress(OSError, ValueError):
                sock.sendall(modern("ask", number, text="x" * 100_000))
                answer(sock)


def tasks(port: int, stack: contextlib.ExitStack, size: int) -> None:
    """Calls that become tasks: with arguments of 3 MB, then such that ask, whose client never answers."""
    with connect(port) as sock:
        for number in range(size):
            with contextlib.suppress(OSError, ValueError):
                large = number < size // 4
                sock.sendall(modern("job" if large else "ask_job", number, text="x" * (3_000_000 if large else 100)))
                answer(sock)


def handlers(port: int, stack: contextlib.ExitStack, size: int) -> None:
    """Calls of a tool that takes long, in sessions, whose clients hang up."""
    with connect(port) as control:
        owned: List[str] = [begin(control) for _ in range(2)]
        for number in range(size):
            with contextlib.suppress(OSError), connect(port) as sock:
                sock.sendall(post({"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": {
                    "name": "slow", "arguments": {}}}, f"Mcp-Session-Id: {owned[number % len(owned)]}"))
                time.sleep(0.005)


def unread_files(port: int, stack: contextlib.ExitStack, size: int) -> None:
    """Requests for a file of 9 MB, whose client reads nothing."""
    uri = "files://docs/large.txt"
    for number in range(size):
        with contextlib.suppress(OSError):
            stack.enter_context(connect(port)).sendall(request("resources/read", number, uri, {"uri": uri}))


def costly_calls(port: int, stack: contextlib.ExitStack, size: int) -> None:
    """Calls that take long to decode and to check, on many connections at once, for as long as the attack lasts."""
    costly = [modern("add", 1, **{f"k{number}": 1 for number in range(49_000)}),
              modern("add", 2, a=[1.2345678901234567e-300] * 99_000, b=1)]
    over = threading.Event()

    def call(data: bytes) -> None:
        while not over.is_set():
            # A late answer is an event stream, without a length.
            with contextlib.suppress(OSError, ValueError, LookupError), connect(port) as sock:
                while not over.is_set():
                    sock.sendall(data)
                    answer(sock)
            time.sleep(0.01)

    threads = [threading.Thread(target=call, args=(costly[number % len(costly)],)) for number in range(size)]
    for thread in threads:
        stack.callback(thread.join)
        thread.start()
    stack.callback(over.set)


Attack = Callable[[int, contextlib.ExitStack, int], None]
#: Each attack with its size.
ATTACKS: Dict[str, Tuple[Attack, int]] = {
    "sessions": (sessions, 1000), "large_sessions": (large_sessions, 100), "idle_connections": (idle_connections, 600),
    "slow_heads": (slow_heads, 600), "unfinished_bodies": (unfinished_bodies, 64), "large_calls": (large_calls, 64),
    "streams": (streams, 256), "resets": (resets, 300), "tiny_chunks": (tiny_chunks, 4), "questions": (questions, 300),
    "tasks": (tasks, 400), "handlers": (handlers, 64), "unread_files": (unread_files, 100),
    "costly_calls": (costly_calls, 40),
}


def together(port: int, stack: contextlib.ExitStack, size: int) -> None:
    """All of the others at once; *size* is a percentage of theirs."""
    def run(attack: Attack, own: contextlib.ExitStack, number: int) -> None:
        with contextlib.suppress(OSError, ValueError, LookupError):  # the server ends what takes too much
            attack(port, own, number)

    threads = [threading.Thread(target=run, args=(attack, stack.enter_context(contextlib.ExitStack()), most * size // 100))
               for attack, most in list(ATTACKS.values()) if attack is not together]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


ATTACKS["together"] = together, 100


def go_on_conversing(port: int, source: str) -> None:
    """Have conversations until stdin ends; print of each the seconds of its slowest answer, or -1 if it failed."""
    while not select.select([sys.stdin], [], [], 0.05)[0]:
        try:
            print(converse(port, source), flush=True)
        except (OSError, ValueError, KeyError) as error:
            print(f"a conversation failed: {error}", file=sys.stderr, flush=True)
            print(-1, flush=True)


@contextlib.contextmanager
def other_client(port: int, source: str, found: List[float]) -> Iterator[None]:
    """Have conversations in another process, which does not wait for the threads of the attack; the first is over already.

    :param found: gets the seconds of the slowest answer of each, or -1 if it failed.
    """
    with subprocess.Popen([sys.executable, os.path.abspath(__file__), "--converse", str(port), source],
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdin is not None and child.stdout is not None
        lines = child.stdout
        lines.readline()
        thread = threading.Thread(target=lambda: found.extend(map(float, lines)))
        thread.start()
        try:
            yield
        finally:
            child.stdin.close()
            thread.join()


def measure(name: str, source: str = "127.0.0.2", share: float = 1.0, hold: float = 3.0,
            front: Optional[str] = None, trusted: bool = False) -> Outcome:
    """Run one attack on a new server.

    :param source: the address of the other client.
    :param share: of the attack's size; less for a quick look.
    :param hold: seconds for which the attack is kept up once it is in place.
    :param front: the proxy before the server, of ``fronts.FRONTS``.
    :param trusted: whether the server believes the addresses that it tells.
    """
    attack, size = ATTACKS[name]
    with contextlib.ExitStack() as opened:
        folder = opened.enter_context(tempfile.TemporaryDirectory())
        target = Target(os.path.join(folder, "log"), ["127.0.0.1"] if trusted else [])
        port = target.port
        try:
            if front is not None:
                place = opened.enter_context(tempfile.TemporaryDirectory())
                port = opened.enter_context(fronts.running(front, port, place))
            calm = max([converse(port, source) for _ in range(_CALM_CONVERSATIONS)][1:])
            before = now = target.look()
            threads, found = before.threads, []  # type: int, List[float]
            with other_client(port, source, found):
                with contextlib.ExitStack() as stack:
                    attack(port, stack, max(1, int(size * share)))
                    until = time.monotonic() + hold
                    # On a slow machine, until the other client has had its chance.
                    while time.monotonic() < until + (0 if len(found) >= _CONVERSATIONS else 10 * PATIENCE):
                        now = target.look()
                        threads = max(threads, now.threads)
                        time.sleep(0.1)
            back, began = None, time.monotonic()
            while back is None and time.monotonic() - began < 60:
                try:
                    if converse(port, source) < 1:
                        back = time.monotonic() - began
                except (OSError, ValueError, KeyError):
                    time.sleep(0.2)
            answered = [one for one in found if one >= 0]
            return Outcome(name, now.peak - before.mebibytes, threads - before.threads, os.path.getsize(target.log),
                           now.seconds - before.seconds, max(answered, default=0.0), calm,
                           len(found) - len(answered), len(found), back)
        finally:
            target.close()


def main() -> None:
    """Run the attacks that are named, or all, and print a table."""
    parser = argparse.ArgumentParser(description="what one client costs an HTTP server")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(ATTACKS)}")
    parser.add_argument("--behind-proxy", action="store_true", help="all clients have one address")
    parser.add_argument("--front", choices=list(fronts.FRONTS), help="a proxy between all clients and the server")
    parser.add_argument("--trust-proxy", action="store_true", help="the server believes the addresses that the proxy tells")
    parser.add_argument("--converse", nargs=2, metavar=("PORT", "ADDRESS"), help=argparse.SUPPRESS)  # the other client
    options = parser.parse_args()
    if options.converse:
        go_on_conversing(int(options.converse[0]), options.converse[1])
        return
    print(f"{'attack':<18} {'MiB':>7} {'threads':>7} {'log':>8} {'CPU s':>6}   {'slowest':>8} {'(calm)':>8} {'failed':>9}"
          "   back after")
    for name in options.names or ATTACKS:
        row = measure(name, "127.0.0.1" if options.behind_proxy else "127.0.0.2", front=options.front,
                      trusted=options.trust_proxy)
        back = "not in 60 s" if row.back is None else f"{row.back:.2f} s"
        print(f"{row.name:<18} {row.mebibytes:>7.1f} {row.threads:>7} {row.log:>8} {row.seconds:>6.2f}   {row.slowest:>6.2f} s"
              f" {row.calm:>6.2f} s {row.failed:>4}/{row.tried:<4}   {back}", flush=True)


if __name__ == "__main__":
    main()
