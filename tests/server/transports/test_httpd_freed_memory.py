"""Memory that was freed between what is still in use goes back to the system."""

import platform
import subprocess
import sys

import pytest

from mcplite.server.transports import httpd
from mcplite.server.transports.httpd import FreedMemory

SCRIPT = """
from mcplite.server.transports.httpd import FreedMemory, _resident
memory = FreedMemory()
print(memory.give_back())
#: Smaller than what the allocator takes from the system apart, with a piece that stays behind each.
pieces = [bytes(60_000) for _ in range(2_000)]
kept = pieces[::100]
del pieces
before = _resident()
print(memory.give_back(), before - _resident() > 60 << 20)
print(memory.give_back(), sum(map(len, kept)))
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="glibc keeps freed memory")
def test_freed_memory_is_given_back_once_the_process_has_grown():
    # In a process of its own, in which nothing else is allocated.
    found = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=60, check=True)
    assert found.stdout.split("\n") == ["False", "True True", "False 1200000", ""], found


def test_another_allocator_is_left_alone(monkeypatch):
    sizes = iter([0, 1 << 40, 2 << 40])
    monkeypatch.setattr(httpd, "_resident", lambda: next(sizes))
    monkeypatch.setattr("ctypes.CDLL", lambda name: None)
    assert not FreedMemory().give_back()


def test_nothing_is_given_back_while_no_descriptor_is_free(monkeypatch):
    memory = FreedMemory()

    def refuse(*given):
        raise OSError("Too many open files")

    monkeypatch.setattr("builtins.open", refuse)
    assert not memory.give_back()
