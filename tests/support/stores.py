"""Real Redis and PostgreSQL servers for tests, each on a port and a folder of its own."""

import contextlib
import glob
import os
import pwd
import re
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


def free_port(beside=0):
    """Return a free port; also the one that is higher by *beside* is free."""
    while True:
        with socket.socket() as sock, socket.socket() as other:
            sock.bind(("127.0.0.1", 0))
            port = sock.getsockname()[1]
            with contextlib.suppress(OSError, OverflowError):
                other.bind(("127.0.0.1", port + beside if beside else 0))
                return port


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

    #: A second port that the server listens on is higher by so much.
    beside = 0

    def __init__(self, prefix):
        self.port = free_port(self.beside)
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


class RedisNode(RedisServer):
    """One node of a Redis cluster; it talks to the others on a port of its own."""

    beside = 10_000

    def _command(self):
        return [*super()._command(), "--cluster-enabled", "yes", "--cluster-node-timeout", "1500", "--cluster-config-file",
                "nodes.conf", "--cluster-require-full-coverage", "no", "--cluster-allow-replica-migration", "no",
                "--repl-diskless-sync-delay", "0"]


class RedisClusterServers:
    """Nodes of one Redis cluster: three with a third of the slots each, and with a replica for each if wanted.

    :param url: of the backend; it names the first two nodes.
    """

    def __init__(self, replicas=0):
        self._cli = find_program("redis-cli")
        self.nodes = [RedisNode() for _ in range(3 * (1 + replicas))]
        self._replicas = replicas
        self.url = f"redis+cluster://127.0.0.1:{self.nodes[0].port},127.0.0.1:{self.nodes[1].port}"

    def start(self):
        try:
            for node in self.nodes:
                node.start()
            addresses = [f"127.0.0.1:{node.port}" for node in self.nodes]
            made = self._run("--cluster", "create", *addresses, "--cluster-replicas", str(self._replicas), "--cluster-yes")
            assert "16384 slots covered" in made, made
            self.wait(lambda: all(self._whole(self.ask(node, "cluster", "nodes")) for node in self.nodes))
            self.wait(lambda: all("cluster_state:ok" in self.ask(node, "cluster", "info") for node in self.nodes))
            self.wait(lambda: self._copies() == 3 * self._replicas)
        except BaseException:
            self.close()
            raise
        return self

    def _whole(self, listed):
        """Whether a node knows all others, and is connected to them."""
        return len(listed.splitlines()) == len(self.nodes) and "disconnected" not in listed and "handshake" not in listed

    def _copies(self):
        """How many replicas have all data of their node."""
        return sum("master_link_status:up" in self.ask(node, "info", "replication") for node in self.nodes)

    def _run(self, *arguments):
        done = subprocess.run([self._cli, *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=PATIENCE)
        return done.stdout.decode()

    def ask(self, node, *command):
        """Return what a node answers to a command, as redis-cli prints it."""
        return self._run("-p", str(node.port), *command)

    def wait(self, condition):
        until = time.monotonic() + PATIENCE
        while not condition():
            if time.monotonic() > until:
                pytest.fail(f"the cluster has not come to its state: {self.ask(self.nodes[0], 'cluster', 'nodes')}")
            time.sleep(0.05)

    def id(self, node):
        return self.ask(node, "cluster", "myid").strip()

    def primaries(self):
        return [node for node in self.nodes if "role:master" in self.ask(node, "info", "replication")]

    def replicate(self, node):
        """Wait until the replica of a node has all that was written to the node."""
        def offsets():
            return re.search(r"offset=(\d+),lag.*master_repl_offset:(\d+)", self.ask(node, "info", "replication"), re.DOTALL)

        self.wait(lambda: offsets() and len(set(offsets().groups())) == 1)

    def owner(self, key):
        """The node that has the slot of a key, and the slot."""
        slot = int(self.ask(self.nodes[0], "cluster", "keyslot", key))
        for line in self.ask(self.nodes[0], "cluster", "nodes").splitlines():
            _, address, flags, *_, = line.split(" ")
            for field in line.split(" ")[8:]:
                low, _, high = field.partition("-")
                if "master" in flags and low.isdigit() and int(low) <= slot <= int(high or low):
                    port = int(address.partition("@")[0].rpartition(":")[2])
                    return next(node for node in self.nodes if node.port == port), slot
        raise AssertionError(f"no node has slot {slot}")

    def close(self):
        for node in self.nodes:
            node.close()


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
