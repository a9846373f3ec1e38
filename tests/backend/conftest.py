"""The stores that every test of a backend runs on."""

import secrets
import threading
import time

import pytest

from mcplite.backend.from_url import open_backend
from mcplite.errors import BackendError

#: Seconds to wait for what has to come.
PATIENCE = 60


def notices(backend, other, log="log"):
    """Whether one process notices what the other one appends."""
    found, number = [], other.last(log)
    waiting = threading.Thread(target=lambda: found.append(backend.wait({log: number}, PATIENCE)))
    waiting.start()
    time.sleep(0.05)
    other.append(log, b"x", 60, 5)
    waiting.join(PATIENCE / 2)
    return found == [{log}]


def eventually(operation):
    """Return what *operation* returns once the store is there again."""
    until = time.monotonic() + PATIENCE
    while True:
        try:
            return operation()
        except BackendError:
            if time.monotonic() > until:
                raise
            time.sleep(0.1)


@pytest.fixture(scope="session")
def redis_server():
    pytest.importorskip("redis")
    stores = pytest.importorskip("tests.support.stores")
    server = stores.RedisServer().start()
    yield server
    server.close()


@pytest.fixture(scope="session")
def cluster_server():
    pytest.importorskip("redis")
    stores = pytest.importorskip("tests.support.stores")
    servers = stores.RedisClusterServers().start()
    yield servers
    servers.close()


@pytest.fixture(scope="session")
def postgres_server():
    pytest.importorskip("psycopg")
    stores = pytest.importorskip("tests.support.stores")
    server = stores.PostgresServer().start()
    yield server
    server.close()


KINDS = ["memory", "sqlite", "redis", "cluster", "postgres"]


@pytest.fixture(scope="session")
def store_url(request, tmp_path_factory):
    """The URL of a store of the kind that the test is parametrized with."""
    kind = request.param
    if kind == "memory":
        return "memory:"
    if kind == "sqlite":
        return f"sqlite:///{tmp_path_factory.mktemp('sqlite') / 'store.db'}"
    return request.getfixturevalue(f"{kind}_server").url


@pytest.fixture
def backends(store_url):
    """A function that opens one more backend on the store; all are closed after the test."""
    opened = []

    def create():
        opened.append(open_backend(store_url))
        return opened[-1]

    yield create
    for backend in opened:
        backend.close()


@pytest.fixture
def group():
    """A name that no other test uses."""
    return secrets.token_hex(6)
