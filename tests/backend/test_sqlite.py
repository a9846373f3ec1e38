"""What is special to SQLite: the file, its locks, its faults, and the processes that share it."""

import contextlib
import os
import sqlite3
import stat
import subprocess
import sys
import threading

import pytest

from mcplite.backend.sqlite import SQLiteBackend
from mcplite.errors import BackendError
from tests.support.forks import POSIX_ONLY, Forked
from tests.support.processes import at_once
from tests.support.systems import posix_only


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "store.db")


@pytest.fixture
def backend(path):
    backend = SQLiteBackend(path)
    yield backend
    backend.close()


@POSIX_ONLY
def test_only_the_owner_can_read_the_file(backend, path):
    backend.put("a", b"1", 60)
    assert {stat.S_IMODE(os.stat(name).st_mode) for name in (path, path + "-wal", path + "-shm")} == {0o600}


def test_what_is_stored_outlives_the_process(path):
    program = ("import sys; from mcplite.backend.sqlite import SQLiteBackend; backend = SQLiteBackend(sys.argv[1]);"
               "backend.put('a', b'1', 600); print(backend.append('log', b'x', 600, 5)); import os; os._exit(1)")
    done = subprocess.run([sys.executable, "-c", program, path], stdout=subprocess.PIPE, timeout=60)
    assert done.stdout.split() == [b"1"]
    backend = SQLiteBackend(path)
    assert (backend.get("a"), backend.since("log", 0)) == (b"1", [(1, b"x")])
    backend.close()


def test_another_process_wakes_a_wait(backend, path):
    program = ("import sys; from mcplite.backend.sqlite import SQLiteBackend;"
               "SQLiteBackend(sys.argv[1]).append('log', b'x', 60, 5)")
    found = []
    waiting = threading.Thread(target=lambda: found.append(backend.wait({"log": 0}, 60)))
    waiting.start()
    subprocess.run([sys.executable, "-c", program, path], check=True, timeout=60)
    waiting.join(60)
    assert found == [{"log"}]


def test_a_locked_file_is_an_error_for_each_thread_after_its_own_time(path):
    backend = SQLiteBackend(path, busy_seconds=0.3)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    errors = []

    def put():
        with pytest.raises(BackendError, match="another process has kept it locked for 0.3 s") as raised:
            backend.put("a", b"1", 60)
        errors.append(raised.value)

    at_once(put, 8)
    assert len(errors) == 8
    other.execute("ROLLBACK")
    other.close()
    backend.put("a", b"2", 60)
    assert backend.get("a") == b"2"
    backend.close()


def test_a_short_lock_is_waited_for(backend, path):
    other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")
    timer = threading.Timer(0.2, other.execute, ("ROLLBACK",))
    timer.start()
    backend.put("a", b"1", 60)
    timer.join()
    other.close()
    assert backend.get("a") == b"1"


@POSIX_ONLY
def test_a_file_that_was_deleted_is_made_again(path, monkeypatch):
    monkeypatch.setattr("mcplite.backend.sqlite._LOOK_SECONDS", 0.0)
    backend = SQLiteBackend(path)
    backend.put("a", b"1", 60)
    for name in os.listdir(os.path.dirname(path)):
        os.unlink(os.path.join(os.path.dirname(path), name))
    backend.put("b", b"2", 60)
    other = SQLiteBackend(path)
    assert (other.get("a"), other.get("b")) == (None, b"2")
    other.close()
    backend.close()


def test_a_file_that_is_no_database_is_named(path):
    with open(path, "wb") as file:
        file.write(b"not a database at all, but long enough to be looked at" * 20)
    os.chmod(path, 0o600)
    with pytest.raises(BackendError, match="store.db.*not a database"):
        SQLiteBackend(path)


def test_a_missing_folder_is_named(tmp_path):
    with pytest.raises(BackendError, match="nowhere.*No such file or directory"):
        SQLiteBackend(str(tmp_path / "nowhere" / "store.db"))


def test_a_read_only_file_can_be_read(path):
    backend = SQLiteBackend(path)
    backend.put("a", b"1", 600)
    backend._connection.execute("PRAGMA query_only = 1")
    assert backend.get("a") == b"1"
    with pytest.raises(BackendError, match="readonly"):
        backend.put("a", b"2", 600)
    # After an error the file is opened again, and this time it can be written.
    backend.put("a", b"3", 600)
    assert backend.get("a") == b"3"
    backend.close()


def test_a_full_disk_loses_nothing_else(path):
    backend = SQLiteBackend(path)
    backend.put("a", b"1", 600)
    pages = backend._connection.execute("PRAGMA page_count").fetchone()[0]
    backend._connection.execute(f"PRAGMA max_page_count = {pages + 2}")
    with pytest.raises(BackendError, match="full"):
        backend.put("large", bytes(1_000_000), 600)
    assert (backend.get("a"), backend.get("large")) == (b"1", None)
    backend.close()


def test_what_has_expired_is_removed_from_the_file(path, monkeypatch):
    monkeypatch.setattr("mcplite.backend.sqlite._SWEEP_SECONDS", 0.0)
    now = [1000.0]
    backend = SQLiteBackend(path, clock=lambda: now[0])
    backend.put("a", b"1", 10)
    backend.append("log", b"1", 10, 5)
    now[0] = 1011
    backend.put("b", b"1", 10)
    count = "SELECT (SELECT COUNT(*) FROM stored), (SELECT COUNT(*) FROM entries), (SELECT COUNT(*) FROM logs)"
    assert backend._connection.execute(count).fetchone() == (1, 0, 1)
    now[0] = 1011 + 4000
    backend.put("b", b"1", 10)
    assert backend._connection.execute("SELECT COUNT(*) FROM logs").fetchone()[0] == 0
    assert backend.append("log", b"1", 10, 5) == 1
    backend.close()


