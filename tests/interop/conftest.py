"""Where the other implementations are, and how their tests start what they need.

``install.sh`` puts them into the folder MCPLITE_INTEROP, by default ``.interop`` of this checkout. What is
not there is skipped; a test run that must not skip anything installs them first, as ``.ci/run`` does.
"""

import contextlib
import os
import queue
import re
import shlex
import shutil
import socket
import subprocess
import sys
import threading
import urllib.parse
from pathlib import Path

import pytest

from tests.interop import bridging
from tests.support import processes

ROOT = Path(__file__).resolve().parent.parent.parent
HERE = Path(__file__).resolve().parent
#: Seconds; a loaded machine starts node slowly.
LIMIT = 60
#: Makes a server in JavaScript say where it listens, which it does not for "any free port".
TELL = """import http from "node:http";
const listen = http.Server.prototype.listen;
http.Server.prototype.listen = function (...given) {
    this.on("listening", () => console.log(`http://127.0.0.1:${this.address().port}/`));
    return listen.apply(this, given);
};"""


#: What the programs of an environment import, which takes seconds.
PRELOADED = {
    "mcp1": ["mcp.client.auth", "mcp.client.sse", "mcp.client.streamable_http", "mcp.server.fastmcp", "uvicorn"],
    "mcp2": ["mcp.client.auth", "mcp.client.sse", "mcp.client.streamable_http", "mcp.server.mcpserver", "uvicorn"],
    "fastmcp4": ["fastmcp.client.transports", "fastmcp.server.event_store", "fastmcp_tasks", "uvicorn"],
}


class Installed:
    """The installed implementations; asking for one that is not there skips the test.

    :param folder: for what takes the place of a Python that has its library loaded.
    """

    home = Path(os.environ.get("MCPLITE_INTEROP") or ROOT / ".interop")

    def __init__(self, folder):
        self._folder = folder

    def python(self, environment):
        """Return the Python of an environment: "mcp1", "mcp2", "fastmcp4" or "servers"; on POSIX with its library loaded."""
        python = self._need(environment, "bin/python" if os.name == "posix" else "Scripts/python.exe")
        if os.name != "posix" or environment not in PRELOADED:
            return python
        launcher = self._folder / environment
        if not launcher.exists():
            self._preload(environment, python, launcher)
        return str(launcher)

    def _preload(self, environment, python, launcher):
        path = launcher.with_suffix(".socket")
        # It is no child of this process, and nothing of it is open here, since it outlives the test.
        command = shlex.join([python, "-W", "ignore", str(HERE / "preloaded.py"), str(path), str(os.getpid()),
                              *PRELOADED[environment]])
        said = launcher.with_suffix(".txt")
        # FastMCP reads its settings once, with the import.
        subprocess.run(["sh", "-c", f"{command} < /dev/null > {shlex.quote(str(said))} 2>&1 &"], check=True,
                       env={"PATH": os.environ["PATH"], "FASTMCP_CHECK_FOR_UPDATES": "off"}, start_new_session=True)
        if not processes.wait_until(path.exists):
            raise AssertionError(f"{environment} was not loaded: {said.read_text('utf-8')[-4000:]}")
        source = (HERE / "launch.py").read_text("utf-8")
        launcher.write_text(f"#!{os.path.realpath(sys.executable)} -IS\n{source}\n\nmain({str(path)!r}, {python!r})\n", "utf-8")
        launcher.chmod(0o700)

    def node(self, package, *options):
        """Return the command of a server in JavaScript; *options* are for node."""
        self._need_node()
        return ["node", *options, self._need("node", f"node_modules/@modelcontextprotocol/{package}/dist/index.js")]

    @property
    def tells(self):
        """Options of node for a server that is to say where it listens."""
        return ["--import", "data:text/javascript," + urllib.parse.quote(TELL)]

    def bridge(self, path, *options):
        """Return the command of a program among the bridges; *options* are for node."""
        self._need_node()
        return ["node", *options, self._need("bridges", f"node_modules/{path}")]

    def program(self, environment, path, *arguments):
        """Return the command of another program in JavaScript."""
        self._need_node()
        return ["node", self._need(environment, f"node_modules/{path}"), *arguments]

    def script(self, name, *arguments, environment="node"):
        """Return the command of a script of ours in JavaScript, which is told where the packages are."""
        self._need_node()
        return ["node", str(HERE / name), self._need(environment, "node_modules"), *arguments]

    def inspector(self):
        """Return the command of the Inspector."""
        self._need_node()
        program = self._need("inspector", "node_modules/@modelcontextprotocol/inspector/clients/launcher/build/index.js")
        return [processes.recent_node(self.home), program]

    def _need_node(self):
        if shutil.which("node") is None:
            pytest.skip("node is not installed")

    def _need(self, environment, path):
        # The stamp is written when all of it is there.
        if not (self.home / environment / "installed").is_file():
            pytest.skip(f"{self.home / environment} is not there; tests/interop/install.sh makes it")
        return str(self.home / environment / path)


