"""The workloads of hosts and starts: a call under gunicorn and its worker's first request, a signed token, an agent's start.

CPU is that of the process that serves. The floor of a call is the same call of our own HTTP server without a token, and that of
a worker's first request an application that parses the message and answers. An agent opens five of our servers at once.
"""

import contextlib
import functools
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, Optional

from .peers import LIMIT, ROOT, Failed, Peer, WebServer, environment
from .shared import gunicorn
from .slices import Measurement, take_turns
from .web import cpu
from .workloads import Counts, Peers, failed, one_processor

__all__ = ["HOST_WORKLOADS"]

#: Servers of the agent.
SERVERS = 5
_OURS, _BARE = "ours_wsgi:application", "bare_wsgi:application"


@contextlib.contextmanager
def client_of(url: str, token: str = "") -> "Iterator[Any]":
    """Yield a client with a session, which opens no stream."""
    import mcplite

    auth = mcplite.Bearer(token) if token else None
    with mcplite.connect(url, auth=auth, options=mcplite.ClientOptions(era="legacy", listen=False), timeout=LIMIT) as client:
        yield client


def cost(pid: int, client: Any, calls: int) -> float:
    """Return the CPU of a process for one call of ``add``, in microseconds."""
    before = cpu(pid) or 0.0
    for number in range(calls):
        client.call_tool("add", {"a": number, "b": 1})
    return ((cpu(pid) or 0.0) - before) * 1e6 / calls


def worker_of(pid: int) -> Optional[int]:
    """Return the process id of the only worker of gunicorn; None where the system does not tell."""
    try:
        return int(Path(f"/proc/{pid}/task/{pid}/children").read_text("ascii").split()[0])
    except (OSError, IndexError):
        return None


def calls(peers: Peers, counts: Counts) -> List[Measurement]:
    """Calls under gunicorn, and with a signed token: the CPU of a call, beside one of our own server without a token."""
    rows = [Measurement("hosts.wsgi", "HTTP, add, gunicorn: the worker's CPU time for a call (floor: our server)", "us"),
            Measurement("hosts.bare", "gunicorn alone: with an application that parses and answers (floor: our server)", "us"),
            Measurement("hosts.signed", "HTTP, add, a token signed by RS256: the server's CPU time (floor: no token)", "us")]
    wsgi, bare, signed = rows
    with one_processor(), contextlib.ExitStack() as stack:
        def steps(row: Measurement, url: str, token: str, pid: Optional[int]) -> None:
            if pid is None or cpu(pid) is None:
                return
            client = stack.enter_context(client_of(url, token))
            cost(pid, client, counts.warm_up)
            take_turns(row, counts.rounds, {"floor": functools.partial(cost, own.pid, direct, counts.calls),
                                            "ours": functools.partial(cost, pid, client, counts.calls)}, failed)

        own = WebServer(peers["ours"], "json")
        stack.callback(own.close)
        direct = stack.enter_context(client_of(own.url))
        cost(own.pid, direct, counts.warm_up)
        for row, application in ((wsgi, _OURS), (bare, _BARE)):
            try:
                url, pid = stack.enter_context(gunicorn(1, None, threads=4, application=application))
            except Failed as error:
                row.failures["ours"] = str(error)
            else:
                steps(row, url, "", worker_of(pid))
        try:
            protected = WebServer(Peer("mcplite", "ours_signed", sys.executable), "json")
        except Failed as error:
            signed.failures["ours"] = str(error)
        else:
            stack.callback(protected.close)
            url, _, token = protected.url.partition(" ")
            steps(signed, url, token, protected.pid)
    return rows


def first_request(peers: Peers, counts: Counts) -> List[Measurement]:
    """A new worker of gunicorn: from the moment that it listens until its first answer."""
    row = Measurement("hosts.first", "gunicorn: a worker's first answer, after it listens (floor: an application that parses)",
                      "ms")

    def answered(application: str) -> float:
        with gunicorn(1, None, threads=4, application=application, pause=0.002) as (url, _):
            begun = time.perf_counter()
            with client_of(url):
                return (time.perf_counter() - begun) * 1000

    take_turns(row, counts.starts, {"floor": lambda: answered(_BARE), "ours": lambda: answered(_OURS)}, failed)
    return [row]


def agent(peers: Peers, counts: Counts) -> List[Measurement]:
    """A program that opens five of our servers at once, until it has listed their tools."""
    row = Measurement("hosts.agent", f"agent: {SERVERS} servers until all tools are listed", "ms")

    def listed(peer: Peer) -> float:
        command = [peer.python, str(ROOT / "benchmarks" / "parts" / f"{peer.prefix}_agent.py"), str(SERVERS),
                   *peers["ours"].server()]
        begun = time.perf_counter()
        with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                              env=environment(peer.root)) as program:
            assert program.stdout is not None
            line = program.stdout.readline()
            taken = time.perf_counter() - begun
        if not line.strip().isdigit() or int(line) % SERVERS:
            raise Failed(f"{peer.name} listed {line!r}")
        return taken * 1000

    take_turns(row, counts.starts, {name: functools.partial(listed, peers[name]) for name in ("ours", "mcp") if name in peers},
               failed)
    return [row]


#: By the name for ``--only``.
HOST_WORKLOADS: Dict[str, Callable[[Peers, Counts], List[Measurement]]] = {
    "host-calls": calls, "host-first": first_request, "agent": agent,
}
