"""The sign that a process of the same machine runs, which ends with it."""

import os
import socket
import sys

import pytest

from mcplite.fleet import leases
from mcplite.fleet.leases import Presence, has_ended
from tests.support.forks import Forked

LINUX = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="sockets without a file are of Linux")

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


class Refusing(socket.socket):
    def bind(self, address):
        raise PermissionError("not here")


def none_left():
    raise OSError("too many open files")


@LINUX
@pytest.mark.parametrize("name, replacement", [
    ("_place", lambda: None), ("_new_socket", none_left),
    ("_new_socket", lambda: Refusing(socket.AF_UNIX, socket.SOCK_DGRAM)),
], ids=["no place", "no descriptors", "a sandbox"])
def test_where_there_are_no_such_sockets_the_lease_decides(monkeypatch, name, replacement):
    other = Presence()
    monkeypatch.setattr(leases, name, replacement)
    held = Presence()
    assert held.mark == b"" and not has_ended(b"x" * 24) and not has_ended(other.mark)
    for presence in (held, other):
        presence.close()
