"""What is PostgreSQL's own: its tables are made once, and a process that opens them later waits for no other."""

import secrets

import pytest

from mcplite.backend.postgres import PostgresBackend

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
