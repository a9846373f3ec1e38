"""An entry whose notification was lost ends a wait all the same, some seconds later."""

import contextlib
import sqlite3
import threading
import time

import pytest

from mcplite.backend import postgres, redis, sqlite_wakeup

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
