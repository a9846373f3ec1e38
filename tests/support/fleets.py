"""Fleets: workers of gunicorn that serve one application over a shared store, each request from any of them."""

import collections
import contextlib
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from .processes import ROOT

#: Seconds for what ends by an event: starts, ends and the noticing of a death, on a busy machine.
LIMIT = 90
KINDS = ["sqlite", "redis", "postgres"]
#: Those and a cluster of three Redis servers.
EVERY_KIND = [*KINDS, "cluster"]


class Fleet:
    """A master of gunicorn and its workers.

    Without keep-alive each request comes on a connection of its own, which the system gives to any worker.

    :param application: as gunicorn wants it, with :func:`marks.counted` around it.
    :param place: the folder where it is.
    :param folder: for the notes of the workers and their log; they know it as FLEET_FOLDER.
    :param backend: URL of the shared store.
    :param keep_alive: seconds for which the workers keep connections.
    :param spread: the system deals connections to the workers by chance; otherwise the first worker that is free takes one,
        which on an idle machine is the same one for long. A worker that is killed takes connections with it that wait for it.
    :param grace: seconds that a worker has for the calls that run when it is told to end.
    :param preload: the application is imported once, before the workers are forked, which makes a start short.
    :param prefix: words before the command, such as those that enter a network namespace.
    :param variables: more of the environment.
    """

    def __init__(self, application, place, folder, backend, workers=4, threads=16, keep_alive=0, spread=False, preload=False,
                 grace=20, host="127.0.0.1", port=None, prefix=(), **variables):
        self.folder, self.backend = Path(folder), backend
        if port is None:
            with socket.create_server((host, 0)) as free:
                port = free.getsockname()[1]
        self.host, self.port = host, port
        self.url = f"http://{host}:{port}/mcp"
        self.variables = {"MCPLITE_BACKEND": backend, "FLEET_FOLDER": str(folder), **variables}
        self.variables.setdefault("MCPLITE_STATE_KEYS", secrets.token_hex(16))
        options = [*(["--reuse-port"] if spread else []), *(["--preload"] if preload else [])]
        command = [*prefix, sys.executable, "-W", "ignore::DeprecationWarning", "-m", "gunicorn", f"--bind={host}:{port}",
                   "--worker-class=gthread", f"--threads={threads}", f"--workers={workers}", f"--keep-alive={keep_alive}",
                   f"--graceful-timeout={grace}", *options, application]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(place)]), **self.variables}
        with open(self.folder / "log", "ab") as log:
            self.process = subprocess.Popen(command, cwd=str(place), env=environment, stdin=subprocess.DEVNULL, stdout=log,
                                            stderr=log)
        self._size = workers

    def wait_for_start(self):
        """Wait until it accepts connections, and all of its workers are there."""
        end = time.monotonic() + LIMIT
        while True:
            try:
                socket.create_connection((self.host, self.port), 1).close()
                if len(self.workers()) == self._size:
                    return self
            except OSError:
                pass
            if self.process.poll() is not None or time.monotonic() > end:
                self.close()
                pytest.fail(f"the fleet did not start: {self.log}")
            time.sleep(0.05)

    @property
    def log(self):
        """The end of what the workers wrote."""
        return (self.folder / "log").read_text("utf-8", "replace")[-6000:]

    def workers(self):
        """The ids of the workers that run."""
        found = []
        for child in psutil.Process(self.process.pid).children():
            with contextlib.suppress(psutil.NoSuchProcess):
                if child.status() != psutil.STATUS_ZOMBIE:
                    found.append(child.pid)
        return found

    def served(self):
        """How many requests each worker has served."""
        with contextlib.suppress(FileNotFoundError):
            return collections.Counter(map(int, (self.folder / "served").read_text().split()))
        return collections.Counter()

    def reload(self):
        """Have all workers replaced, as a deployment does; they finish what they have begun."""
        self.process.send_signal(signal.SIGHUP)

    def close(self):
        """End it, at first in an orderly way."""
        if self.process.poll() is None:
            workers = psutil.Process(self.process.pid).children(recursive=True)
            self.process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(LIMIT)
            for worker in workers:
                with contextlib.suppress(psutil.NoSuchProcess):
                    worker.kill()
        self.process.kill()
        self.process.wait(LIMIT)


@contextlib.contextmanager
def running_store(kind, folder):
    """Start a store of a kind until the end of the block, which gets its URL and, except for SQLite, its server.

    Skips the test when its program or its library is not installed.
    """
    if kind == "sqlite":
        yield f"sqlite:///{Path(folder) / 'store.db'}", None
        return
    pytest.importorskip("psycopg" if kind == "postgres" else "redis")
    stores = pytest.importorskip("tests.support.stores")
    kinds = {"redis": stores.RedisServer, "cluster": stores.RedisClusterServers, "postgres": stores.PostgresServer}
    server = kinds[kind]().start()
    try:
        yield server.url, server
    finally:
        server.close()


@contextlib.contextmanager
def running_fleet(application, place, folder, backend, **options):
    """Run a :class:`Fleet` until the end of the block."""
    fleet = Fleet(application, place, folder, backend, **options)
    try:
        yield fleet.wait_for_start()
    finally:
        fleet.close()