class ServerProcess:
    """A server over HTTP as a process of its own: its first line with a URL says where it is."""

    def __init__(self, command, env):
        self._lines = []
        self._urls = queue.Queue()
        #: Guards ``_lines``, and tells of new ones.
        self._written = threading.Condition()
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                        encoding="utf-8", errors="replace", env={**os.environ, **env})
        # It ends with the process, and reads on so that the process never waits for its output to be read.
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        try:
            self.url = self._urls.get(timeout=LIMIT)
        except queue.Empty:
            self.url = None
        if self.url is None:
            self.end()
            pytest.fail(f"{command} did not say where it serves:\n{self.output}")

    def _read(self):
        for line in self.process.stdout:
            with self._written:
                self._lines.append(line)
                self._written.notify_all()
            found = re.search(r"http://[^\s/]+\S*", line)
            if found:
                self._urls.put(found.group())
        self._urls.put(None)

    @property
    def inner_url(self):
        """Where the server itself is, which may be behind bridges."""
        return self.url

    @property
    def output(self):
        """The end of what it wrote."""
        return "".join(self._lines)[-6000:]

    def heard(self, words):
        """Wait until it has written this; return whether it has."""
        with self._written:
            return self._written.wait_for(lambda: words in self.output, LIMIT)

    def leave(self):
        """Close its stdin, at whose end our server exits; return its exit status."""
        self.process.stdin.close()
        return self.process.wait(LIMIT)

    def end(self):
        """End it."""
        self.process.kill()
        self.process.wait(LIMIT)
        self._reader.join(LIMIT)
        self.process.stdout.close()
        self.process.stdin.close()


class CuttingProxy:
    """Stands between a client and a server, and breaks off each connection whose response has a mark in it."""

    def __init__(self, url, mark):
        host, port = re.search(r"//([^:/]+):(\d+)", url).groups()
        self._target = host, int(port)
        self._mark = mark
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = url.replace(f"//{host}:{port}", f"//127.0.0.1:{self._listener.getsockname()[1]}")
        #: How many connections were broken off.
        self.cuts = 0
        self._sockets = []
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                far = socket.create_connection(self._target, LIMIT)
                far.settimeout(None)
                self._sockets += [near, far]
                for source, sink, mark in ((near, far, None), (far, near, self._mark)):
                    thread = threading.Thread(target=self._carry, args=(source, sink, mark), daemon=True)
                    self._threads.append(thread)
                    thread.start()

    def _carry(self, source, sink, mark):
        seen = b""
        with contextlib.suppress(OSError):
            while True:
                data = source.recv(65_536)
                if not data:
                    break
                sink.sendall(data)
                seen = seen[-100:] + data
                if mark is not None and mark in seen and seen.rstrip(b"\r\n") != seen:
                    # The event has been passed on to its end, and nothing behind it.
                    self.cuts += 1
                    break
        for end in (source, sink):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def close(self):
        for end in (self._listener, *self._sockets):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()
        for thread in self._threads:
            thread.join(LIMIT)


@contextlib.contextmanager
def _serving(command, **env):
    server = ServerProcess(command, env)
    try:
        yield server
    finally:
        server.end()
        print(server.output)  # shown when the test fails


@contextlib.contextmanager
def _cutting(url, mark):
    proxy = CuttingProxy(url, mark)
    try:
        yield proxy
    finally:
        proxy.close()


def passed(target, options):
    """``with passed(target, options) as (target, options)``: what our client connects to, behind a bridge if there are any."""
    return bridging.passed(target, _serving, options)


@pytest.fixture(scope="session")
def installed(tmp_path_factory):
    return Installed(tmp_path_factory.mktemp("installed"))


@pytest.fixture(scope="session")
def serving():
    """``with serving(command, **env) as server``: a :class:`ServerProcess`."""
    return _serving


@contextlib.contextmanager
def _everything_served(*options, revision=None, **env):
    command = [sys.executable, str(HERE / "everything.py"), "http", *options]
    if not bridging.BRIDGED:
        with _serving(command, **env) as server:
            yield server
        return
    words = ["--stateless"] if options == ("stateless",) else []
    with _serving(command) as inner, bridging.bridged_twice(
            inner, _serving, *words, revision=revision, **env) as server:
        yield server


@pytest.fixture(scope="session")
def everything_served():
    """``with everything_served(*options, revision=None, **env) as server``: everything.py over HTTP.

    It is behind bridges if there are any, which speak that revision with it.
    """
    return _everything_served


@pytest.fixture(scope="session")
def everything_started(tmp_path_factory):
    """``with everything_started(revision=None) as python``: what clients start with the path of everything.py, for stdio."""
    @contextlib.contextmanager
    def start(revision=None):
        if not bridging.BRIDGED:
            yield sys.executable
            return
        with _serving([sys.executable, str(HERE / "everything.py"), "http"]) as server:
            yield bridging.stdio_program(server.url, tmp_path_factory.mktemp("bridge"), revision)
            assert server.leave() == 0, server.output

    return start


@pytest.fixture(scope="session")
def cutting():
    """``with cutting(url, mark) as proxy``: a :class:`CuttingProxy`."""
    return _cutting
