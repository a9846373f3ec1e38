"""Ctrl-C ends every wait of the main thread, also where the signal has not interrupted its system call.

A signal may come on another thread, or on the main thread just before it sleeps. The system call goes on then, and Python
runs the signal's handler only when it returns.
"""

import contextlib
import os
import signal
import socket
import sys
import threading
import time
from pathlib import Path

import pytest

import mcplite
from tests.support import connecting

pytestmark = pytest.mark.skipif(os.name != "posix", reason="POSIX only")
HERE = Path(__file__).resolve().parent
LIMIT = 30
#: Seconds after which the main thread sleeps for certain; if it does not yet, the test shows less.
ASLEEP = 0.1


class Interrupted(BaseException):
    """What the signal's handler raises."""


@contextlib.contextmanager
def struck(rescue):
    """In the block the main thread waits; it must be left by an exception of a signal that has come on another thread.

    :param rescue: ends the wait if the signal does not.
    """
    noticed, late = threading.Event(), []

    def handler(number, frame):
        noticed.set()
        raise Interrupted

    def strike():
        time.sleep(ASLEEP)
        signal.pthread_kill(threading.get_ident(), signal.SIGUSR1)
        if not noticed.wait(LIMIT):
            late.append(True)
            rescue()

    before = signal.signal(signal.SIGUSR1, handler)
    thread = threading.Thread(target=strike)
    try:
        with pytest.raises(Interrupted):
            thread.start()
            yield
            raise AssertionError("the wait has ended without an interrupt")
        assert not late, "the interrupt was only noticed when the wait was over"
    finally:
        noticed.set()
        thread.join()
        signal.signal(signal.SIGUSR1, before)


@pytest.fixture
def release():
    event = threading.Event()
    yield event
    event.set()


def hanging(release, entered):
    """Return a server whose tool waits for the event."""
    mcp = mcplite.Server("hanging")

    @mcp.tool()
    def hang() -> str:
        entered.set()
        release.wait(2 * LIMIT)
        return "released"

    return mcp


@contextlib.contextmanager
def connected(way, release, entered):
    """Connect in one of the ways to a server whose tool hangs."""
    with contextlib.ExitStack() as stack:
        mcp, options = hanging(release, entered), {}
        if way.startswith("http"):
            server = stack.enter_context(mcplite.serve(mcp))
            target, options = server.url, {"era": way.split()[1]}
        elif way == "socket":
            here, there = socket.socketpair()
            conversation = mcp.serve_channel(mcplite.extend.StreamChannel(there, there))
            stack.callback(conversation.wait_closed, LIMIT)
            target = mcplite.extend.StreamChannel(here, here)
        elif way == "child":
            target = [sys.executable, "-c", CHILD]
        else:
            target = mcp
        client = stack.enter_context(connecting.connect(target, **options))
        stack.callback(release.set)
        yield client


CHILD = """
import sys
import mcplite
mcp = mcplite.Server("hanging")
@mcp.tool()
def hang(ctx: mcplite.Context) -> str:
    ctx.sleep(60)
    return "released"
mcp.run()
"""
WAYS = ["child", "memory", "socket", "http legacy", "http modern"]


@pytest.mark.parametrize("way", WAYS)
def test_a_call(way, release):
    with connected(way, release, threading.Event()) as client, struck(release.set if way != "child" else client.close):
        client.call_tool("hang", {}, timeout=None)


def test_a_call_beside_one_that_reads(release):
    entered = threading.Event()
    with connected("memory", release, entered) as client:
        token, ended = mcplite.CancelToken(), []

        def read():
            with contextlib.suppress(mcplite.MCPError):
                client.call_tool("hang", {}, timeout=None, cancel=token)
            ended.append(True)

        reader = threading.Thread(target=read)
        reader.start()
        assert entered.wait(LIMIT)
        with struck(client.close):
            client.call_tool("hang", {}, timeout=None)
        token.cancel("over")
        reader.join(LIMIT)
        assert ended


def test_a_subscription_that_waits_for_an_event(release):
    with connected("memory", release, threading.Event()) as client, client.listen(tools=True) as changes:
        with struck(changes.close):
            changes.get()


def test_a_token():
    token = mcplite.CancelToken()
    with struck(lambda: token.cancel("rescue")):
        token.wait()


def test_the_opening_by_another_thread():
    here, there = socket.socketpair()
    client = mcplite.connect(mcplite.extend.StreamChannel(here, here), options=mcplite.ClientOptions(era="legacy"),
                             open_timeout=4 * LIMIT)

    def open_client():
        with contextlib.suppress(mcplite.MCPError):
            client.open()

    opener = threading.Thread(target=open_client)
    opener.start()
    assert b"initialize" in there.recv(65_536)
    with struck(there.close):
        client.ping()
    there.close()
    opener.join(LIMIT)
    client.close()


def test_the_end_of_a_conversation(release):
    here, there = socket.socketpair()
    conversation = hanging(release, threading.Event()).serve_channel(mcplite.extend.StreamChannel(there, there))
    with struck(here.close):
        conversation.wait_closed()
    here.close()
    assert conversation.wait_closed(LIMIT)
