"""The thread that listens for changes of a SQLite file goes on after any one fault."""

import contextlib
import socket
import threading
import time

import pytest

from mcplite.backend.sqlite import SQLiteBackend
from tests.support.faults import every_fault, lines, strike

from .conftest import PATIENCE, notices


@pytest.fixture
def backends(tmp_path):
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(contextlib.closing(SQLiteBackend(str(tmp_path / "store.db")))) for _ in range(2)]


@every_fault
@pytest.mark.parametrize("method", ["_look", "_receive"])
@pytest.mark.slow
def test_changes_are_noticed_after_a_fault(backends, monkeypatch, caplog, method, fault):
    one, other = backends
    assert notices(one, other)
    if method == "_receive" and one._wakeup._socket is None:
        pytest.skip("there are no Unix sockets")
    assert strike(monkeypatch, one._wakeup, method, fault).wait(PATIENCE)
    assert notices(one, other) and notices(one, other)
    assert lines(caplog, "listener of ") == 1


@pytest.mark.skipif(not hasattr(socket, "AF_UNIX"), reason="there are no Unix sockets")
def test_a_socket_that_was_left_without_blocking_blocks_again(backends, monkeypatch):
    one, other = backends
    assert notices(one, other)
    wakeup, failing = one._wakeup, threading.Event()

    class Socket:
        """The socket of the thread; one change of its timeout fails."""

        def __init__(self, real):
            self.real = real

        def __getattr__(self, name):
            return getattr(self.real, name)

        def settimeout(self, seconds):
            if failing.is_set() and self.real.gettimeout() == 0.0:
                failing.clear()
                raise OSError("no such state")
            self.real.settimeout(seconds)

    receive = wakeup._receive
    monkeypatch.setattr(wakeup, "_receive", lambda sock: receive(Socket(sock)))
    failing.set()
    end = time.monotonic() + PATIENCE
    while failing.is_set() or wakeup._socket.gettimeout() == 0.0:
        assert time.monotonic() < end
        other.append("log", b"x", 60, 5)
        time.sleep(0.05)
    assert notices(one, other)


@pytest.mark.skipif(not hasattr(socket, "AF_UNIX"), reason="there are no Unix sockets")
def test_what_is_stored_is_stored_though_other_processes_cannot_be_woken(backends, monkeypatch):
    one, other = backends
    assert notices(one, other)

    class Sender:
        """The socket that wakes others; one of its calls fails."""

        def __init__(self, real):
            self.real = real
            self.struck = strike(monkeypatch, self, "sendto", lambda: OSError("no buffers"))

        def sendto(self, *arguments):
            return self.real.sendto(*arguments)

        def close(self):
            self.real.close()

    sender = other._wakeup._sender = Sender(other._wakeup._sender)
    assert notices(one, other) and sender.struck.is_set()
    other._wakeup._sender = Sender(sender.real)
    other.close()
    assert other._wakeup._sender is None
