"""The thread that listens for changes of a SQLite file goes on after any one fault."""

import contextlib
import os
import socket
import threading
import time

import pytest

from mcplite.backend import sqlite_wakeup
from mcplite.backend.sqlite import SQLiteBackend
from mcplite.errors import BackendError
from tests.support.faults import every_fault, lines, no_threads, strike

PATIENCE = 60
#: Seconds within which an entry is noticed if the thread runs; without it a wait lasts for PATIENCE.
NOTICED = 30


@pytest.fixture
def backends(tmp_path):
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(contextlib.closing(SQLiteBackend(str(tmp_path / "store.db")))) for _ in range(2)]


def notices(backend, other):
    """Whether one process notices what the other one appends."""
    found = []
    number = other.last("log")
    waiting = threading.Thread(target=lambda: found.append(backend.wait({"log": number}, PATIENCE)))
    waiting.start()
    time.sleep(0.05)
    other.append("log", b"x", 60, 5)
    waiting.join(NOTICED)
    return found == [{"log"}]


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


@every_fault
@pytest.mark.slow
def test_changes_are_noticed_after_a_fault_in_the_pause_of_an_outage(backends, monkeypatch, fault):
    one, other = backends
    assert notices(one, other)
    struck = strike(monkeypatch, one._wakeup._ended, "wait", fault)
    strike(monkeypatch, one._wakeup, "_look", lambda: BackendError("the file is away"))
    assert struck.wait(PATIENCE)
    assert notices(one, other)


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


def test_changes_are_noticed_once_the_system_has_a_thread(backends, monkeypatch):
    one, other = backends
    there = no_threads(monkeypatch, "mcplite listener of ")
    for _ in range(2):
        with pytest.raises(BackendError, match="new thread"):
            one.wait({"log": 0}, PATIENCE)
    there()
    assert notices(one, other)
    if hasattr(socket, "AF_UNIX"):
        assert len(os.listdir(one._wakeup._folder)) == 1, "one socket, however often it was tried"


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


@pytest.mark.skipif(not hasattr(socket, "AF_UNIX"), reason="there are no Unix sockets")
def test_what_is_stored_is_stored_without_a_descriptor_to_wake_others(backends, monkeypatch):
    one, other = backends
    one.wait({"log": 0}, 0)  # it listens
    struck = strike(monkeypatch, sqlite_wakeup, "_datagram_socket", lambda: OSError("too many open files"))
    assert other.append("log", b"x", 60, 5) == 1 and struck.is_set()
    assert notices(one, other)


def test_a_thread_that_runs_although_its_start_failed_is_the_only_one_and_ends(backends, monkeypatch):
    one, other = backends
    real, failed = threading.Thread.start, threading.Event()

    def start(thread):
        real(thread)
        if thread.name.startswith("mcplite listener of ") and not failed.is_set():
            failed.set()
            raise RuntimeError  # in the wait for the thread, which runs already

    monkeypatch.setattr(threading.Thread, "start", start)
    assert notices(one, other) and failed.is_set()
    listening = [thread for thread in threading.enumerate() if thread.name.startswith("mcplite listener of ")]
    assert len(listening) == 1
    one.close()
    assert not listening[0].is_alive()
