"""Opening a session: the ways to a server in turn, and the restart of a process that has ended."""

import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import mcplite
from mcplite.client.sessions import connecting
from mcplite.errors import ConnectionClosed, TransportError
from mcplite.rpc.interfaces import Channel
from tests.support.fakes import LIMIT, Fake, limited, start

# --- another way to the same server -------------------------------------------------------------------------


class Failing(Channel):
    """A channel that cannot be opened.

    :param other: what it offers in its place.
    """

    name = "the first way"

    def __init__(self, other):
        self._other, self.closed = other, 0

    def open(self):
        raise TransportError("the first way is blocked")

    def alternative(self, error):
        assert str(error) == "the first way is blocked"
        if isinstance(self._other, Exception):
            raise self._other
        return self._other

    def close(self):
        self.closed += 1


def test_the_alternative_of_a_channel_is_taken_with_a_handshake():
    with Fake() as fake:
        first = Failing(fake.channel)
        with mcplite.connect(first, timeout=LIMIT) as client:
            assert client.era == "legacy" and fake.methods()[0] == "initialize" and first.closed == 1


class Slow(Failing):
    """A channel that can be opened, and to which no one answers.

    :param seconds: which it took to open.
    """

    name = "the second way"

    def __init__(self, seconds):
        super().__init__(None)
        self.open_seconds = seconds
        self._end = threading.Event()

    def open(self):
        """It is open."""

    def alternative(self, error):
        """There is no third way, which is asked for if a moment of the time is left."""

    def write(self, data, timeout=None):
        """It takes everything."""

    def read(self, timeout=None):
        self._end.wait()
        raise ConnectionClosed("it was closed")

    def close(self):
        super().close()
        self._end.set()


@pytest.mark.slow
def test_the_alternative_has_what_is_left_of_the_time_for_opening():
    second = Slow(998)
    with pytest.raises(mcplite.RequestTimeout, match=r"'initialize' within [012](\.\d+)? s \(1000 s for opening in all\)"):
        mcplite.connect(Failing(second), open_timeout=1000).open()
    assert second.open_timeout == 1000 and second.closed


@pytest.mark.parametrize("other", [None, TransportError("so is the second")])
def test_without_an_alternative_the_first_error_is_raised(other):
    first = Failing(other)
    client = mcplite.connect(first)
    with pytest.raises(TransportError, match="the first way is blocked"):
        client.open()
    assert first.closed >= 1 and client.state == "closed" and "blocked" in str(client.last_error)


def test_an_alternative_that_needs_a_login_is_an_error_of_its_own():
    client = mcplite.connect(Failing(mcplite.errors.AuthError("no login")))
    with pytest.raises(mcplite.errors.AuthError, match="no login"):
        client.open()


# --- a process that ends ------------------------------------------------------------------------------------

MORTAL = """
import os, sys, mcplite
mcp = mcplite.Server("mortal")

@mcp.tool()
def pid() -> int:
    return os.getpid()

@mcp.tool()
def die() -> str:
    os._exit(3)

@mcp.tool()
def learn(name: str) -> str:
    mcp.add_tool(lambda: "x", name=name)
    return name

mcp.run()
"""


@pytest.fixture
def mortal(tmp_path):
    """Return the arguments of ``connect`` for a server with a tool that ends its process."""
    (tmp_path / "mortal.py").write_text(MORTAL)
    return [sys.executable, str(tmp_path / "mortal.py")], {"PYTHONPATH": str(Path(mcplite.__file__).resolve().parent.parent)}


def die(client):
    with pytest.raises(ConnectionClosed, match="exited with status 3"):
        client.call_tool("die")


def test_the_next_call_starts_a_dead_server_again(mortal):
    # STD-13
    command, env = mortal
    ended = []
    with mcplite.connect(command, env=env, timeout=LIMIT, options=mcplite.ClientOptions(on_disconnect=ended.append)) as client:
        client.set_log_level("debug")
        first = client.call_tool("pid").text
        die(client)
        with ThreadPoolExecutor(8) as pool:
            pids = set(pool.map(lambda n: client.call_tool("pid").text, range(16)))
        assert len(pids) == 1 and first not in pids and client.state == "open"
        assert len(ended) == 1 and client.era == "modern"


def test_subscriptions_continue_after_a_restart(mortal):
    # SUBS-14, SUBS-15
    command, env = mortal
    with mcplite.connect(command, env=env, timeout=LIMIT) as client, client.listen(tools=True) as events:
        die(client)
        assert events.get(LIMIT) == mcplite.ToolsChanged(missed=True)
        client.call_tool("learn", {"name": "new"})
        assert events.get(LIMIT) == mcplite.ToolsChanged()


@pytest.mark.slow
def test_a_server_that_keeps_dying_is_given_up(mortal):
    command, env = mortal
    with mcplite.connect(command, env=env, timeout=LIMIT) as client, client.listen(tools=True) as events:
        for _ in range(4):
            die(client)
        with pytest.raises(ConnectionClosed, match="started 3 times within a minute"):
            client.call_tool("pid")
        with pytest.raises(ConnectionClosed):
            list(events)


@pytest.mark.parametrize("when", ["closed", "with a handshake"])
def test_a_server_is_not_started_again(mortal, when):
    command, env = mortal
    with mcplite.connect(command, env=env, timeout=LIMIT,
                         options=mcplite.ClientOptions(era="legacy" if when == "with a handshake" else None)) as client:
        die(client)
        if when == "closed":
            client.close()
        with pytest.raises(ConnectionClosed):
            client.call_tool("pid")
        assert client.state == "closed"


@pytest.mark.parametrize("limit", ["timeout", "max_timeout", "cancel"])
@pytest.mark.slow
def test_the_limits_of_a_call_hold_before_a_server_is_started_again(mortal, limit, monkeypatch):
    command, env = mortal
    with mcplite.connect(command, env=env, timeout=LIMIT) as client:
        die(client), die(client)
        monkeypatch.setattr(connecting, "_BACK_OFF", 60)
        for _ in range(4):
            options, kind, text, token = limited(limit)
            begun = time.monotonic()
            caller, outcome = start(client.call_tool, "pid", **options)
            if token is not None:
                time.sleep(0.2)
                token.cancel("enough")
            caller.join(LIMIT)
            assert time.monotonic() - begun < 20
            with pytest.raises(kind, match=text):
                raise outcome[0]
        monkeypatch.setattr(connecting, "_BACK_OFF", 0.01)
        assert client.call_tool("pid").text, "no start was counted that was given up"
