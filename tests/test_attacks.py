"""One client attacks an HTTP server: another one is answered all the time, and the server keeps and logs little.

The short form of ``make attacks``. The bounds are those of docs/security.rst; of times only a generous one is tested.
"""

import sys
from importlib import import_module
from pathlib import Path

import pytest

import mcplite
from mcplite.tasks import Tasks

ROOT = Path(__file__).resolve().parent.parent
#: Bytes of the log that an attack may cause.
LOG = 20_000
#: MiB that all attacks together may cost.
MEBIBYTES = 256

pytestmark = [
    pytest.mark.one_python,  # it takes minutes
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="Linux has all of 127.0.0.0/8, and /proc"),
]


@pytest.fixture
def attacks(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))
    monkeypatch.chdir(ROOT)
    return import_module("benchmarks.attacks")


@pytest.mark.parametrize("name, share", [
    ("sessions", 1.1), ("large_sessions", 0.3), ("idle_connections", 1.0), ("slow_heads", 1.0), ("unfinished_bodies", 0.5),
    ("large_calls", 0.5), ("streams", 1.1), ("resets", 0.3), ("tiny_chunks", 0.5), ("questions", 1.0), ("tasks", 1.0),
    ("handlers", 1.0), ("unread_files", 1.0), ("costly_calls", 1.0), ("together", 0.5),
])
@pytest.mark.slow
def test_another_client_is_answered_during_an_attack(attacks, name, share):
    found = attacks.measure(name, share=share, hold=0.5)
    assert found.failed == 0 and found.tried > 0 and found.back is not None, found
    assert found.mebibytes <= MEBIBYTES and found.log <= LOG, found
    if name == "tasks":
        # Calls and results are decoded and encoded besides, and the threads of those that wait are those of waiting calls.
        limits = mcplite.Limits()
        assert found.mebibytes <= 8 * (limits.memory_bytes >> 24), found
        assert found.threads <= limits.waiting_calls + Tasks().running + limits.running, found


@pytest.mark.parametrize("name", ["sessions", "idle_connections", "streams"])
@pytest.mark.slow
def test_another_client_behind_the_same_proxy_is_answered_too(attacks, name):
    found = attacks.measure(name, source="127.0.0.1", share=1.1, hold=0.5)
    assert found.failed < found.tried / 2 and found.back is not None, found
