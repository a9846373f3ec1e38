"""What holds for every backend.

An entry whose notification was lost ends a wait all the same, some seconds later.
"""

import contextlib
import sqlite3
import threading
import time

import pytest

from mcplite.backend import postgres, redis, sqlite_wakeup
from mcplite.backend.from_url import SealedBackend
from mcplite.backend.memory import MemoryBackend
from mcplite.errors import BackendError
from mcplite.testing import check_backend

from .conftest import KINDS

every_kind = pytest.mark.parametrize("store_url", KINDS, indirect=True, scope="session")
shared_kinds = pytest.mark.parametrize("store_url", KINDS[1:], indirect=True, scope="session")


@every_kind
def test_it_keeps_its_promises(backends):
    check_backend(backends)


@shared_kinds
def test_it_keeps_its_promises_when_sealed(backends):
    check_backend(lambda: SealedBackend(backends(), [b"new key of 16 by", b"old key of 16 by"]))


@every_kind
def test_close_ends_a_wait(backends, group):
    backend = backends()
    found = []
    waiting = threading.Thread(target=lambda: found.append(backend.wait({f"{group}/log": 0}, 60)))
    waiting.start()
    while not (backend._watch.logs if hasattr(backend, "_watch") else backend._waiting):
        waiting.join(0.01)
    backend.close()
    waiting.join(30)
    assert found == [set()]
    backend.close()


@shared_kinds
@pytest.mark.slow
def test_a_closed_backend_says_so(backends, group):
    backend = backends()
    backend.put(f"{group}/a", b"1", 60)
    backend.close()
    with pytest.raises(BackendError, match="closed"):
        backend.get(f"{group}/a")


class Forgetful(MemoryBackend):
    def take(self, key):
        return self.get(key)


class Uncounted(MemoryBackend):
    def append(self, log, value, seconds, keep):
        return super().append(log, value, seconds, keep) + 1


class Deaf(MemoryBackend):
    def wait(self, logs, timeout):
        return set()


@pytest.mark.parametrize("wrong, text", [(Forgetful, "take"), (Uncounted, "append"), (Deaf, "wait")])
def test_a_broken_promise_is_found(wrong, text):
    with pytest.raises(AssertionError, match=text):
        check_backend(wrong)


PATIENCE = 60


def append_silently(backend, log, number, value):
    """Write an entry as the backend does, without notifying the processes that wait."""
    kind = type(backend).__name__
    if kind == "RedisBackend":
        client = backend._redis.get()
        client.set(backend._key("number", log), number)
        client.xadd(backend._key("log", log), {"v": value}, id=f"{number}-0")
    elif kind == "PostgresBackend":
        backend._run("written", "UPDATE mcplite_logs SET last = %(number)s WHERE log = %(log)s", number=number, log=log)
        backend._run("written", "INSERT INTO mcplite_entries VALUES (%(log)s, %(number)s, %(value)s, 'infinity')",
                     number=number, log=log, value=value)
    else:
        with contextlib.closing(sqlite3.connect(backend._path, isolation_level=None, timeout=PATIENCE)) as connection:
            connection.execute("UPDATE logs SET last = ? WHERE log = ?", (number, log))
            connection.execute("INSERT INTO entries (log, number, value, until) VALUES (?, ?, ?, ?)",
                               (log, number, value, time.time() + 3600))


@pytest.mark.parametrize("store_url", ["sqlite", "redis", "postgres"], indirect=True)
def test_an_entry_that_was_not_told_is_found(backends, group, monkeypatch):
    for module in (redis, postgres):
        monkeypatch.setattr(module, "_LISTEN_SECONDS", 0.3)
    monkeypatch.setattr(sqlite_wakeup, "_LOOK_SECONDS", 0.3)
    backend, log, found = backends(), f"{group}/log", []
    assert backend.append(log, b"1", 600, 10) == 1
    assert backend.wait({log: 1}, 0.1) == set()  # from now on it is followed
    thread = threading.Thread(target=lambda: found.append(backend.wait({log: 1}, PATIENCE)))
    thread.start()
    append_silently(backend, log, 2, b"2")
    thread.join(PATIENCE + 30)
    assert found == [{log}] and backend.since(log, 1) == [(2, b"2")]
