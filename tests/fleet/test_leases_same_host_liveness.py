"""The sign that a process of the same machine runs, which ends with it."""

import os
import subprocess
import sys

import pytest

from mcplite.fleet import leases
from mcplite.fleet.leases import Presence, has_ended
from tests.support.forks import Forked

LINUX = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="sockets without a file are of Linux")

_CHILD = """
import sys
from mcplite.fleet.leases import Presence

held = Presence()
print(held.mark.hex(), flush=True)
sys.stdin.read()
"""


@LINUX
def test_a_process_that_was_killed_has_ended_at_once():
    process = subprocess.Popen([sys.executable, "-c", _CHILD], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    mark = bytes.fromhex(process.stdout.readline())
    assert not has_ended(mark)
    process.kill()
    process.communicate()
    assert has_ended(mark)


@LINUX
def test_close_ends_it():
    held = Presence()
    assert held.mark and not has_ended(held.mark)
    held.close()
    held.close()
    assert has_ended(held.mark)


@LINUX
def test_a_forked_process_does_not_hold_it():
    held = Presence()
    begun, told = os.pipe()
    waits, ended = os.pipe()
    child = os.fork()
    if not child:
        held.let_go()
        os.write(told, b"x")
        os.read(waits, 1)
        os._exit(0)
    try:
        os.read(begun, 1)
        held.close()
        assert has_ended(held.mark), "the copy of the socket in the forked process is closed"
    finally:
        os.write(ended, b"x")
        os.waitpid(child, 0)
        for descriptor in (begun, told, waits, ended):
            os.close(descriptor)


@LINUX
def test_a_forked_process_sees_its_parent():
    held = Presence()
    try:
        assert Forked(lambda: has_ended(held.mark)).result() is False
    finally:
        held.close()


def test_of_a_process_elsewhere_nothing_is_known():
    assert not has_ended(b"")
    assert not has_ended(b"a mark of another machine"[:24])


def test_without_a_place_there_is_no_mark(monkeypatch):
    monkeypatch.setattr(leases, "_place", lambda: None)
    held = Presence()
    assert held.mark == b"" and not has_ended(b"x" * 24)
    held.close()


@LINUX
def test_a_sandbox_without_such_sockets_has_no_mark(monkeypatch):
    class Refusing(leases.socket.socket):
        def bind(self, address):
            raise PermissionError("not here")

    made = (leases.socket.AF_UNIX, leases.socket.SOCK_DGRAM)
    monkeypatch.setattr(leases, "_new_socket", lambda: Refusing(*made))
    assert Presence().mark == b""


@LINUX
def test_without_descriptors_there_is_no_mark_and_nothing_is_known(monkeypatch):
    def none_left():
        raise OSError("too many open files")

    held = Presence()
    monkeypatch.setattr(leases, "_new_socket", none_left)
    assert Presence().mark == b"" and not has_ended(held.mark)
    held.close()
