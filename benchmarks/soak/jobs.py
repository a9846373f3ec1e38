"""The jobs of the soak: each uses a server in one way, over and over, and checks every answer.

A job is a context manager. It opens what it needs and yields a function that does one step; the driver calls it once in
so many seconds, on a thread of the job's own. A wrong answer is an AssertionError.
"""

import contextlib
import itertools
import os
import random
import signal
import sys
import threading
import time
from typing import Any, Callable, ContextManager, Iterator, List, Tuple

import mcplite

from .place import ERAS, LEGACY, MARK, MODERN, ROOT, Job, Place, Step, accept, child, expect, timed_calls

sys.path.append(str(ROOT / "benchmarks" / "parts"))

from web_clients import SocketWeb  # noqa: E402

__all__ = ["JOBS"]

@contextlib.contextmanager
def stdio_calls(place: Place, era: str) -> Iterator[Step]:
    """One child for the whole time, which is watched."""
    name, log = f"child, {era}", place.folder / f"child-{era}.log"
    with child(revision=ERAS[era], stderr=log, elicitation_handler=accept) as client:
        place.watch(name, int(client.call_tool("process").text), str(log))
        with timed_calls(place, f"stdio, {era}", client) as calls:
            def step() -> None:
                calls()
                expect("42", client.call_tool("ask", {"n": 2}).text)
                cancelled(client)

            yield step


@contextlib.contextmanager
def http_calls(place: Place, era: str) -> Iterator[Step]:
    """One client over HTTP for the whole time."""
    with mcplite.connect(place.url, revision=ERAS[era]) as client:
        with timed_calls(place, f"HTTP, {era}", client) as step:
            yield step


@contextlib.contextmanager
def sessions(place: Place) -> Iterator[Step]:
    """Sessions that are opened, used, and closed; each third client goes away without a word."""
    numbers = itertools.count()

    def step() -> None:
        web = SocketWeb(place.url)
        try:
            web.initialize()
            expect("3", web.call("add", {"a": 1, "b": 2})["content"][0]["text"])
            if next(numbers) % 2:
                web.listen().disconnect()
        finally:
            if next(numbers) % 3:
                web.close()
            else:
                web.disconnect()

    yield step


@contextlib.contextmanager
def clients(place: Place) -> Iterator[Step]:
    """Clients that find out the revision, make a call, and leave."""
    eras = itertools.cycle([None, "legacy", "modern"])

    def step() -> None:
        with mcplite.connect(place.url, options=mcplite.ClientOptions(era=next(eras))) as client:
            expect("3", client.call_tool("add", {"a": 1, "b": 2}).text)
            expect(True, "add" in [tool.name for tool in client.list_tools()])

    yield step


@contextlib.contextmanager
def cut_streams(place: Place) -> Iterator[Step]:
    """Streams that a proxy breaks off, and streams that the server closes; both are resumed."""
    with mcplite.connect(place.cut_url, revision=LEGACY) as client:
        def step() -> None:
            seen: List[float] = []
            result = client.call_tool("count", {"to": 5, "mark": MARK}, on_progress=lambda report: seen.append(report.progress))
            expect("counted to 5", result.text)
            expect([1, 2, 3, 4, 5], seen)
            expect("closed True", client.call_tool("away").text)

        yield step


@contextlib.contextmanager
def questions(place: Place, era: str) -> Iterator[Step]:
    """Questions that are answered."""
    with mcplite.connect(place.url, revision=ERAS[era], elicitation_handler=accept) as client:
        yield lambda: expect("42", client.call_tool("ask", {"n": 2}).text)


@contextlib.contextmanager
def abandoned_questions(place: Place, era: str) -> Iterator[Step]:
    """Questions without an answer: the user thinks for too long, or the client never comes back."""
    def think(request: mcplite.types.ElicitRequest) -> Any:
        request.token.wait(5)
        return None

    with mcplite.connect(place.url, revision=ERAS[era], elicitation_handler=think) as client:
        def step() -> None:
            with contextlib.suppress(mcplite.errors.InputNeeded, mcplite.Cancelled):
                if era == "sessionless":
                    client.call_tool("ask", {"n": 2}, rounds=False)
                else:
                    cancel_soon(client, "ask", {"n": 2})
                raise AssertionError("a question without an answer had a result")

        yield step


@contextlib.contextmanager
def listeners(place: Place, era: str) -> Iterator[Step]:
    """Subscriptions that get one change, and end."""
    numbers = itertools.count()
    with mcplite.connect(place.url, revision=ERAS[era]) as client:
        def step() -> None:
            name = f"{era}-{next(numbers) % 100}"
            with client.listen(resources=[f"soak://{name}"]) as events:
                expect("touched", client.call_tool("touch", {"name": name}).text)
                event = events.get(30)
                expect(f"soak://{name}", getattr(event, "uri", None))

        yield step


def cancel_soon(client: mcplite.Client, tool: str, arguments: Any) -> None:
    """Make a call, and cancel it a moment later.

    :raises Cancelled: always.
    """
    token = mcplite.CancelToken()
    timer = threading.Timer(random.uniform(0.01, 0.1), token.cancel)
    timer.start()
    try:
        client.call_tool(tool, arguments, cancel=token)
    finally:
        timer.cancel()
        timer.join()


