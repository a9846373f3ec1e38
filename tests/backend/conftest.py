"""The stores that every test of a backend runs on."""

import secrets

import pytest

from mcplite.backend.from_url import open_backend


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
