"""Redis and PostgreSQL that are killed, frozen, restarted with their data and without: what fails, and what comes back."""

import logging
import os
import threading

import pytest

from mcplite.backend.from_url import open_backend
from mcplite.backend.postgres import PostgresBackend
from mcplite.backend.redis import RedisBackend
from mcplite.errors import BackendError

from .conftest import PATIENCE, eventually

stores = pytest.importorskip("tests.support.stores", reason="POSIX only")
@pytest.fixture(params=["redis", "postgres"])
def server(request):
    pytest.importorskip("redis" if request.param == "redis" else "psycopg")
    server = (stores.RedisServer if request.param == "redis" else stores.PostgresServer)().start()
    yield server
    server.close()


@pytest.fixture
def backend(server):
    backend = open_backend(server.url)
    yield backend
    backend.close()


class Waiting:
    """A thread that waits for a log."""

    def __init__(self, backend, logs):
        self._found = []
        self._thread = threading.Thread(target=lambda: self._found.append(backend.wait(logs, PATIENCE)))
        self._thread.start()
        while not set(logs) <= set(backend._watch.logs) or any(one.number is None for one in backend._watch._watched.values()):
            self._thread.join(0.01)

    def result(self):
        self._thread.join(PATIENCE + 30)
        return self._found


@pytest.mark.slow
def test_a_restart_with_its_data(server, backend, caplog):
    backend.put("outage/a", b"kept", 600)
    assert backend.append("outage/log", b"1", 600, 10) == 1
    waiting = Waiting(backend, {"outage/log": 1})
    server.kill()
    with pytest.raises(BackendError, match=f"127.0.0.1:{server.port}.* cannot be read"):
        backend.get("outage/a")
    with pytest.raises(BackendError, match="cannot be written"):
        backend.append("outage/log", b"lost", 600, 10)
    server.start()
    assert eventually(lambda: backend.get("outage/a")) == b"kept"
    assert backend.append("outage/log", b"2", 600, 10) == 2
    assert waiting.result() == [{"outage/log"}]
    assert backend.since("outage/log", 1) == [(2, b"2")]
    warnings = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert len(warnings) <= 1, "one outage is told once"


@pytest.mark.slow
def test_what_is_appended_while_a_listener_is_away_is_noticed_later(server, backend):
    assert backend.append("away/log", b"1", 600, 10) == 1
    waiting = Waiting(backend, {"away/log": 1})
    server.kill()
    server.start()
    other = open_backend(server.url)
    eventually(lambda: other.append("away/log", b"2", 600, 10))
    assert waiting.result() == [{"away/log"}]
    other.close()


@pytest.mark.slow
def test_a_frozen_server_is_an_error_after_the_time_limit(server):
    backend = (RedisBackend if "redis" in server.url else PostgresBackend)(server.url, timeout=4.0)
    backend.put("frozen/a", b"1", 600)
    server.freeze()
    try:
        with pytest.raises(BackendError, match="cannot be read"):
            backend.get("frozen/a")
    finally:
        server.resume()
    assert eventually(lambda: backend.get("frozen/a")) == b"1"
    backend.close()


def test_a_restart_without_its_data_is_noticed(server, backend):
    for number in range(1, 4):
        backend.append("empty/log", b"%d" % number, 600, 10)
    waiting = Waiting(backend, {"empty/log": 3})
    _empty(server)
    assert eventually(lambda: backend.since("empty/log", 3)) is None
    assert backend.append("empty/log", b"new", 600, 10) == 1
    assert waiting.result() == [{"empty/log"}]
    assert backend.since("empty/log", 3) is None


def _empty(server):
    if "redis" in server.url:
        import redis

        client = redis.Redis.from_url(server.url)
        client.flushall()
        client.close()
    else:
        import psycopg

        with psycopg.connect(server.url, autocommit=True) as connection:
            connection.execute("TRUNCATE mcplite_stored, mcplite_logs, mcplite_entries")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="POSIX only")
def test_a_forked_process_has_connections_of_its_own(backend):
    from tests.support.forks import Forked

    backend.put("fork/a", b"parent", 600)
    backend.wait({"fork/log": 0}, 0.01)

    def child():
        assert backend.get("fork/a") == b"parent"
        assert backend.append("fork/log", b"child", 600, 5) == 1
        assert backend.wait({"fork/log": 0}, PATIENCE) == {"fork/log"}
        return backend.get("fork/a")

    assert Forked(child).result() == b"parent"
    assert backend.wait({"fork/log": 0}, PATIENCE) == {"fork/log"}
    assert backend.get("fork/a") == b"parent"
