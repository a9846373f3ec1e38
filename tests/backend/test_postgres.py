"""What is PostgreSQL's own: its tables are made once, and a process that opens them later waits for no other."""

import contextlib
import secrets
import socket
import time

import pytest

from mcplite.backend import postgres
from mcplite.backend.postgres import PostgresBackend
from tests.support.faults import every_fault, lines, strike
from tests.support.forks import POSIX_ONLY

from .conftest import PATIENCE, notices

psycopg = pytest.importorskip("psycopg")


def test_a_process_that_starts_does_not_wait_for_what_others_write(postgres_server):
    first = PostgresBackend(postgres_server.url)
    second = PostgresBackend(postgres_server.url)
    try:
        first.put("key/one", b"1", 60)
        with psycopg.connect(postgres_server.url) as writing:
            # Until its end this transaction has the locks of a statement that writes.
            writing.execute("DELETE FROM mcplite_stored WHERE key = 'other'")
            writing.execute("DELETE FROM mcplite_entries WHERE log = 'other'")
            writing.execute("DELETE FROM mcplite_logs WHERE log = 'other'")
            assert second.get("key/one") == b"1"
            writing.rollback()
    finally:
        first.close()
        second.close()


def test_tables_are_made_in_the_first_schema_of_the_search_path(postgres_server):
    schema = f"s{secrets.token_hex(4)}"
    with psycopg.connect(postgres_server.url, autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {schema}")
    backend = PostgresBackend(f"{postgres_server.url}?options=-csearch_path%3D{schema}")
    try:
        backend.put("key/one", b"1", 60)
        assert backend.append("log/one", b"1", 60, 10) == 1
    finally:
        backend.close()
    with psycopg.connect(postgres_server.url, autocommit=True) as connection:
        found = connection.execute("SELECT count(*) FROM pg_tables WHERE schemaname = %s", [schema]).fetchone()
        connection.execute(f"DROP SCHEMA {schema} CASCADE")
    assert found[0] == 3


@pytest.fixture
def backends(postgres_server):
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(contextlib.closing(PostgresBackend(postgres_server.url))) for _ in range(2)]


@every_fault
def test_changes_are_noticed_after_a_fault(backends, group, monkeypatch, caplog, fault):
    one, other = backends
    assert notices(one, other, f"{group}/log")
    struck = strike(monkeypatch, one._watch, "announce", fault, lambda log, *rest: log == f"{group}/fault")
    other.append(f"{group}/fault", b"x", 60, 5)
    assert struck.wait(PATIENCE)
    assert notices(one, other, f"{group}/log") and notices(one, other, f"{group}/log")
    # An OSError is what a server that is away raises as well.
    assert lines(caplog, "listener of ") + lines(caplog, "the backend ") == 1


def test_a_notification_of_another_program_is_survived(backends, group, postgres_server):
    one, other = backends
    assert notices(one, other, f"{group}/log")
    with psycopg.connect(postgres_server.url, autocommit=True) as stranger:
        stranger.execute("NOTIFY mcplite, 'hello'")
    assert notices(one, other, f"{group}/log")


def test_values_that_are_only_swapped_are_removed_after_their_time(postgres_server, group, monkeypatch):
    monkeypatch.setattr(postgres, "_SWEEP_SECONDS", 0.0)
    with contextlib.closing(PostgresBackend(postgres_server.url)) as backend, psycopg.connect(
            postgres_server.url, autocommit=True) as connection:
        for number in range(20):
            assert backend.swap(f"{group}/once-{number}", None, b"1", 0.001)
        time.sleep(0.01)
        assert backend.swap(f"{group}/once", None, b"1", 60)
        rows = connection.execute("SELECT key FROM mcplite_stored WHERE key LIKE %s", [f"{group}/%"]).fetchall()
    assert rows == [(f"{group}/once",)]


@POSIX_ONLY
def test_descriptors_above_those_of_select(postgres_server, group):
    import resource

    most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most[1], most[1]) if most[0] < 2048 <= most[1] else most)
    if most[1] < 2048:
        pytest.skip("the system gives this process few descriptors")
    try:
        with contextlib.ExitStack() as stack:
            for _ in range(1100):
                stack.enter_context(socket.socket())
            backend = stack.enter_context(contextlib.closing(PostgresBackend(postgres_server.url)))
            backend.put(f"{group}/key", b"1", 60)
            assert backend.get(f"{group}/key") == b"1"
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, most)
