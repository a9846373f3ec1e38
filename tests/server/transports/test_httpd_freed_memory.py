"""Memory that was freed between what is still in use goes back to the system."""

import platform
import subprocess
import sys

import pytest

from mcplite.server.transports import httpd
from mcplite.server.transports.httpd import FreedMemory

SCRIPT = """
from mcplite.server.transports.httpd import FreedMemory
memory = FreedMemory()
print(memory.give_back())
#: Smaller than what the allocator takes from the system apart, with a piece that stays behind each.
pieces = [bytes(60_000) for _ in range(2_000)]
kept = pieces[::100]
del pieces
before = memory._resident()
print(memory.give_back(), before - memory._resident() > 60 << 20)
print(memory.give_back(), sum(map(len, kept)))
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="glibc keeps freed memory")
def test_freed_memory_is_given_back_once_the_process_has_grown():
    # In a process of its own, in which nothing else is allocated.
    found = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=60, check=True)
    assert found.stdout.split("\n") == ["False", "True True", "False 1200000", ""], found


@pytest.mark.parametrize("missing", ["the function", "the system"])
def test_other_allocators_are_left_alone(monkeypatch, missing):
    if missing == "the function":
        monkeypatch.setattr(httpd, "_find_trim", lambda: None)
    else:
        monkeypatch.setattr(httpd.sys, "platform", "other")
    memory = FreedMemory()
    sizes = iter([1 << 40, 2 << 40])
    monkeypatch.setattr(memory, "_resident", lambda: next(sizes))
    memory._least = 0
    assert not memory.give_back() and not memory.give_back()


def test_nothing_is_given_back_while_no_descriptor_is_free(monkeypatch):
    memory = FreedMemory()

    def refuse(*given):
        raise OSError("Too many open files")

    monkeypatch.setattr("builtins.open", refuse)
    assert not memory.give_back()