@POSIX_ONLY
def test_a_forked_process_has_a_connection_of_its_own(backend):
    backend.put("a", b"parent", 60)
    backend.wait({"log": 0}, 0.01)

    def child():
        assert backend.get("a") == b"parent"
        backend.put("a", b"child", 60)
        assert backend.append("log", b"child", 60, 5) == 1
        assert backend.wait({"log": 0}, 60) == {"log"}

    Forked(child).result()
    assert backend.get("a") == b"child"
    assert backend.wait({"log": 0}, 60) == {"log"}


@POSIX_ONLY
def test_a_fork_while_other_threads_write(backend):
    """SQLite's own locks would stay locked in the forked process if a thread were inside at the fork."""
    ended = threading.Event()

    def write():
        while not ended.is_set():
            backend.append("busy", b"1", 60, 5)

    threads = [threading.Thread(target=write) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        numbers = [Forked(lambda: backend.append("log", b"child", 60, 5)).result() for _ in range(20)]
    finally:
        ended.set()
        for thread in threads:
            thread.join()
    assert numbers == list(range(1, 21))


@POSIX_ONLY
def test_the_socket_of_a_killed_process_is_removed(backend, path):
    program = ("import sys, os, signal; from mcplite.backend.sqlite import SQLiteBackend; backend = SQLiteBackend(sys.argv[1]);"
               "backend.wait({'log': 0}, 0.01); os.kill(os.getpid(), signal.SIGKILL)")
    subprocess.run([sys.executable, "-c", program, path], timeout=60)
    assert len(os.listdir(path + ".wake")) == 1
    backend.append("log", b"1", 60, 5)
    assert os.listdir(path + ".wake") == []


@POSIX_ONLY
def test_a_path_that_is_too_long_for_a_socket_is_looked_at_instead(tmp_path):
    folder = tmp_path / ("d" * 100)
    folder.mkdir()
    one, other = SQLiteBackend(str(folder / "store.db")), SQLiteBackend(str(folder / "store.db"))
    assert one.wait({"log": 0}, 0.01) == set()
    timer = threading.Timer(0.1, other.append, ("log", b"1", 60, 5))
    timer.start()
    assert one.wait({"log": 0}, 60) == {"log"}
    timer.join()
    one.close()
    other.close()


@posix_only
@pytest.mark.parametrize("mode", [0o644, 0o660, 0o606, 0o666, 0o640, 0o700 | 0o001])
def test_a_file_that_is_open_to_others_is_refused(path, mode):
    open(path, "w").close()
    os.chmod(path, mode)
    with pytest.raises(BackendError, match="chmod 600 .*store.db: others may"):
        SQLiteBackend(path)
    os.chmod(path, 0o600)
    SQLiteBackend(path).close()


@posix_only
def test_a_link_and_what_is_no_regular_file_are_refused(path, tmp_path):
    for make, problem in ((lambda: os.symlink(str(tmp_path / "other.db"), path), "this is a link"),
                          (lambda: os.mkfifo(path, 0o600), "no regular file"), (lambda: os.mkdir(path), "cannot be opened")):
        make()
        with pytest.raises(BackendError, match=problem):
            SQLiteBackend(path)
        os.rmdir(path) if os.path.isdir(path) else os.unlink(path)
    assert not (tmp_path / "other.db").exists()


@posix_only
@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can give a file away")
def test_a_file_of_another_user_is_refused(path):
    open(path, "w").close()
    os.chown(path, 65534, 65534)
    os.chmod(path, 0o600)
    with pytest.raises(BackendError, match="belongs to the user 65534"):
        SQLiteBackend(path)


@pytest.mark.parametrize("statement", [
    "UPDATE stored SET value = 'text'", "UPDATE stored SET value = 5", "UPDATE logs SET last = 'many'",
    "UPDATE logs SET last = 1.5", "UPDATE entries SET value = 'text'"])
def test_an_odd_value_is_an_error_of_the_backend(path, statement):
    with contextlib.closing(SQLiteBackend(path)) as backend:
        backend.put("key", b"value", 60)
        backend.append("log", b"entry", 60, 10)
        with contextlib.closing(sqlite3.connect(path)) as other:
            other.execute(statement)
            other.commit()
        with pytest.raises(BackendError, match="holds what mcplite did not write"):
            backend.get("key"), backend.last("log"), backend.since("log", 0)
        backend.put("another", b"value", 60)
        assert backend.get("another") == b"value", "nothing else is disturbed"


def test_columns_of_a_newer_release_are_left_alone(path):
    with contextlib.closing(SQLiteBackend(path)) as backend:
        with contextlib.closing(sqlite3.connect(path)) as newer:
            for table in ("stored", "logs", "entries"):
                newer.execute(f"ALTER TABLE {table} ADD COLUMN later TEXT DEFAULT 'x'")
            newer.commit()
        backend.put("key", b"value", 60)
        assert backend.get("key") == b"value" and backend.append("log", b"entry", 60, 10) == 1
        assert backend.since("log", 0) == [(1, b"entry")] and backend.take("key") == b"value"