def cancelled(client: mcplite.Client) -> None:
    """Cancel a call once its handler runs, and check that the handler knows."""
    key = f"{random.getrandbits(60):x}"
    token = mcplite.CancelToken()
    try:
        client.call_tool("wait", {"key": key}, cancel=token, on_progress=lambda report: token.cancel())
    except mcplite.Cancelled:
        expect("true", client.call_tool("was_stopped", {"key": key}).text)
    else:
        raise AssertionError("a cancelled call had a result")


@contextlib.contextmanager
def cancels(place: Place, era: str) -> Iterator[Step]:
    """Calls that are cancelled."""
    with mcplite.connect(place.url, revision=ERAS[era]) as client:
        yield lambda: cancelled(client)


@contextlib.contextmanager
def failures(place: Place) -> Iterator[Step]:
    """Calls that fail in several ways, each with the right error."""
    with mcplite.connect(place.url) as client:
        def step() -> None:
            result = client.call_tool("fail")
            expect((True, "as it should"), (result.is_error, result.text))
            expect(True, client.call_tool("add", {"a": "x"}).is_error)
            with contextlib.suppress(mcplite.errors.InvalidParams):
                client.call_tool("no such tool")
                raise AssertionError("an unknown tool had a result")
            with contextlib.suppress(mcplite.RequestTimeout):
                client.call_tool("wait", {"key": "timeout"}, timeout=0.05)
                raise AssertionError("a call outlived its timeout")
            client.call_tool("was_stopped", {"key": "timeout"})

        yield step


@contextlib.contextmanager
def many_threads(place: Place) -> Iterator[Step]:
    """Eight threads on one client."""
    with mcplite.connect(place.url) as client:
        def step() -> None:
            got: List[str] = []
            threads = [threading.Thread(target=lambda n=n: got.append(client.call_tool("add", {"a": n, "b": 0}).text))
                       for n in range(8)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            expect([str(n) for n in range(8)], sorted(got))

        yield step


@contextlib.contextmanager
def broken_connections(place: Place) -> Iterator[Step]:
    """Connections that end at any byte of a request."""
    request = (b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 40\r\n\r\n"
               b'{"jsonrpc":')

    def step() -> None:
        web = SocketWeb(place.url)
        web.sock.sendall(request[:random.randrange(len(request))])
        web.disconnect()

    yield step


@contextlib.contextmanager
def restarts(place: Place) -> Iterator[Step]:
    """A child that is killed; the next call starts it again."""
    with child(revision=MODERN) as client:
        def step() -> None:
            number = int(client.call_tool("process").text)
            os.kill(number, signal.SIGKILL)
            until = time.monotonic() + 30
            while time.monotonic() < until:
                # The end is noticed a moment later; a call in between fails, since it may have run.
                with contextlib.suppress(mcplite.errors.ConnectionClosed):
                    expect(True, int(client.call_tool("process").text) != number)
                    return
            raise AssertionError("a killed server was not started again")

        yield step


@contextlib.contextmanager
def children(place: Place) -> Iterator[Step]:
    """Children that are started and ended."""
    eras = itertools.cycle(ERAS.values())

    def step() -> None:
        with child(revision=next(eras)) as client:
            expect("3", client.call_tool("add", {"a": 1, "b": 2}).text)

    yield step


@contextlib.contextmanager
def legacy_sse(place: Place) -> Iterator[Step]:
    """The transport of 2024."""
    def step() -> None:
        with mcplite.connect(place.url.replace("/mcp", "/sse"), options=mcplite.ClientOptions(type="sse"),
                             elicitation_handler=accept) as client:
            expect("3", client.call_tool("add", {"a": 1, "b": 2}).text)
            expect("counted to 2", client.call_tool("count", {"to": 2, "mark": ""}, on_progress=lambda report: None).text)

    yield step


def in_both_eras(name: str, every: float, open: Callable[[Place, str], ContextManager[Step]]) -> Tuple[Job, ...]:
    """Return a job for each era."""
    return tuple(Job(f"{name}, {era}", every, lambda place, era=era: open(place, era)) for era in ERAS)


JOBS = (
    *in_both_eras("stdio calls", 0.5, stdio_calls),
    *in_both_eras("HTTP calls", 0.5, http_calls),
    Job("sessions", 0.15, sessions),
    Job("clients", 1, clients),
    Job("cut streams", 0.5, cut_streams),
    *in_both_eras("questions", 0.25, questions),
    *in_both_eras("abandoned questions", 0.5, abandoned_questions),
    *in_both_eras("listeners", 0.35, listeners),
    *in_both_eras("cancels", 0.35, cancels),
    Job("failures", 0.5, failures),
    Job("eight threads", 0.5, many_threads),
    Job("broken connections", 0.15, broken_connections),
    Job("killed children", 25.0, restarts),
    Job("children", 10.0, children),
    Job("HTTP+SSE", 1.5, legacy_sse),
)
