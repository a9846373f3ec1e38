"""What goes wrong with a store while clients call, how it is mended, and what must hold meanwhile and afterwards."""

import contextlib
import os
import shutil
import socket
import sqlite3
import subprocess
import threading
import time
from pathlib import Path

from tests.fleet.conversation import Conversation
from tests.fleet.load import Load, act, book, read, reverse, tools
from tests.fleet.scenarios import REASON, judge
from tests.support.fleets import running_fleet, running_store
from tests.support.rawhttp import Wire, call
from tests.support.stateless import call as modern_call

HERE = Path(__file__).resolve().parent
#: Seconds for which a fault lasts.
LASTS = 8.0
CLIENTS = 8


class Delay:
    """Stands between the workers and a store, and holds back everything that comes for some time.

    :param port: of the store on this machine.
    """

    def __init__(self, port, seconds):
        self._target, self.seconds = ("127.0.0.1", port), seconds
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.port = self._listener.getsockname()[1]
        self._sockets = []
        # They end when their sockets are closed.
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                far = socket.create_connection(self._target)
                self._sockets += [near, far]
                for source, sink in ((near, far), (far, near)):
                    source.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    threading.Thread(target=self._carry, args=(source, sink), daemon=True).start()

    def _carry(self, source, sink):
        with contextlib.suppress(OSError):
            while True:
                data = source.recv(65_536)
                if not data:
                    break
                time.sleep(self.seconds / 2)
                sink.sendall(data)
        for end in (source, sink):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def close(self):
        for end in (self._listener, *self._sockets):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()


def plain_call(fleet):
    """The status of a call that needs no store."""
    message = modern_call("reverse", {"text": "abc"})
    headers = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "reverse"}
    with Wire(fleet.port) as wire:
        return wire.post(message, **headers).status


def session_call(session):
    """The status of a call in a session, and the seconds after which to try again."""
    reply = session.post(call("reverse", text="abc"))
    return reply.status, reply.headers.get("retry-after")


def suffer(fleet, fault, away=True, empty=False, lasts=LASTS):
    """Call while a fault is there, and afterwards.

    :param fault: a context manager that breaks the store at its beginning and mends it at its end.
    :param away: requests in sessions are told to come back meanwhile.
    :param empty: the store has lost its values by then.
    """
    session = Conversation(fleet)
    log = os.stat(fleet.folder / "log").st_size
    with Load(fleet.url, CLIENTS, [reverse, read, book, act, tools], pause=0.05) as load:
        assert load.goes_on(3 * CLIENTS), load.failed[:5]
        with fault:
            broken, seen = time.monotonic(), []
            while time.monotonic() < broken + lasts:
                assert plain_call(fleet) == 200
                seen.append(session_call(session))
                time.sleep(0.2)
        mended = time.monotonic()
        # What was away is tried again after a pause that has grown meanwhile.
        assert load.goes_on(5 * CLIENTS), load.failed[-5:]
        recovered = time.monotonic() - mended
    statuses = {status for status, _ in seen}
    assert statuses <= ({200, 503, 404} if empty else {200, 503}), statuses
    if away:
        assert (503 in statuses) and all(seconds is not None for status, seconds in seen if status == 503), seen[-3:]
    status, _ = session_call(session)
    assert status == (404 if empty else 200), f"the session has {status}"
    written = os.stat(fleet.folder / "log").st_size - log
    assert written < 200_000, f"{written} bytes of log for one fault: {fleet.log}"
    if empty:
        assert not load.wrong, load.wrong[:5]
        figures = {"right answers": sum(load.right.values()), "failed calls": len(load.failed),
                   "sessions opened again": load.lost}
    else:
        figures = judge(load, fleet, lambda failure: explained(failure[3]))
    return {**figures, "went on after": f"{recovered:.1f} s", "statuses in a session": sorted(statuses),
            "bytes of log": written}


def explained(text):
    return REASON.search(text) is not None or "backend" in text or "store" in text or "503" in text


@contextlib.contextmanager
def ended_by(server, end):
    end()
    try:
        yield
    finally:
        server.start()


