"""Two hosts as network namespaces with one Redis, a front that gives each connection to either, and cables that are cut."""

import contextlib
import os
import shutil
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

from tests.fleet.faults import explained
from tests.fleet.load import Load, act, book, linger, read, reverse, tools
from tests.fleet.scenarios import judge
from tests.support.fleets import Fleet
from tests.support.stores import RedisServer

HERE = Path(__file__).resolve().parent
KEY = "a key of thirty-two bytes or more!"
CLIENTS = 12


def run(*words):
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=60)


def reason_against():
    """Why there can be no hosts here, as a text; None if there can."""
    if sys.platform != "linux" or os.geteuid() != 0 or shutil.which("ip") is None:
        return "network namespaces are made by root, with the program ip, on Linux"
    return None


class Cable:
    """A virtual cable from this machine into a namespace, with an address at each end."""

    def __init__(self, space, name, network):
        self._space, self._near, self._far = space, f"{name}n{os.getpid()}"[:15], f"{name}f{os.getpid()}"[:15]
        self.near, self.far = f"198.18.{network}.1", f"198.18.{network}.2"
        run("ip", "link", "add", self._near, "type", "veth", "peer", "name", self._far, "netns", space)
        run("ip", "addr", "add", f"{self.near}/30", "dev", self._near)
        run("ip", "link", "set", self._near, "up")
        run("ip", "-n", space, "addr", "add", f"{self.far}/30", "dev", self._far)
        run("ip", "-n", space, "link", "set", self._far, "up")

    def pull(self):
        """Packets are lost, and the programs are not told."""
        run("ip", "-n", self._space, "link", "set", self._far, "down")

    def plug(self):
        run("ip", "-n", self._space, "link", "set", self._far, "up")

    @contextlib.contextmanager
    def pulled(self):
        self.pull()
        try:
            yield
        finally:
            self.plug()


class Host:
    """A namespace with a cable to the front and one to the store, and a fleet of two workers in it."""

    def __init__(self, number):
        self.space = f"mcplite{os.getpid()}h{number}"
        run("ip", "netns", "add", self.space)
        self.fleet = None
        run("ip", "-n", self.space, "link", "set", "lo", "up")
        self.front = Cable(self.space, f"fr{number}", 70 + 2 * number)
        self.back = Cable(self.space, f"ba{number}", 71 + 2 * number)

    def serve(self, folder, redis_port):
        os.makedirs(folder, exist_ok=True)
        backend = f"redis://{self.back.near}:{redis_port}/0"
        self.fleet = Fleet("server:application", HERE, folder, backend, workers=2, threads=32,
                           host=self.front.far, port=8000, prefix=["ip", "netns", "exec", self.space], MCPLITE_STATE_KEYS=KEY)
        return self

    def close(self):
        if self.fleet is not None:
            self.fleet.close()
        run("ip", "netns", "del", self.space)


class Front:
    """Gives connections to the hosts in turn, and to another one when one does not answer; tells dead hosts by a probe."""

    def __init__(self, hosts):
        self._hosts = [(host.front.far, 8000) for host in hosts]
        self._alive = {host: True for host in self._hosts}
        #: Guards ``_pairs``.
        self._lock = threading.Lock()
        self._pairs = {host: set() for host in self._hosts}
        self._count, self._ended = 0, threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=256)
        self.port = self._listener.getsockname()[1]
        self._threads = [threading.Thread(target=self._accept, daemon=True), threading.Thread(target=self._probe, daemon=True)]
        for thread in self._threads:
            thread.start()

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(near,), daemon=True).start()

    def _serve(self, near):
        for _ in range(2 * len(self._hosts)):
            with self._lock:
                self._count += 1
                host = self._hosts[self._count % len(self._hosts)]
            if not self._alive[host]:
                continue
            try:
                far = socket.create_connection(host, 2)
            except OSError:
                continue
            far.settimeout(None)
            with self._lock:
                self._pairs[host].add((near, far))
            back = threading.Thread(target=self._carry, args=(far, near), daemon=True)
            back.start()
            self._carry(near, far)
            back.join()
            with self._lock:
                self._pairs[host].discard((near, far))
            far.close()
            break
        near.close()

    @staticmethod
    def _carry(source, sink):
        with contextlib.suppress(OSError):
            while True:
                data = source.recv(65_536)
                if not data:
                    break
                sink.sendall(data)
        with contextlib.suppress(OSError):
            sink.shutdown(socket.SHUT_WR)

    def _probe(self):
        while not self._ended.wait(0.5):
            for host in self._hosts:
                try:
                    socket.create_connection(host, 2).close()
                    self._alive[host] = True
                except OSError:
                    self._alive[host] = False
                    self._cut(host)

    def _cut(self, host):
        with self._lock:
            for pair in self._pairs[host]:
                for end in pair:
                    with contextlib.suppress(OSError):
                        end.shutdown(socket.SHUT_RDWR)

    def close(self):
        self._ended.set()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for host in self._hosts:
            self._cut(host)
        self._threads[1].join()


class Both:
    """The fleets of both hosts behind the front, for the checks of a load."""

    def __init__(self, folder, port):
        self.folder, self.port, self.url = Path(folder), port, f"http://127.0.0.1:{port}/mcp"


def cut_and_mend(both, cable, seconds):
    """Cut a cable in the middle of questions and streams."""
    with Load(both.url, CLIENTS, [book, linger, reverse, read, act, tools], pause=0.02) as load:
        assert load.goes_on(3 * CLIENTS), load.failed[:5]
        with cable.pulled():
            time.sleep(seconds)
        mended = time.monotonic()
        assert load.goes_on(5 * CLIENTS), load.failed[-5:]
        recovered = time.monotonic() - mended
    return {**judge(load, both, lambda failure: explained(failure[3])), "cut for": f"{seconds} s",
            "went on after": f"{recovered:.1f} s"}


def two_hosts(folder):
    """The cable of one host to the front is cut, that to the store, and both, for longer and shorter."""
    with contextlib.ExitStack() as stack:
        redis = RedisServer(host="0.0.0.0").start()
        stack.callback(redis.close)
        hosts = []
        for number in range(2):
            hosts.append(Host(number))
            stack.callback(hosts[-1].close)
        for host in hosts:
            host.serve(folder, redis.port)
        for host in hosts:
            host.fleet.wait_for_start()
        front = Front(hosts)
        stack.callback(front.close)
        both = Both(folder, front.port)
        for seconds in (3, 12):
            yield (f"a host is cut off from its clients for {seconds} s",
                   lambda seconds=seconds: cut_and_mend(both, hosts[0].front, seconds))
            yield (f"a host is cut off from Redis for {seconds} s",
                   lambda seconds=seconds: cut_and_mend(both, hosts[1].back, seconds))
