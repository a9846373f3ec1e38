"""Real Redis and PostgreSQL servers for tests, each on a port and a folder of its own."""

import contextlib
import glob
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time

import psutil
import pytest

#: Seconds for which a server may take to start or to stop on a busy machine.
PATIENCE = 60


def free_port():
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]


def find_program(name, *places):
    """Return the path of a server's program; skips the test if it is not installed, or not wanted."""
    if os.environ.get("MCPLITE_STORES") == "none":
        pytest.skip("MCPLITE_STORES=none: without Redis and PostgreSQL")
    found = [path for place in places for path in sorted(glob.glob(place))]
    program = found[-1] if found else shutil.which(name)
    if program is None:
        pytest.skip(f"{name} is not installed")
    return program


class StoreServer:
    """A server that is started, killed and started again with the same data.

    :param url: of the backend.
    """

    def __init__(self, prefix):
        self.port = free_port()
        # Short, since a Unix socket's path is; in the system's folder, since another user must reach it.
        self.folder = tempfile.mkdtemp(prefix=prefix)
        self._process = None

    def start(self):
        with open(os.path.join(self.folder, "log"), "ab") as log:
            self._process = subprocess.Popen(self._command(), stdout=log, stderr=log, stdin=subprocess.DEVNULL, cwd=self.folder,
                                             **self._identity())
        until = time.monotonic() + PATIENCE
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > until:
                with open(os.path.join(self.folder, "log"), encoding="utf-8") as log:
                    said = log.read()[-2000:]
                self.close()
                pytest.fail(f"{self._command()[0]} did not start: {said}")
            time.sleep(0.02)
        return self

    def _identity(self):
        return {}

    def end(self, number):
        """Send a signal, and wait for the end of all its processes: PostgreSQL starts again only without the former ones."""
        children = psutil.Process(self._process.pid).children(recursive=True)
        self._process.send_signal(number)
        self._process.wait(PATIENCE)
        psutil.wait_procs(children, PATIENCE)

    def kill(self):
        self.end(signal.SIGKILL)

    def freeze(self):
        self._each(psutil.Process.suspend)

    def resume(self):
        self._each(psutil.Process.resume)

    def _each(self, action):
        """Do something to the server's processes, of which one may end meanwhile."""
        own = psutil.Process(self._process.pid)
        for process in [own, *own.children(recursive=True)]:
            with contextlib.suppress(psutil.NoSuchProcess):
                action(process)

    def close(self):
        if self._process is not None and self._process.poll() is None:
            self._each(psutil.Process.kill)  # also those that are suspended
            self._process.wait(PATIENCE)
        shutil.rmtree(self.folder, ignore_errors=True)


class RedisServer(StoreServer):
    """A Redis server that keeps its data in a file of appended commands.

    :param host: the address at which it listens, besides to this machine.
    """

    def __init__(self, host="127.0.0.1"):
        self._program, self._host = find_program("redis-server"), host
        super().__init__("mcplite-redis-")
        self.url = f"redis://127.0.0.1:{self.port}/0"

    def _command(self):
        return [self._program, "--port", str(self.port), "--bind", self._host, "--dir", self.folder, "--save", "",
                "--protected-mode", "no", "--appendonly", "yes", "--appendfsync", "always"]

    def _answers(self):
        try:
            with socket.create_connection(("127.0.0.1", self.port), 1) as sock:
                sock.sendall(b"PING\r\n")
                return sock.recv(100).startswith(b"+PONG")
        except OSError:
            return False

    def stop(self):
        self.end(signal.SIGTERM)


class PostgresServer(StoreServer):
    """A PostgreSQL server with one database, whose user needs no password."""

    def __init__(self):
        self._program = find_program("postgres", "/usr/lib/postgresql/*/bin/postgres")
        super().__init__("mcplite-postgres-")
        self.url = f"postgresql://postgres@127.0.0.1:{self.port}/postgres"
        if os.geteuid() == 0:
            os.chown(self.folder, pwd.getpwnam("postgres").pw_uid, -1)  # it does not run as root
        self._data = os.path.join(self.folder, "data")
        initdb = os.path.join(os.path.dirname(self._program), "initdb")
        subprocess.run([initdb, "-D", self._data, "-U", "postgres", "-A", "trust", "-N"], check=True, cwd=self.folder,
                       stdout=subprocess.DEVNULL, timeout=PATIENCE, **self._identity())

    def _identity(self):
        return {"user": "postgres", "group": "postgres", "extra_groups": []} if os.geteuid() == 0 else {}

    def _command(self):
        return [self._program, "-D", self._data, "-p", str(self.port), "-h", "127.0.0.1", "-k", self.folder, "-c", "fsync=off"]

    def _answers(self):
        program = os.path.join(os.path.dirname(self._program), "pg_isready")
        return subprocess.run([program, "-q", "-h", "127.0.0.1", "-p", str(self.port)], timeout=PATIENCE).returncode == 0

    def stop(self):
        self.end(signal.SIGINT)