@contextlib.contextmanager
def emptied(server):
    server.stop()
    shutil.rmtree(os.path.join(server.folder, "appendonlydir"), ignore_errors=True)
    server.start()
    yield


@contextlib.contextmanager
def frozen(server):
    server.freeze()
    try:
        yield
    finally:
        server.resume()


@contextlib.contextmanager
def full(server):
    import redis

    with contextlib.closing(redis.Redis(port=server.port)) as client:
        client.config_set("maxmemory", "1mb")
        try:
            yield
        finally:
            client.config_set("maxmemory", "0")


@contextlib.contextmanager
def locked(path):
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("BEGIN EXCLUSIVE")
        try:
            yield
        finally:
            connection.execute("ROLLBACK")


@contextlib.contextmanager
def filled(folder):
    """Take all the room of a file system."""
    path = os.path.join(folder, "filler")
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT)
    try:
        with contextlib.suppress(OSError):
            while True:
                os.write(descriptor, bytes(4096))
        yield
    finally:
        os.close(descriptor)
        os.unlink(path)


@contextlib.contextmanager
def read_only(path):
    """Have all writes to a file refused, also those of root and over descriptors that are open."""
    files = [path, f"{path}-wal"]
    subprocess.run(["chattr", "+i", *files], check=True)
    try:
        yield
    finally:
        subprocess.run(["chattr", "-i", *files], check=True)


@contextlib.contextmanager
def deleted(path):
    for suffix in ("", "-wal", "-shm"):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(str(path) + suffix)
    yield


@contextlib.contextmanager
def small_disk(folder):
    """Mount a file system of eight MiB; root alone can."""
    place = os.path.join(folder, "disk")
    os.mkdir(place)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", place], check=True)
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", place], check=True)


@contextlib.contextmanager
def served(folder, backend):
    with running_fleet("server:application", HERE, folder, backend) as fleet:
        yield fleet


def redis_faults(folder):
    """Redis is stopped, killed, restarted empty, frozen, slow and full, one after another."""
    with running_store("redis", folder) as (backend, server), served(folder, backend) as fleet:
        yield "redis stopped, and started with its data", lambda: suffer(fleet, ended_by(server, server.stop))
        yield "redis killed, and started with its data", lambda: suffer(fleet, ended_by(server, server.kill))
        yield "redis full", lambda: suffer(fleet, full(server), away=False)
        yield "redis frozen", lambda: suffer(fleet, frozen(server))
        yield "redis started empty", lambda: suffer(fleet, emptied(server), away=False, empty=True)


def slow_redis(folder):
    """Every round trip to Redis takes 100 ms."""
    with running_store("redis", folder) as (backend, server):
        delay = Delay(server.port, 0.1)
        try:
            with served(folder, backend.replace(str(server.port), str(delay.port))) as fleet:
                yield "redis slow, 100 ms", lambda: suffer(fleet, contextlib.nullcontext(), away=False)
        finally:
            delay.close()


def postgres_faults(folder):
    """PostgreSQL is stopped, killed and frozen, one after another."""
    with running_store("postgres", folder) as (backend, server), served(folder, backend) as fleet:
        yield "postgres stopped, and started with its data", lambda: suffer(fleet, ended_by(server, server.stop))
        yield "postgres killed, and started with its data", lambda: suffer(fleet, ended_by(server, server.kill))
        yield "postgres frozen", lambda: suffer(fleet, frozen(server))


def sqlite_faults(folder):
    """SQLite is locked, read-only, on a full disk, and deleted, one after another."""
    path = os.path.join(folder, "read-only.db")
    with served(folder, f"sqlite:///{path}") as fleet:
        yield "sqlite read-only", lambda: suffer(fleet, read_only(path))
    with small_disk(folder) as place:
        path = os.path.join(place, "store.db")
        with served(folder, f"sqlite:///{path}") as fleet:
            # It can be read meanwhile, and the state of a session that is not changed is read alone.
            yield "sqlite locked", lambda: suffer(fleet, locked(path), away=False)
            yield "sqlite on a full disk", lambda: suffer(fleet, filled(place), away=False)
            yield "sqlite deleted", lambda: suffer(fleet, deleted(path), away=False, empty=True)
